"""The certificate: what a run did, measured frame by frame, in SI units and under fixed names.

Strain is measured from positions alone, not taken from the energies: |w_u|/b_u - 1 along warp, |w_v|/b_v - 1 along weft
(means are of absolute values, weighted by area), and length/rest length - 1 along edges.
"""

import importlib.metadata
import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from toile.launcher import Launcher
from toile.math.types import precision, real, vec3
from toile.model.model import Model
from toile.model.state import State
from toile.system import System

# A frame's strain entry, in the order the kernels write it, and what of it counts for the largest of a run
STRAINS = ("warp_max", "warp_mean", "weft_max", "weft_mean", "edge_max")
LARGEST = ("warp_max", "weft_max", "edge_max")

INFINITE = wp.constant(real(np.inf))


class Strain:
    """Stretch of every triangle and edge of a model."""

    def __init__(self, model: Model, device: str):
        self.model = model
        self._triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
        self._weights = wp.array(model.uv_weights.reshape(-1, 3), dtype=vec3, device=device)
        self._shares = wp.array(model.areas / max(model.areas.sum(), 1e-300), dtype=real, device=device)
        self._edges = wp.array(model.edges, dtype=wp.vec2i, device=device)
        self._lengths = wp.array(model.edge_lengths(0.0), dtype=real, device=device)
        self._b = wp.array(self._rest_stretch(0.0), dtype=real, device=device)
        self._moves = any(model.rest_stretch_moves(part) for part in range(len(model.parts)))
        self._found = wp.zeros(len(STRAINS), dtype=real, device=device)
        self._change = wp.zeros(1, dtype=real, device=device)
        self._launch = Launcher(device)

    def largest_change(self, x_before: wp.array, x: wp.array) -> float:
        """The largest change of |w_u| or |w_v| of any triangle; infinite if a position is not a number."""
        self._change.zero_()
        inputs = [self._triangles, self._weights, x_before, x, self._change]
        self._launch(measure_change, self.model.triangle_count, inputs)
        return float(self._change.numpy()[0])

    def summary(self, x: wp.array, time: float) -> dict[str, float]:
        """The certificate's strain entry."""
        if self._moves:
            self._b.assign(self._rest_stretch(time))
            self._lengths.assign(self.model.edge_lengths(time))
        self._found.zero_()
        triangle_inputs = [self._triangles, self._weights, self._shares, self._b, x, self._found]
        self._launch(measure_triangles, self.model.triangle_count, triangle_inputs)
        self._launch(measure_edges, len(self.model.edges), [self._edges, self._lengths, x, self._found])
        return dict(zip(STRAINS, self._found.numpy().astype(float).tolist(), strict=True))

    def _rest_stretch(self, time: float) -> np.ndarray:
        """b_u and b_v of every triangle, one after the other."""
        model = self.model
        parts = range(len(model.parts))
        b = [np.concatenate([np.ones(0), *(model.rest_stretch(p, axis, time) for p in parts)]) for axis in (0, 1)]
        return np.stack(b, axis=1).ravel()


@dataclass
class FrameTally:
    """What happens between two frames."""

    steps: int = 0
    rejected: int = 0
    h_min: float = np.inf
    h_max: float = 0.0
    iterations: int = 0
    residual: float = 0.0

    def add_step(self, h: float, iterations: int, residual: float) -> None:
        self.steps += 1
        self.h_min, self.h_max = min(self.h_min, h), max(self.h_max, h)
        self.iterations += iterations
        self.residual = max(self.residual, residual)


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

    def add(
        self,
        number: int,
        state: State,
        tally: FrameTally,
        strain: dict,
        system: System,
        ms: dict,
        solids: dict[str, dict[str, Any]],
    ) -> dict[str, Any]:
        """One frame's entry. `solids` says for each solid how the cloth touches it."""
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
            # Cloth on cloth is neither handled nor audited yet: no figure rather than a zero nobody checked.
            "intersections": None,
            "solid_depth": max((solid["depth"] for solid in solids.values()), default=0.0),
            "contacts": {"solid": sum(solid["contacts"] for solid in solids.values()), "cloth": 0},
            "solids": solids,
            "energy": {"kinetic": kinetic, **system.energies(state.x, state.v)},
            "momentum": (masses @ v).tolist(),
            "solver": {"iterations": tally.iterations, "residual": tally.residual},
            "ms": ms,
        }
        self.frames.append(entry)
        return entry

    def report(self) -> dict[str, Any]:
        """The whole certificate; `ok` says that every frame asked for was computed."""
        frames = self.frames
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
                "ms_per_frame": float(np.median([sum(e["ms"].values()) for e in frames])) if frames else 0.0,
                "max_strain": max((e["strain"][name] for e in frames for name in LARGEST), default=0.0),
                "intersections": None,
                "solid_depth": max((entry["solid_depth"] for entry in frames), default=0.0),
                "ok": self.complete,
            },
            "frames": frames,
        }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@wp.func
def stretch_along(weights: vec3, corners: wp.vec3i, x: wp.array(dtype=vec3)) -> real:
    return wp.length(weights[0] * x[corners[0]] + weights[1] * x[corners[1]] + weights[2] * x[corners[2]])


@wp.kernel
def measure_change(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3),
    # in
    x_before: wp.array(dtype=vec3), x: wp.array(dtype=vec3),
    # out
    change_out: wp.array(dtype=real),
):
    t = wp.tid()
    for axis in range(2):
        w = weights[2 * t + axis]
        change = wp.abs(stretch_along(w, triangles[t], x) - stretch_along(w, triangles[t], x_before))
        # Not a number counts as infinite: a maximum would forget it.
        if not (change < INFINITE):
            change = INFINITE
        wp.atomic_max(change_out, 0, change)


@wp.kernel
def measure_triangles(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3), shares: wp.array(dtype=real),
    # in
    b: wp.array(dtype=real), x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=real),
):
    t = wp.tid()
    for axis in range(2):
        strain = stretch_along(weights[2 * t + axis], triangles[t], x) / b[2 * t + axis] - real(1.0)
        wp.atomic_max(found_out, 2 * axis, strain)
        wp.atomic_add(found_out, 2 * axis + 1, shares[t] * wp.abs(strain))


@wp.kernel
def measure_edges(
    # model
    edges: wp.array(dtype=wp.vec2i), lengths: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=real),
):
    e = wp.tid()
    wp.atomic_max(found_out, 4, wp.length(x[edges[e][1]] - x[edges[e][0]]) / lengths[e] - real(1.0))
