"""Hashes of the input of a run: two runs with the same scene and the same hashes had the same input."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from toile.simulation.build import Parts


def input_hashes(parts: Parts) -> dict[str, str]:
    """Hashes what came from files or was generated, by name."""
    surface = parts.surface
    arrays = {"cloth": [surface.rest, surface.triangles, surface.uv]}
    arrays |= {f'solid "{solid.name}"': solid.content() for solid in parts.solids}
    arrays["energies"] = [array for energy, _ in parts.energies for array in energy.content()]
    return {name: hash_of(*(np.ascontiguousarray(a).tobytes() for a in each)) for name, each in arrays.items()}


def hash_of(*pieces: bytes) -> str:
    """Returns the SHA-256 of some bytes."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
