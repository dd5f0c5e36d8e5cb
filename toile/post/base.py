"""What every post-process does: changes the positions of a frame before it is written; the simulation does not know."""

from __future__ import annotations

from typing import Any

import numpy as np

from toile.plugins import Plugin


class PostProcess(Plugin):
    """Settings of a post-process; `start` makes the working one."""

    def start(self, solids: Any, device: str) -> Finish:
        """`solids` is a toile.colliders.solids.Solids."""
        raise NotImplementedError


class Finish:
    """A post-process at work."""

    def apply(self, positions: np.ndarray, time: float) -> np.ndarray:
        """New positions [m] of a frame at a time [s]; those given stay as they are."""
        raise NotImplementedError
