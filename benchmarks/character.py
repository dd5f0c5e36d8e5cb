"""A skirt on a character that walks, bends, twists and breathes: a vertex sequence carries it, without pins.

    OPENBLAS_NUM_THREADS=1 python benchmarks/character.py [FOLDER]

The body is one closed surface of 13,058 vertices, from the knees to the shoulders: its rings are ellipses above, and
below they have two lobes that swing back and forth as legs do. The skirt is an open cone whose waist is wider than the
waist of the body and narrower than its hips, and only this holds it up. Writes benchmarks/character.json. The scene and
its files remain in FOLDER if one is given: `toile run FOLDER/character.json`.
"""

from __future__ import annotations

import datetime
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
FPS = 30
WAIST, HEM = 1.06, 0.60  # [m]  heights of the two ends of the skirt at the start
KNEES, SHOULDERS = 0.30, 1.45  # [m]  ends of the body
EASE = 0.006  # [m]  distance of the waist of the skirt from the body at the start
FLARE = 0.16  # [m]  additional distance of its hem
# Height [m], half widths across and front to back [m], depth of the furrow between the two lobes [-].
PROFILE = np.array([
    [0.30, 0.130, 0.070, 0.75],
    [0.55, 0.160, 0.085, 0.70],
    [0.75, 0.175, 0.105, 0.45],
    [0.88, 0.180, 0.130, 0.00],
    [0.97, 0.160, 0.118, 0.00],
    [1.08, 0.128, 0.092, 0.00],
    [1.25, 0.155, 0.110, 0.00],
    [1.45, 0.170, 0.100, 0.00],
])  # fmt: skip


def section(height: np.ndarray, angle: np.ndarray, grown: np.ndarray | float = 0.0) -> np.ndarray:
    """Points (..., 3) around the body at rest, `grown` outwards [m]."""
    across, deep, split = (np.interp(height, PROFILE[:, 0], PROFILE[:, k]) for k in (1, 2, 3))
    x = (across + grown) * np.cos(angle)
    pinch = 1.0 - split * np.exp(-((x / 0.05) ** 2))
    lumps = 0.004 * np.sin(5.0 * angle) * np.sin(25.0 * height)
    y = (deep * pinch + lumps + grown) * np.sin(angle)
    return np.stack(np.broadcast_arrays(x, y, height), axis=-1)


def tube(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a tube of rings (rings, around, 3), facing outwards."""
    rings, around = points.shape[:2]
    i, j = np.meshgrid(np.arange(rings - 1), np.arange(around), indexing="ij")
    a, b = i * around + j, i * around + (j + 1) % around
    c, d = a + around, b + around
    flip = (i + j) % 2 == 1
    one = np.where(flip[..., None], np.stack([a, b, d], -1), np.stack([a, b, c], -1))
    two = np.where(flip[..., None], np.stack([a, d, c], -1), np.stack([b, d, c], -1))
    return points.reshape(-1, 3), np.concatenate([one.reshape(-1, 3), two.reshape(-1, 3)])


def body(rings: int, around: int) -> tuple[np.ndarray, np.ndarray]:
    """The closed surface at rest: rings from the knees up, with a point at both ends."""
    height = np.linspace(KNEES + 0.004, SHOULDERS - 0.004, rings)[:, None]
    points = section(height, 2.0 * np.pi * np.arange(around) / around)
    # The last few centimeters close like a dome.
    end = np.clip(np.minimum(height - KNEES, SHOULDERS - height) / 0.06, 0.0, 1.0)
    points[..., :2] *= np.sqrt(1.0 - (1.0 - end) ** 2)[..., None]
    vertices, triangles = tube(points)
    n, last = len(vertices), len(vertices) - around
    j = np.arange(around)
    following = (j + 1) % around
    low = np.stack([following, j, np.full(around, n)], -1)
    high = np.stack([last + j, last + following, np.full(around, n + 1)], -1)
    ends = [[0.0, 0.0, KNEES], [0.0, 0.0, SHOULDERS]]
    return np.concatenate([vertices, ends]), np.concatenate([triangles, low, high])


def pose(rest: np.ndarray, time: float) -> np.ndarray:
    """The vertices of the body at a time: two steps a second, forwards along -y, from rest."""
    x, y, z = rest.T
    start = np.clip(time / 0.5, 0.0, 1.0)
    eased = start**2 * (3.0 - 2.0 * start)
    phase = 2.0 * np.pi * time
    breath = 1.0 + 0.03 * eased * np.sin(1.3 * phase) * np.exp(-(((z - 1.2) / 0.12) ** 2))
    x, y = breath * x, breath * y
    turn = eased * np.sin(phase) * np.interp(z, [0.8, 1.0, 1.4], [-0.10, -0.06, 0.25])  # hips against shoulders
    x, y = np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y
    above = np.maximum(z - 1.0, 0.0)
    y = y - 0.5 * eased * np.sin(0.5 * phase) ** 2 * above**1.5  # bending forwards
    below = np.clip((0.85 - z) / 0.55, 0.0, 1.0) ** 1.5
    y = y + 0.20 * eased * np.sin(phase) * np.tanh(x / 0.05) * below  # legs
    x = x + 0.02 * eased * np.sin(phase)
    z = z + 0.012 * eased * np.cos(2.0 * phase)
    y = y - 0.6 * (0.5 * start**3 - 0.25 * start**4 + max(time - 0.5, 0.0))  # the integral of `eased`
    return np.stack([x, y, z], axis=1)


def skirt(rings: int, around: int) -> tuple[np.ndarray, np.ndarray]:
    """An open cone around the body, waist first, in its rest shape."""
    s = np.linspace(0.0, 1.0, rings)[:, None]
    angle = 2.0 * np.pi * np.arange(around) / around
    # Below the hips the skirt does not follow the body inwards.
    hips = 0.88
    height = WAIST + (HEM - WAIST) * s
    around_body = section(np.maximum(height, hips), angle, EASE + FLARE * s**1.5)
    around_body[..., 2] = height
    vertices, triangles = tube(around_body)
    return vertices, triangles[:, ::-1]  # its rings are numbered downwards


def write_obj(path: Path, vertices: np.ndarray, triangles: np.ndarray) -> None:
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in triangles + 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def build(folder: Path, body_size: tuple[int, int], skirt_size: tuple[int, int], frames: int) -> Any:
    """Writes the files of the scene into a folder, and loads it. Sizes are rings and vertices per ring."""
    from toile.scene.load import load

    rest, triangles = body(*body_size)
    poses = np.stack([pose(rest, frame / FPS) for frame in range(frames + 1)])
    write_obj(folder / "body.obj", rest, triangles)
    np.savez(folder / "body.npz", positions=poses, fps=FPS)
    write_obj(folder / "skirt.obj", *skirt(*skirt_size))
    scene = {
        "name": "character",
        "about": "A skirt held by the hips of a character that walks, bends, twists and breathes.",
        "time": {"frames": frames, "fps": FPS},
        "cloth": [{"name": "skirt", "shape": {"type": "mesh", "file": "skirt.obj", "uv": "rest"}}],
        "solids": [
            {"type": "mesh", "name": "body", "file": "body.obj", "friction": 0.5, "sequence": {"file": "body.npz"}}
        ],
        "constraints": [{"type": "solid_contact", "thickness": 0.003}],
        "forces": [{"type": "drag", "quadratic": 0.6}],
    }
    path = folder / "character.json"
    path.write_text(json.dumps(scene), encoding="utf-8")
    return load(path)


class Fit:
    """The fit of a skirt: its waist relative to that of the body."""

    def __init__(self, body_size: tuple[int, int], around: int):
        self._rest, self._size, self._around = body(*body_size)[0], body_size, around
        heights = self._rest[:-2].reshape(*body_size, 3)[:, 0, 2]
        self._ring = int(np.argmin(np.abs(heights - WAIST)))
        self._start = WAIST - heights[self._ring]

    def measure(self, skirt_positions: np.ndarray, time: float) -> tuple[float, float]:
        """The largest distance of the waist from the nearest vertex of the body, and how far it has sunk [m]."""
        posed = pose(self._rest, time)
        waist = skirt_positions[: self._around]
        farthest = np.sqrt(((waist[:, None] - posed[None]) ** 2).sum(axis=2).min(axis=1)).max()
        ring = posed[:-2].reshape(*self._size, 3)[self._ring]
        return float(farthest), float(ring[:, 2].mean() + self._start - waist[:, 2].mean())


def main() -> None:
    from toile.simulation.simulation import Simulation

    body_size, skirt_size, frames = (102, 128), (27, 96), 60
    fit = Fit(body_size, skirt_size[1])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if sys.argv[1:] else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        scene = build(folder, body_size, skirt_size, frames)
        simulation = Simulation(scene)
        fits = [fit.measure(frame.positions, frame.time) for frame in simulation.run()]
        report = simulation.report()
    ms = {stage: sum(entry["ms"][stage] for entry in report["frames"][1:]) for stage in report["frames"][0]["ms"]}
    computing = sum(value for stage, value in ms.items() if stage != "output")
    found = {
        "date": datetime.date.today().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "body_vertices": len(body(*body_size)[0]),
        "skirt_vertices": simulation.model.particle_count,
        "summary": report["summary"],
        "ms_per_frame": {stage: value / (frames - 1) for stage, value in ms.items()},
        "share": {stage: value / computing for stage, value in ms.items() if stage != "output"},
        "waist_farthest_from_body_m": max(distance for distance, _ in fits),
        "waist_sunk_m": {"least": min(sunk for _, sunk in fits), "most": max(sunk for _, sunk in fits)},
    }
    (HERE / "character.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
