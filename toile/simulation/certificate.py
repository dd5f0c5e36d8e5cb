"""The certificate: what a run did, measured frame by frame, in SI units and under fixed names.

Strain is measured from positions alone, not taken from the energies: |w_u|/b_u - 1 along warp, |w_v|/b_v - 1 along weft
(means are of absolute values, weighted by area), and length/rest length - 1 along edges.

Intersections are pairs of triangles that the audit finds in the positions; what the contacts believe does not enter.
"""

import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from toile.contact.intersection_audit import Audit
from toile.device.launcher import Launcher
from toile.device.readback import Readback
from toile.errors import InputError
from toile.math.types import precision, real, vec3
from toile.model.model import Model
from toile.model.state import State
from toile.system.system import System

# A frame's strain entry, in the order the kernels write it, and what of it counts for the largest of a run
STRAINS = ("warp_max", "warp_mean", "weft_max", "weft_mean", "edge_max")
LARGEST = ("warp_max", "weft_max", "edge_max")

AUDITS = ("none", "frame", "step")
# A warning names so many pairs of triangles; all are in intersections.obj.
PAIRS_SHOWN = 3

INFINITE = wp.constant(real(np.inf))


class Changes(NamedTuple):
    """Of the stretch of triangles in a step, the largest along a thread."""

    stretch: float  # how much farther from rest; infinite if a position is not a number. Back to rest anything may go
    excess: float  # how much longer, of what is beyond its extension; 0 if nothing is


class Strain:
    """Stretch of every triangle and edge of a model."""

    def __init__(self, model: Model, device: str, limited: Sequence[bool] | None = None):
        """`limited` tells for each cloth whether something keeps it inside the extension of its fabric."""
        self.model = model
        self._triangles = wp.array(model.triangles, dtype=wp.vec3i, device=device)
        self._weights = wp.array(model.uv_weights.reshape(-1, 3), dtype=vec3, device=device)
        self._shares = wp.array(model.areas / max(model.areas.sum(), 1e-300), dtype=real, device=device)
        self._edges = wp.array(model.edges, dtype=wp.vec2i, device=device)
        self._lengths = wp.array(model.edge_lengths(0.0), dtype=real, device=device)
        self._b = wp.array(self._rest_stretch(0.0), dtype=real, device=device)
        self._moves = any(model.rest_stretch_moves(part) for part in range(len(model.parts)))
        self._found = wp.zeros(len(STRAINS), dtype=wp.float64, device=device)
        longest = model.extensions().reshape(-1, 2)
        for part, keeps_inside in zip(model.parts, limited or [False] * len(model.parts), strict=True):
            longest[part.triangles] = longest[part.triangles] if keeps_inside else np.inf
        self._longest = wp.array(longest.ravel(), dtype=real, device=device)
        self._changes = wp.zeros(len(Changes._fields), dtype=real, device=device)
        self._readback_changes, self._readback_found = Readback(self._changes), Readback(self._found)
        self._launch = Launcher(device)

    def changes(self, x_before: wp.array, x: wp.array) -> Changes:
        """The largest in a step from one to the other."""
        self._changes.zero_()
        inputs = [self._triangles, self._weights, self._b, self._longest, x_before, x, self._changes]
        self._launch(measure_changes, self.model.triangle_count, inputs)
        return Changes(*self._readback_changes().tolist())

    def move(self, time: float) -> None:
        """What is at rest at a time."""
        if self._moves:
            self._b.assign(self._rest_stretch(time))
            self._lengths.assign(self.model.edge_lengths(time))

    def summary(self, x: wp.array, time: float) -> dict[str, float]:
        """The certificate's strain entry."""
        self.move(time)
        self._found.zero_()
        triangle_inputs = [self._triangles, self._weights, self._shares, self._b, x, self._found]
        self._launch(measure_triangles, self.model.triangle_count, triangle_inputs)
        self._launch(measure_edges, len(self.model.edges), [self._edges, self._lengths, x, self._found])
        return dict(zip(STRAINS, self._readback_found().tolist(), strict=True))

    def _rest_stretch(self, time: float) -> np.ndarray:
        """b_u and b_v of every triangle, one after the other."""
        model = self.model
        parts = range(len(model.parts))
        b = [np.concatenate([np.ones(0), *(model.rest_stretch(p, axis, time) for p in parts)]) for axis in (0, 1)]
        return np.stack(b, axis=1).ravel()


class Intersections:
    """Pairs of triangles that intersect: at the start, and then at every frame or after every step."""

    def __init__(self, scene: Any, model: Model, solids: Iterable[Any], when: str | None, device: str):
        """`when` is one of AUDITS; if not given, every frame of a scene in which cloth meets cloth. Solids that are
        sharp count too: their triangles must not cut the cloth.
        """
        contacts = contacts_in(scene)
        self.untangles = "self_contact" in contacts
        self.when = when or ("frame" if contacts else "none")
        if self.when not in AUDITS:
            raise InputError(f'audit = "{when}": must be one of {", ".join(AUDITS)}.')
        solids = self.solids = tuple(solid for solid in solids if solid.settings.sharp)
        self.cloth_count = model.triangle_count
        first_vertices = np.cumsum([model.particle_count, *(len(solid.positions) for solid in solids)])
        of_solids = [solid.triangles + first for solid, first in zip(solids, first_vertices[:-1], strict=True)]
        self._audit = Audit(np.concatenate([model.triangles, *of_solids]), model.particle_count, device)
        names = [f'cloth "{part.name}"' for part in model.parts] + [f'solid "{solid.name}"' for solid in solids]
        counts = [part.triangles.stop - part.triangles.start for part in model.parts]
        counts += [len(solid.triangles) for solid in solids]
        self._owners = list(zip(names, np.cumsum([0, *counts])[:-1].tolist(), strict=True))
        self._pairs = np.zeros((0, 2), np.int64)  # when it was last counted
        self._largest: int | None = None  # since the frame before
        self.start: int | None = None

    def begin(self, x: wp.array, strict: bool, time: float = 0.0) -> list[str]:
        """Count those that the scene comes with; a warning if there are any, or an error."""
        if self.when == "none" and not strict:
            return []
        self._count(x, time)
        self.start, self._largest = self._largest, None
        if not self.start:
            return []
        number = "1 pair of triangles intersects" if self.start == 1 else f"{self.start} pairs of triangles intersect"
        found = f"{number} at the start: {'; '.join(self._first(x, time))}."
        if strict:
            raise InputError(f"{found} Move them apart, or leave out --strict to run nevertheless.")
        then = "pairs are left as they are"
        if self.untangles:
            then = "pairs are pulled apart, and they and what is next to them may pass through each other until then"
        return [
            f"{found} The run goes on: these {then}; the certificate counts them. They are red in pictures, and "
            "alone in intersections.obj. --strict makes this an error."
        ]

    def after_step(self, x: wp.array, time: float) -> None:
        if self.when == "step":
            self._count(x, time)

    def of_frame(self, x: wp.array, time: float) -> int | None:
        """At the frame, or the most after any of its steps; None when nothing was counted."""
        if self.when == "frame":
            self._count(x, time)
        largest, self._largest = self._largest, None
        return largest

    def look(self, x: wp.array, time: float) -> None:
        """Which triangles intersect, without counting them."""
        if self.when != "none":
            self._pairs = self._audit.pairs(self._positions(x, time))

    def triangles(self) -> np.ndarray:
        """Triangles of the cloths that intersected something when it was last counted, in order."""
        found = np.unique(self._pairs)
        return found[found < self.cloth_count]

    def _count(self, x: wp.array, time: float) -> None:
        self._pairs = self._audit.pairs(self._positions(x, time))
        self._largest = max(len(self._pairs), self._largest or 0)

    def _positions(self, x: wp.array, time: float) -> wp.array | np.ndarray:
        if not self.solids:
            return x
        return np.concatenate([x.numpy().astype(float), *(solid.vertices(time) for solid in self.solids)])

    def _first(self, x: wp.array, time: float) -> list[str]:
        """Which triangles, and where [m]."""
        first = self._pairs[:PAIRS_SHOWN]
        places = self._audit.places(self._positions(x, time), first)
        warnings = [
            f"{self._warning(i)} and {self._warning(j)} at ({', '.join(f'{c:.4g}' for c in place)}) m"
            for (i, j), place in zip(first.tolist(), places.tolist(), strict=True)
        ]
        left = len(self._pairs) - len(warnings)
        return [*warnings, f"{left} more"] if left else warnings

    def _warning(self, triangle: int) -> str:
        name, first = next(owner for owner in reversed(self._owners) if owner[1] <= triangle)
        return f"{name} triangle {triangle - first}"


def contacts_in(scene: Any) -> set[str]:
    """What in a scene keeps cloth from passing through cloth."""
    energies = [*scene.forces, *(energy for cloth in scene.cloth for energy in cloth.energies)]
    return {item.type_name() for item in (*scene.filters, *energies)} & {"self_contact", "penalty"}


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
    ) -> dict[str, Any]:
        """One frame's entry. `solids` says for each solid how the cloth touches it; `touching` pairs of cloth do."""
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
            # Without an audit no figure, rather than a zero that nobody checked.
            "intersections": intersections,
            "solid_depth": max((solid["depth"] for solid in solids.values()), default=0.0),
            "contacts": {"solid": _total([solid["contacts"] for solid in solids.values()]), "cloth": cloth_contacts},
            "solids": solids,
            "energy": {"kinetic": kinetic, **system.energies(state.x, state.v)},
            "momentum": (masses @ v).tolist(),
            "solver": {"iterations": tally.iterations, "residual": tally.residual},
            "ms": ms,
        }
        self.frames.append(entry)
        return entry

    def report(self) -> dict[str, Any]:
        """The whole certificate; `ok` says that every frame asked for was computed, and has no new intersections."""
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
                # While tangled cloth comes apart there may be more for a moment; clean cloth never has any.
                "ok": self.complete and (counted[-1] <= start if start and counted else max(counted, default=0) == 0),
            },
            "frames": frames,
        }


def _computing(ms: dict[str, float]) -> float:
    """Time of a frame [ms] without that of checking it."""
    return sum(time for stage, time in ms.items() if stage != "audit")


def _total(counts: list[int | None]) -> int | None:
    """Of those that were counted; None if there are some and none was."""
    counted = [count for count in counts if count is not None]
    return None if counts and not counted else sum(counted)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@wp.func
def stretch_along(weights: vec3, corners: wp.vec3i, x: wp.array(dtype=vec3)) -> real:
    return wp.length(weights[0] * x[corners[0]] + weights[1] * x[corners[1]] + weights[2] * x[corners[2]])


@wp.kernel
def measure_changes(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3),
    # in
    b: wp.array(dtype=real), longest: wp.array(dtype=real), x_before: wp.array(dtype=vec3), x: wp.array(dtype=vec3),
    # out
    changes_out: wp.array(dtype=real),
):
    """What is in Changes."""
    t = wp.tid()
    for axis in range(2):
        w = weights[2 * t + axis]
        rest = b[2 * t + axis]
        before = stretch_along(w, triangles[t], x_before)
        now = stretch_along(w, triangles[t], x)
        change = wp.abs(now - rest) - wp.abs(before - rest)
        # Not a number counts as infinite: a maximum would forget it.
        if not (change < INFINITE):
            change = INFINITE
        wp.atomic_max(changes_out, 0, change)
        allowed = wp.max(before, rest * (real(1.0) + longest[2 * t + axis]))
        wp.atomic_max(changes_out, 1, (now - allowed) / rest)


@wp.kernel
def measure_triangles(
    # model
    triangles: wp.array(dtype=wp.vec3i), weights: wp.array(dtype=vec3), shares: wp.array(dtype=real),
    # in
    b: wp.array(dtype=real), x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=wp.float64),
):
    t = wp.tid()
    for axis in range(2):
        strain = stretch_along(weights[2 * t + axis], triangles[t], x) / b[2 * t + axis] - real(1.0)
        wp.atomic_max(found_out, 2 * axis, wp.float64(strain))
        wp.atomic_add(found_out, 2 * axis + 1, wp.float64(shares[t] * wp.abs(strain)))


@wp.kernel
def measure_edges(
    # model
    edges: wp.array(dtype=wp.vec2i), lengths: wp.array(dtype=real),
    # in
    x: wp.array(dtype=vec3),
    # out
    found_out: wp.array(dtype=wp.float64),
):
    e = wp.tid()
    strain = wp.length(x[edges[e][1]] - x[edges[e][0]]) / lengths[e] - real(1.0)
    wp.atomic_max(found_out, 4, wp.float64(strain))
