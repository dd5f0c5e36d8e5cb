"""The certificate: what a run did, frame by frame, in SI units and under fixed names."""

import importlib.metadata
import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toile.linear.modified_pcg import Solution
from toile.math.types import precision
from toile.model.state import State
from toile.system.system import System

# Values of a frame's strain entry that count for the largest of a run
LARGEST = ("warp_max", "weft_max", "edge_max")


@dataclass
class FrameTally:
    """Steps and solves between two frames."""

    steps: int = 0
    rejected: int = 0
    h_min: float = np.inf
    h_max: float = 0.0
    solves: int = 0  # linear systems
    iterations: int = 0
    residual: float = 0.0
    truncated: int = 0  # vertices whose paths contact shortened, summed over steps

    def add_step(self, h: float, solution: Solution, truncated: int) -> None:
        self.steps += 1
        self.h_min, self.h_max = min(self.h_min, h), max(self.h_max, h)
        self.solves += solution.solves
        self.iterations += solution.iterations
        self.residual = max(self.residual, solution.residual)
        self.truncated += truncated


@dataclass
class Certificate:
    """Collects the entries of report.json."""

    scene: str
    hash: str
    device: str
    seed: int
    frames: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False
    failed_tries: int = 0  # of the frame that could not be computed
    intersections_start: int | None = None  # pairs of triangles; None when they were not counted

    def add(
        self,
        number: int,
        state: State,
        tally: FrameTally,
        strain: dict,
        system: System,
        ms: dict,
        solids: dict[str, dict[str, Any]],
        intersections: int | None = None,
        cloth_contacts: int = 0,
        pinched: int | None = 0,
    ) -> dict[str, Any]:
        """Adds one frame's entry. `solids` has contacts, force and depth of each solid, `cloth_contacts` the number of
        contacts between cloths, `pinched` that of particles pinched between solids."""
        v = state.v.numpy().astype(float)
        masses = system.model.masses
        kinetic = 0.5 * float(np.sum(masses * np.einsum("ij,ij->i", v, v)))
        entry = {
            "frame": number,
            "time": state.t,
            "steps": tally.steps,
            "rejected": tally.rejected,
            "h_min": tally.h_min,
            "h_max": tally.h_max,
            "strain": strain,
            # Without an audit the value is null, not a zero that nobody checked.
            "intersections": intersections,
            "solid_depth": max((solid["depth"] for solid in solids.values()), default=0.0),
            "pinched": pinched,
            "contacts": {"solid": _total([solid["contacts"] for solid in solids.values()]), "cloth": cloth_contacts},
            "solids": solids,
            "energy": {"kinetic": kinetic, **system.energies(state.x, state.v)},
            "momentum": (masses @ v).tolist(),
            "solver": {"solves": tally.solves, "iterations": tally.iterations, "residual": tally.residual},
            "truncated": tally.truncated,
            "ms": ms,
        }
        self.frames.append(entry)
        return entry

    def report(self) -> dict[str, Any]:
        """Returns the whole certificate; `ok` means that all frames were computed, without new intersections."""
        frames = self.frames
        counted = [entry["intersections"] for entry in frames if entry["intersections"] is not None]
        start = self.intersections_start
        without = None if frames else start  # of a run whose frames were not counted
        packages = ("toile", "warp-lang", "numpy", "scipy")
        return {
            "scene": self.scene,
            "hash": self.hash,
            "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
            "device": self.device,
            "precision": precision,
            "seed": self.seed,
            "summary": {
                "frames": len(frames),
                "steps": sum(entry["steps"] for entry in frames),
                "rejected": sum(entry["rejected"] for entry in frames) + self.failed_tries,
                # The median: the first frame loads kernels, and may compile them.
                "ms_per_frame": float(np.median([_computing(e["ms"]) for e in frames])) if frames else 0.0,
                "max_strain": max((e["strain"][name] for e in frames for name in LARGEST), default=0.0),
                "intersections": max(counted, default=without),
                "intersections_start": start,
                "intersections_end": counted[-1] if counted else without,
                "solid_depth": max((entry["solid_depth"] for entry in frames), default=0.0),
                "pinched": max(
                    (e["pinched"] for e in frames if e["pinched"] is not None), default=None if frames else 0
                ),
                "truncated": sum(entry["truncated"] for entry in frames),
                # While tangled cloth comes apart there may be more for a moment; clean cloth never has any.
                "ok": self.complete and (counted[-1] <= start if start and counted else max(counted, default=0) == 0),
            },
            "frames": frames,
        }


def _computing(ms: dict[str, float]) -> float:
    """Returns the time of a frame [ms] without that of its audit."""
    return sum(time for stage, time in ms.items() if stage != "audit")


def _total(counts: list[int | None]) -> int | None:
    """Returns the sum of those that were counted; None if there are some and none was."""
    counted = [count for count in counts if count is not None]
    return None if counts and not counted else sum(counted)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
