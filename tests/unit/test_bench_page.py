"""The page of the suite: it is in step with its data, and its plot is to scale."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def making(benchmark_script: Any) -> Any:
    return benchmark_script("suite_page")


def test_the_page_is_up_to_date(making: Any) -> None:
    found = making.latest(sorted((ROOT / "benchmarks").glob("suite_*.json")))
    assert found
    text = making.PAGE.read_text(encoding="utf-8")
    assert making.page(text, found) == text, "python benchmarks/suite_page.py makes it anew"
    assert making.PLOT.read_text(encoding="utf-8") == making.plot(found)


def results(ms: dict[int, float], date: str = "2026-01-02", **conditions: Any) -> dict[str, Any]:
    rows = [
        {
            "scene": "hang", "size": size, "vertices": size, "failed": None, "window": [2, 3], "begun": size < 100_000,
            "ms_per_frame": time, "ms_mean": time, "ms_frames": [time] * 3, "load": 0.1,
            "stages": dict.fromkeys(("EVAL", "CG", "C/C", "C/S", "filters", "rest", "audit"), time / 7),
        }
        for size, time in ms.items()
    ]  # fmt: skip
    given = {"device": "cpu", "precision": "double", "machine": {"cpu": "Abacus & Co", "cores": 2}, "versions": {}}
    return {"format": "toile suite 1", "date": date, "conditions": {**given, "threads": 2, **conditions}, "rows": rows}


def test_a_power_law_is_a_straight_line(making: Any) -> None:
    """ms = 1e-3 n: on axes with the same scale per decade, points lie on a line, and the gray guide n is parallel to
    it."""
    svg = xml.fromstring(making.plot([results({n: 1e-3 * n for n in (2_600, 10_000, 40_000, 160_000)})]))
    circles = svg.findall(f"{SVG}circle")
    places = np.array([[float(circle.get(axis, "")) for axis in ("cx", "cy")] for circle in circles])
    slopes = np.diff(places[:, 1]) / np.diff(places[:, 0])
    np.testing.assert_allclose(slopes, slopes[0], rtol=2e-3)  # coordinates are written to a tenth of a pixel
    assert [circle.get("fill") == "#ffffff" for circle in circles] == [False, False, False, True]
    dotted = [path.get("d", "") for path in svg.findall(f"{SVG}path") if path.get("stroke-dasharray") == "1 4"]
    ends = np.array([[place.split() for place in path[1:].split("L")] for path in dotted], float)
    guides = (ends[:, 1, 1] - ends[:, 0, 1]) / (ends[:, 1, 0] - ends[:, 0, 0])
    np.testing.assert_allclose(guides, slopes[0] * np.array([1.0, 1.15]), rtol=2e-3)
    texts = [text.text for text in svg.findall(f"{SVG}text")]
    assert {"2.6k", "10k", "160k", "100 ms", "hang", "2 cores of Abacus & Co"} <= set(texts)


def test_the_latest_results_of_each_device_are_shown(making: Any, tmp_path: Path) -> None:
    machine = {"cpu": "Abacus & Co", "cores": 2, "gpu": "Loom"}
    files = [
        results({10_000: 5.0}, "2026-01-02"), results({10_000: 7.0}, "2026-01-03"), results({10_000: 9.0}, threads=1),
        results({10_000: 1.0}, device="cuda", machine=machine),
    ]  # fmt: skip
    paths = []
    for number, found in enumerate(files):
        paths.append(tmp_path / f"suite_{number}.json")
        paths[-1].write_text(json.dumps(found))
    shown = making.latest(paths)
    assert [making.title(found) for found in shown] == ["1 of 2 cores of Abacus & Co", "2 cores of Abacus & Co", "Loom"]
    assert [found["rows"][0]["ms_per_frame"] for found in shown] == [9.0, 7.0, 1.0]
    empty = f"before\n{making.BEGIN}old\n{making.END}after\n"
    text = making.page(empty, shown)
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| hang | 10,000 | 2-3 | 7.00 |" in text
    assert making.page(text, shown) == text
    noted = making.page(text, [{**shown[0], "note": "Not of today."}])
    assert "\n\nNot of today.\n\nMilliseconds" in noted
