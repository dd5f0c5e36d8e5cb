"""A stand-in for a simulation that takes no time and fails on demand, for tests of runs and commands.

python -m tests.reference.falling_triangle run fall.yaml      the command, with FALLING_PAUSE seconds for each frame
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from toile.model.frame import Frame, Part, Surface
from toile.scene.schema import Scene

TRIANGLE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
SCENE = """\
version: 1
name: fall
time: {frames: 4, fps: 10}
outputs: [npz]
expect:
  max_strain: {max: 0.05}
  frames.strain.warp_max: {max: 0.05}
"""


class FallingTriangle:
    """A triangle that falls at one meter per second. `before` is called at the start of every frame and may raise."""

    before: Callable[[int], None] = staticmethod(lambda number: None)
    warnings: tuple[str, ...] = ()

    def __init__(self, scene: Scene, device: str = "cpu", **_: object):
        self.scene, self.device = scene, device
        uv = TRIANGLE[None, :, :2]
        part = Part("cloth", slice(0, 3), slice(0, 1))
        self.surface = Surface(np.array([[0, 1, 2]], np.int32), uv, TRIANGLE, (part,), scene.time.fps)
        self.entries: list[dict[str, Any]] = []

    def run(self, frames: int | None = None) -> Iterator[Frame]:
        velocities = np.array([[0.0, 0.0, -1.0]] * 3)
        yield Frame(0, 0.0, TRIANGLE, velocities)
        for number in range(1, 1 + (self.scene.time.frames if frames is None else frames)):
            type(self).before(number)
            t = number / self.scene.time.fps
            strain = {"warp_max": 0.01 * number, "weft_max": np.float64(0.0), "edge_max": 0.0}
            self.entries.append(
                {"frame": number, "time": t, "steps": 2, "rejected": 0, "strain": strain, "ms": {"CG": 1.0}}
            )
            yield Frame(number, t, TRIANGLE + t * velocities, velocities, self.entries[-1])

    def identity(self) -> dict[str, Any]:
        return {"scene": self.scene.name, "files": {}}

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"frame": np.array(len(self.entries))}

    def report(self) -> dict[str, Any]:
        count = len(self.entries)
        strain = max((entry["strain"]["warp_max"] for entry in self.entries), default=0.0)
        summary = {
            "frames": count,
            "steps": 2 * count,
            "rejected": 0,
            "ms_per_frame": float("nan"),
            "max_strain": strain,
        }
        return {"scene": self.scene.name, "summary": {**summary, "ok": True}, "frames": self.entries}


def main() -> None:
    """Runs the `toile` command with this simulation in place of the real one."""
    import toile.cli
    import toile.runs.run

    pause = float(os.environ.get("FALLING_PAUSE", "0"))
    FallingTriangle.before = staticmethod(lambda number: time.sleep(pause))
    toile.runs.run.Simulation = FallingTriangle  # type: ignore[assignment,misc]
    sys.argv[0] = "toile"
    toile.cli.main()


if __name__ == "__main__":
    main()
