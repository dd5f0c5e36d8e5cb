"""Compares a certificate with the expectations of its scene.

A key of `expect` is a dotted path into the certificate's summary (`max_strain`), or `frames.` and a path into the
entries of the frames (`frames.strain.warp_mean`); every frame must then satisfy it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toile.errors import InputError, SceneError
from toile.plugins import nearest
from toile.scene.schema import Bound


@dataclass(frozen=True)
class Finding:
    """One expectation, and the value that the run gave."""

    key: str
    bound: str  # as text: ">= 0 and <= 0.15"
    value: float | bool | None  # over frames, the value that is worst
    ok: bool
    frame: int | None = None  # the frame of the value


def check(expect: Mapping[str, Bound], report: Mapping[str, Any]) -> list[Finding]:
    """Returns one finding per expectation, in their order. SceneError lists every key that the certificate lacks."""
    problems = [problem for key in expect for problem in _problems(key, report)]
    if problems:
        raise SceneError(problems)
    return [_find(key, bound, report) for key, bound in expect.items()]


def read_report(folder: Path) -> tuple[dict[str, Bound], dict[str, Any]]:
    """Returns the expectations of a finished run, and its certificate."""
    path = folder / "report.json"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if "ok" not in report["summary"] or not isinstance(report["frames"], list):
            raise ValueError("values are missing")
        return {key: Bound(**bound) for key, bound in report["expect"].items()}, report
    except FileNotFoundError:
        raise InputError(f"{folder} is not the folder of a finished run: it has no report.json.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a readable certificate ({error}). Run the scene again.") from None


def _problems(key: str, report: Mapping[str, Any]) -> Iterator[str]:
    """Checks that the certificate has a key. Those of other versions may lack keys that the loader accepts."""
    known = _paths(report["summary"])
    frames = report["frames"]
    if frames:
        known |= {f"frames.{path}" for frame in frames for path in _paths(frame)}
    # Without frames it is unknown which keys their entries would have; `_find` then reports it as not met.
    if key not in known and (frames or not key.startswith("frames.")):
        yield f"expect.{key}: no such value in the certificate.{nearest(key, known)}"


def _paths(values: Mapping[str, Any], prefix: str = "") -> set[str]:
    """Returns the dotted paths of all numbers and bools in nested mappings, and of None, which was not measured."""
    paths: set[str] = set()
    for name, value in values.items():
        if isinstance(value, Mapping):
            paths |= _paths(value, f"{prefix}{name}.")
        elif value is None or isinstance(value, int | float):
            paths.add(f"{prefix}{name}")
    return paths


def _find(key: str, bound: Bound, report: Mapping[str, Any]) -> Finding:
    if not key.startswith("frames."):
        value = value_at(report["summary"], key)
        return Finding(key, _bound_text(bound), value, excess(value, bound) <= 0)
    path = key.removeprefix("frames.")
    values = [(value_at(frame, path), frame["frame"]) for frame in report["frames"]]
    if not values:
        return Finding(key, _bound_text(bound), None, False)
    worst, frame = max(values, key=lambda entry: excess(entry[0], bound))
    return Finding(key, _bound_text(bound), worst, excess(worst, bound) <= 0, frame)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Returns the value at a dotted path; None if there is none."""
    value: Any = values
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def excess(value: object, bound: Bound) -> float:
    """Returns how far a value is outside the limits, at most 0 if inside; infinity if it is missing or not a number."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return math.inf
    distances = []
    if bound.min is not None:
        distances.append(bound.min - value)
    if bound.max is not None:
        distances.append(value - bound.max)
    if bound.equals is not None:
        distances.append(abs(value - bound.equals))
    return max(distances)


def _bound_text(bound: Bound) -> str:
    limits = ((">=", bound.min), ("<=", bound.max), ("=", bound.equals))
    return " and ".join(f"{sign} {_number(limit)}" for sign, limit in limits if limit is not None)


def _number(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
