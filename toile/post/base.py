"""Base of all post-processes: they change the positions of a frame before it is written, not the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from toile.plugins import Plugin


class PostProcess(Plugin):
    """Settings of a post-process; `start` makes the object that applies it."""

    def start(self, solids: Any, device: str) -> FrameProcessor:
        """Makes the object that applies it; `solids` is a toile.colliders.solids.Solids."""
        raise NotImplementedError


class FrameProcessor:
    """Applies a post-process to frames."""

    def apply(self, positions: np.ndarray, time: float) -> np.ndarray:
        """Returns new positions [m] of a frame at a time [s]; the input is not modified."""
        raise NotImplementedError
