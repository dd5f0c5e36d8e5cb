"""Keys of the certificate that a scene can set expectations on.

They are known before anything runs, so that a misspelled key is reported with the scene's other problems.
"""

from __future__ import annotations

from collections.abc import Collection

SUMMARY = (
    "frames", "steps", "rejected", "ms_per_frame", "max_strain",
    "intersections", "intersections_start", "intersections_end", "solid_depth", "pinched", "truncated", "ok",
)  # fmt: skip
OF_A_FRAME = (
    "frame", "time", "steps", "rejected", "h_min", "h_max", "intersections", "solid_depth", "pinched",
    "strain.warp_max", "strain.warp_mean", "strain.weft_max", "strain.weft_mean", "strain.edge_max",
    "contacts.solid", "contacts.cloth", "truncated", "solver.solves", "solver.iterations", "solver.residual",
    "ms.EVAL", "ms.CG", "ms.C/C", "ms.C/S", "ms.filters", "ms.audit", "ms.output", "energy.kinetic",
)  # fmt: skip
OF_A_SOLID = ("contacts", "depth")


def report_keys(energies: Collection[str], solids: Collection[str]) -> set[str]:
    """Returns every key that `expect` may have in a scene with these energies and solids."""
    of_energies = (f"energy.{type_name}" for type_name in energies)
    of_solids = (f"solids.{solid}.{name}" for solid in solids for name in OF_A_SOLID)
    return {*SUMMARY, *(f"frames.{name}" for name in (*OF_A_FRAME, *of_energies, *of_solids))}
