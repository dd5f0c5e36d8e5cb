"""The comparison of devices: threads change no bit, larger differences are marked, and the page is in step with its
data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def comparing(benchmark_script: Any) -> Any:
    return benchmark_script("devices")


def test_the_page_is_up_to_date(comparing: Any) -> None:
    results = json.loads(comparing.RESULTS.read_text(encoding="utf-8"))
    text = comparing.PAGE.read_text(encoding="utf-8")
    assert comparing.page(text, results) == text, "python benchmarks/devices.py --write-docs makes it anew"


def test_a_way_is_parsed(comparing: Any) -> None:
    assert comparing.Way.of("cuda:0") == comparing.Way("cuda:0", "double", 1)
    assert comparing.Way.of("cpu/single/4") == comparing.Way("cpu", "single", 4)


def test_threads_change_no_bit_and_precision_little(comparing: Any) -> None:
    """A skirt of 108 vertices for three frames without contact, so that differences are rounding."""
    found = comparing.measure(["cpu", "cpu/2", "cpu/single"], ["ye08_skirt"], 3, 1)["ye08_skirt"]
    for setting in comparing.SETTINGS:
        others = found[setting]["others"]
        assert others["cpu/2"]["last_max"] == 0.0
        assert 0.0 < others["cpu/single"]["last_max"] < 1e-4
        assert all(run["within"] for run in others.values())


def run(**changed: Any) -> dict[str, Any]:
    x = np.zeros((2, 3))
    same = {"first": x, "last": x, "center": x[0], "energy": 1.0, "kinetic": 1.0, "strain": 0.0, "intersections": 0}
    return {**same, "steps": 1, "iterations": 1, "contacts": {}, "seconds": 1.0, **changed}


def test_differences_beyond_ten_times_the_spread_are_reported(comparing: Any) -> None:
    at = {name: np.array([[0.0, 0.0, 0.0], [0.0, 0.0, value]]) for name, value in (("near", 1e-6), ("far", 1.1e-5))}
    changed = {"order": run(first=at["near"], last=at["near"])}
    for name, within in (("near", True), ("far", False)):
        other = {"cuda:0": run(first=at["near"], last=at[name])}
        assert comparing.judged(run(), changed, other)["others"]["cuda:0"]["within"] == within
    crossed = {"cuda:0": run(intersections=1)}
    assert not comparing.judged(run(), changed, crossed)["others"]["cuda:0"]["within"]
    assert not comparing.judged(run(), changed, {"cuda:0": {"failed": "no"}})["others"]["cuda:0"]["within"]


def test_the_table_marks_differences_beyond_the_bound(comparing: Any) -> None:
    """A difference of 1.1e-5 m is marked where the spread is 1e-6 m, and not where it is 1e-5 m."""
    far = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.1e-5]])
    found = {}
    for spread in (1e-6, 1e-5):
        changed = {change: run(last=np.array([[0.0, 0.0, 0.0], [0.0, 0.0, spread]])) for change in comparing.ROUNDINGS}
        found[f"{spread:g}"] = {"frames": 1, "as it is": comparing.judged(run(), changed, {"cuda:0": run(last=far)})}
    *_, marked, plain = comparing.table(found, "cuda:0").splitlines()
    assert marked.startswith("| 1e-06 | 1 | 1.0e-6 | 1.0e-6 | 1.1e-5 (!) |")
    assert plain.startswith("| 1e-05 | 1 | 1.0e-5 | 1.0e-5 | 1.1e-5 |")
