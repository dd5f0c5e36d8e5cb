"""Evaluates the positions of any simulator for a scene of the scoreboard; needs NumPy and SciPy, nothing of Toile.

    python benchmarks/scoreboard/judge.py scenes/hang_51.json result.npz

`result.npz` contains `positions` (frames + 1, vertices, 3) [m], including the start, and `ms` (frames) [ms], the time
of each frame; `cpu_ms`, the processor time of each, is evaluated too if it exists. Measured are

    burst           the first frame with a NaN position or an edge of 11 times its length; nothing else is measured then
    swing error     root mean square over the frames of |center of mass - that of the converged reference|, for the
                    frames of the reference
    sag             how far the end of a hanging strip has sunk, relative to the closed form
    strain          |w_u| - 1 and |w_v| - 1 of each triangle ([BW98] eq. (9)), and |l - l_0| / l_0 of each edge
    intersections   pairs of an edge and a triangle that intersect, all against all, decided exactly
    depth           of vertices, and of points of the triangles, below the surface of the solids
    time            median and mean over the frames without the first, which loads and compiles

Source      the test of an edge and a triangle: signs of five volumes; where rounding may decide, exact fractions
Deviations  none
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

Scene = dict[str, Any]

# Bound on the rounding of a 3x3 determinant of differences, relative to the sum of its absolute terms (Shewchuk 1997).
ROUNDING = 8e-16

# Strain of an edge beyond which a sheet has burst. Almost all pairs would intersect, so nothing else is measured.
BURST = 10.0


def centers(scene: Scene, positions: np.ndarray) -> np.ndarray:
    """Center of mass of each frame with the masses of the scene, which may differ from those of the simulator."""
    masses = np.array(scene["masses"])
    return masses @ positions / masses.sum()


def swing_error(scene: Scene, positions: np.ndarray) -> float | None:
    """Root mean square distance of the centers of mass [m]."""
    if "reference" not in scene:
        return None
    expected = np.array(scene["reference"]["centers"])
    apart = centers(scene, positions)[1 : 1 + len(expected)] - expected
    return float(np.sqrt(np.mean(np.sum(apart**2, axis=1))))


def sag(scene: Scene, positions: np.ndarray) -> float | None:
    """Mean over the last frames: 1 for a strip that oscillates about the closed form, 2 for one half as stiff."""
    if "sag" not in scene:
        return None
    z = positions[:, scene["sag"]["vertices"], 2].mean(axis=1)
    return float((z[0] - z[-scene["sag"]["mean_of_last"] :].mean()) / scene["sag"]["sinks_m"])


def edges_of(triangles: np.ndarray) -> np.ndarray:
    sides = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(sides, axis=0)


def burst_frame(scene: Scene, positions: np.ndarray) -> int | None:
    """The first frame in which the sheet has burst, or None."""
    for frame, x in enumerate(positions):
        if not (np.isfinite(x).all() and strains(scene, x)["edge_max"] <= BURST):
            return frame
    return None


def strains(scene: Scene, x: np.ndarray) -> dict[str, float]:
    """Strains of one frame: largest and mean along warp and weft; largest and 99th percentile of edges."""
    triangles, uv = np.array(scene["triangles"]), np.array(scene["uv"])
    in_space = np.stack([x[triangles[:, k]] - x[triangles[:, 0]] for k in (1, 2)], axis=2)  # columns
    in_uv = np.stack([uv[:, k] - uv[:, 0] for k in (1, 2)], axis=2)
    lengths = np.linalg.norm(in_space @ np.linalg.inv(in_uv), axis=1) - 1.0  # |w_u| - 1, |w_v| - 1
    sides, at_rest = (np.linalg.norm(np.roll(p, -1, axis=1) - p, axis=2) for p in (x[triangles], uv))
    edge = (sides / at_rest - 1.0).ravel()
    return {
        "warp_mean": float(lengths[:, 0].mean()), "weft_mean": float(lengths[:, 1].mean()),
        "warp_max": float(lengths[:, 0].max()), "weft_max": float(lengths[:, 1].max()),
        "edge_max": float(edge.max()), "edge_99": float(np.quantile(edge, 0.99)), "edge_min": float(edge.min()),
    }  # fmt: skip


def volume_signs(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The exact sign of the volume of each tetrahedron."""
    p, q, r = b - a, c - a, d - a
    terms = p * np.cross(q, r)
    size = np.abs(p) * (np.abs(np.roll(q, -1, 1) * np.roll(r, -2, 1)) + np.abs(np.roll(q, -2, 1) * np.roll(r, -1, 1)))
    volume = terms.sum(axis=1)
    signs = np.sign(volume).astype(int)
    for k in np.flatnonzero(np.abs(volume) <= ROUNDING * size.sum(axis=1)):
        u, v, w, o = ([Fraction(float(s)) for s in point[k]] for point in (b, c, d, a))
        (u0, u1, u2), (v0, v1, v2), (w0, w1, w2) = ([s - t for s, t in zip(row, o, strict=True)] for row in (u, v, w))
        exact = u0 * (v1 * w2 - v2 * w1) + u1 * (v2 * w0 - v0 * w2) + u2 * (v0 * w1 - v1 * w0)
        signs[k] = (exact > 0) - (exact < 0)
    return signs


def intersections(x: np.ndarray, triangles: np.ndarray, edges: np.ndarray) -> int:
    """Pairs of an edge and a triangle without a common vertex whose interiors intersect.

    Candidates are pairs whose bounding balls overlap, so none is missed. Contact at a volume of exactly 0 is none.
    """
    middle, third = x[edges].mean(axis=1), x[triangles].mean(axis=1)
    reach_edge = np.linalg.norm(x[edges[:, 0]] - middle, axis=1)
    reach = np.linalg.norm(x[triangles] - third[:, None], axis=2).max(axis=1)
    # A search by the largest ball would be slow where a few edges are long; those are searched separately.
    ordinary = reach <= 2.0 * np.median(reach)
    found = []
    for some in (np.flatnonzero(ordinary), np.flatnonzero(~ordinary)):
        if len(some):
            near = cKDTree(third[some]).query_ball_point(middle, reach_edge + reach[some].max() * (1 + 1e-9))
            counts = [len(each) for each in near]
            hit = np.concatenate([np.array(each, int) for each in near])
            found.append(np.stack([np.repeat(np.arange(len(edges)), counts), some[hit]], axis=1))
    e, t = np.concatenate(found).T
    apart = (edges[e][:, :, None] != triangles[t][:, None, :]).all(axis=(1, 2))
    ends, corners = x[edges[e]], x[triangles[t]]
    # Boxes with only a common face have no intersection of interiors: a flat sheet has no pair to decide.
    boxes = ((ends.min(axis=1) < corners.max(axis=1)) & (corners.min(axis=1) < ends.max(axis=1))).all(axis=1)
    e, t = e[apart & boxes], t[apart & boxes]
    p, q, (a, b, c) = x[edges[e, 0]], x[edges[e, 1]], (x[triangles[t, k]] for k in range(3))
    through = volume_signs(a, b, c, p) * volume_signs(a, b, c, q) < 0  # its ends are on different sides
    p, q, a, b, c = (points[through] for points in (p, q, a, b, c))
    turns = np.stack([volume_signs(p, q, *pair) for pair in ((a, b), (b, c), (c, a))])
    return int(np.count_nonzero(np.abs(turns.sum(axis=0)) == 3))


def cylinder_depth(solid: Scene, points: np.ndarray) -> np.ndarray:
    """Depth of points in an upright cylinder with rounded rims; negative outside."""
    away, b = points - np.array(solid["translation"]), solid.get("rounding", 0.0)
    side = np.hypot(away[..., 0], away[..., 1]) - solid["radius"] + b
    end = np.abs(away[..., 2]) - 0.5 * solid["height"] + b
    outside = np.hypot(np.maximum(side, 0.0), np.maximum(end, 0.0))
    return b - outside - np.minimum(np.maximum(side, end), 0.0)


def sphere_depth(solid: Scene, points: np.ndarray) -> np.ndarray:
    """Depth of points in a sphere; negative outside."""
    return solid["radius"] - np.linalg.norm(points - np.array(solid["translation"]), axis=-1)


DEPTHS = {"cylinder": cylinder_depth, "sphere": sphere_depth}

# Points of a triangle whose depth is measured: all weights that are multiples of a quarter.
WEIGHTS = np.array([(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]) / 4.0


def carried_back(solid: Scene, frame: int, points: np.ndarray) -> np.ndarray:
    """Points relative to a moving solid, transformed to its start by the best rigid motion of its vertices."""
    if solid["motion"] is None:
        return points
    start, now = np.array(solid["vertices"]), np.array(solid["motion"][frame])
    u, _, v = np.linalg.svd((now - now.mean(axis=0)).T @ (start - start.mean(axis=0)))
    turn = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ v))]) @ v  # from the start to now
    return (points - now.mean(axis=0)) @ turn + start.mean(axis=0)


def depths(scene: Scene, frame: int, x: np.ndarray) -> dict[str, float]:
    """Deepest vertex, and deepest point of a triangle, in any solid [m]; 0 if none is inside."""
    everywhere = WEIGHTS @ x[np.array(scene["triangles"])]
    deepest = {"vertices": 0.0, "triangles": 0.0}
    for solid in scene["solids"]:
        for name, points in (("vertices", x), ("triangles", everywhere)):
            depth = DEPTHS[solid["type"]](solid, carried_back(solid, frame, points))
            deepest[name] = max(deepest[name], float(depth.max()))
    return deepest


def judge(scene: Scene, positions: np.ndarray, **times: np.ndarray) -> dict[str, Any]:
    """All measures of a run; `times` are one or several kinds of time of every frame until it burst [ms]."""
    frames, vertices = scene["time"]["frames"], len(scene["vertices"])
    if positions.shape != (frames + 1, vertices, 3):
        raise SystemExit(f"positions are {positions.shape}; the scene needs {(frames + 1, vertices, 3)}.")
    burst = burst_frame(scene, positions)
    found: dict[str, Any] = {"burst_at_frame": burst}
    if burst is None:
        triangles = np.array(scene["triangles"])
        edges = edges_of(triangles)
        by_frame = [strains(scene, x) for x in positions[1:]]
        counts = [intersections(x, triangles, edges) for x in positions[1:]]
        error = swing_error(scene, positions)
        pins = [pin["vertex"] for pin in scene["pins"]]
        found |= {
            "swing_error_cm": None if error is None else 100.0 * error,
            "sag": sag(scene, positions),
            "strain_mean": max(max(each["warp_mean"], each["weft_mean"]) for each in by_frame),
            "strain_max": max(max(each["warp_max"], each["weft_max"]) for each in by_frame),
            "edge_99": max(each["edge_99"] for each in by_frame),
            "edge_max": max(each["edge_max"] for each in by_frame),
            "edge_max_at_end": by_frame[-1]["edge_max"],
            "intersections_at_most": max(counts),
            "frames_with_intersections": int(np.count_nonzero(counts)),
            "pins_off_mm": 1e3 * float(np.abs(positions[:, pins] - positions[0, pins]).max()) if pins else None,
        }
        if scene["solids"]:
            deep = [depths(scene, 1 + frame, x) for frame, x in enumerate(positions[1:])]
            found |= {f"depth_of_{name}_mm": 1e3 * max(each[name] for each in deep) for name in deep[0]}
        found["mean_height_at_end"] = float(centers(scene, positions)[-1, 2])
    for kind, ms in times.items():
        if len(ms) < 2:
            continue  # it burst in the first frame
        found[f"{kind}_per_frame"] = {"median": float(np.median(ms[1:])), "mean": float(np.mean(ms[1:]))}
    return found


def main() -> None:
    scene = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for path in sys.argv[2:]:
        result = np.load(path)
        times = {kind: result[kind] for kind in ("ms", "cpu_ms") if kind in result}
        print(path, json.dumps(judge(scene, result["positions"], **times), indent=1))


if __name__ == "__main__":
    main()
