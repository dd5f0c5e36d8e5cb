"""Expectations against certificates: met, not met, and impossible ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toile.errors import InputError, SceneError
from toile.runs.expectations import check, read_report
from toile.runs.run import run
from toile.scene.report_keys import report_keys
from toile.scene.schema import Bound, Cloth, Scene


def report(**summary: Any) -> dict[str, Any]:
    means = [0.001, 0.004, 0.002]
    return {
        "summary": {"frames": 3, "max_strain": 0.05, "ok": True, **summary},
        "frames": [
            {"frame": i + 1, "strain": {"warp_mean": mean}, "energy": {"kinetic": 1.0 - i}, "momentum": [0.0, 0.0, 1.0]}
            for i, mean in enumerate(means)
        ],
    }


@pytest.mark.parametrize(
    ("bound", "value", "ok"),
    [
        (Bound(max=0.05), 0.05, True),
        (Bound(max=0.05), 0.0500001, False),
        (Bound(min=0.05), 0.05, True),
        (Bound(min=0.05), 0.0499999, False),
        (Bound(min=0.0, max=0.1), -0.01, False),
        (Bound(min=0.0, max=0.1), 0.11, False),
        (Bound(min=0.0, max=0.1), 0.1, True),
        (Bound(equals=3), 3, True),
        (Bound(equals=3), 2, False),
        (Bound(equals=3), 4, False),
        (Bound(equals=True), True, True),
        (Bound(equals=True), False, False),
        (Bound(equals=False), False, True),
        (Bound(max=1.0), float("nan"), False),
        (Bound(max=1.0), float("-inf"), False),
        (Bound(max=1.0), None, False),
    ],
)
def test_a_bound_on_the_summary(bound: Bound, value: Any, ok: bool) -> None:
    (finding,) = check({"max_strain": bound}, report(max_strain=value))
    assert finding.ok is ok
    assert finding.frame is None


def test_every_frame_must_satisfy_and_the_worst_is_named() -> None:
    (high,) = check({"frames.strain.warp_mean": Bound(max=0.003)}, report())
    assert (high.ok, high.value, high.frame) == (False, 0.004, 2)
    (low,) = check({"frames.energy.kinetic": Bound(min=-2.0)}, report())
    assert (low.ok, low.value, low.frame) == (True, -1.0, 3)
    (same,) = check({"frames.energy.kinetic": Bound(equals=1.0)}, report())
    assert (same.ok, same.value, same.frame) == (False, -1.0, 3)


def test_a_value_that_one_frame_lacks_is_not_met() -> None:
    certificate = report()
    del certificate["frames"][1]["strain"]["warp_mean"]
    (finding,) = check({"frames.strain.warp_mean": Bound(max=1.0)}, certificate)
    assert (finding.ok, finding.value, finding.frame) == (False, None, 2)


def test_without_frames_nothing_about_them_is_met() -> None:
    (finding,) = check({"frames.strain.warp_mean": Bound(max=1.0)}, {**report(), "frames": []})
    assert not finding.ok


def test_unknown_keys_are_reported_all_at_once_with_the_nearest_name() -> None:
    expect = {
        "max_strian": Bound(max=1.0),
        "frames.strain.warp_men": Bound(max=1.0),
        "frames.momentum": Bound(max=1.0),  # three numbers cannot be compared with one
    }
    with pytest.raises(SceneError) as caught:
        check(expect, report())
    strain, mean, momentum = caught.value.problems
    assert strain == 'expect.max_strian: no such value in the certificate. Did you mean "max_strain"?'
    assert mean.endswith('Did you mean "frames.strain.warp_mean"?')
    assert momentum.startswith("expect.frames.momentum: no such value")


def test_the_names_that_a_scene_may_use_are_those_of_the_certificate() -> None:
    cloth = Cloth(shape={"type": "grid", "resolution": (2, 2)})
    solids = ({"type": "plane", "name": "floor"}, {"type": "sphere"}, {"type": "sphere"})
    scene = Scene(cloth=(cloth,), solids=solids, forces=("drag",), time={"frames": 1})
    certificate = run(scene).report
    frame = {f"frames.{path}" for path in paths(certificate["frames"][0]) if ".deepest" not in path}  # a place
    energies = ["stretch", "shear", "bend_mode", "gravity", "drag"]
    assert report_keys(energies, ["floor", "sphere", "sphere_2"]) == frame | paths(certificate["summary"])


def paths(values: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, value in values.items():
        if isinstance(value, dict):
            found |= paths(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            found.add(prefix + name)
    return found


def test_the_text_of_a_bound() -> None:
    expect = {"max_strain": Bound(min=0, max=0.15), "ok": Bound(equals=True), "frames": Bound(equals=3)}
    assert [finding.bound for finding in check(expect, report())] == [">= 0 and <= 0.15", "= true", "= 3"]


def test_a_finished_run_contains_its_expectations(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({**report(), "expect": {"max_strain": {"max": 0.04}}}))
    expect, certificate = read_report(tmp_path)
    (finding,) = check(expect, certificate)
    assert not finding.ok


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"expect": {}}',
        '{"expect": {}, "summary": {}, "frames": []}',
        '{"expect": {"ok": {"maximum": 1}}, "summary": {"ok": true}, "frames": []}',
        "\x00",
    ],
)
def test_a_broken_certificate_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(InputError, match=r"report\.json: not a readable certificate"):
        read_report(tmp_path)


def test_a_folder_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no report\.json"):
        read_report(tmp_path)
