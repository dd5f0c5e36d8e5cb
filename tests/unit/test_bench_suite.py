"""The suite: sizes, rows that agree with the certificate, growth, files, and cases that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from toile.bench import results, suite, swing, tables
from toile.bench.case import SCENES, STAGES, Case, measure, plain
from toile.bench.sizes import parsed, resized, size_label
from toile.cli import app
from toile.errors import InputError, StepFailed
from toile.simulation.simulation import Simulation

ROOT = Path(__file__).parents[2]
CONDITIONS = {
    "device": "cpu",
    "precision": "double",
    "machine": {"cpu": "one", "cores": 2},
    "versions": {},
    "threads": 2,
}


# sizes


def test_sizes_are_read_and_reported() -> None:
    assert parsed("2.6k, 10k,1M,2601") == [2600, 10_000, 1_000_000, 2601]
    assert [size_label(size) for size in parsed("2.6k,10k,1M,500")] == ["2.6k", "10k", "1M", "500"]
    for wrong in ("", "k", "-5", "10kk", "nan", "inf", "3"):
        with pytest.raises(InputError, match="must be a number of vertices"):
            parsed(wrong)


@pytest.mark.parametrize("name", ["swing", "drape", "layers", "twist"])
def test_other_sizes_of_a_scene(name: str) -> None:
    """The closest size that keeps the proportions; one more vertex along a side changes it by about 2 / sqrt(n)."""
    for size in (300, 2_600, 160_000):
        scene = resized(name, size)
        resolutions = [cloth.shape.resolution for cloth in scene.cloth]
        count = sum(n * m for n, m in resolutions)
        assert count == pytest.approx(size, rel=2.0 * (len(resolutions) / size) ** 0.5)
        for cloth, (n, m) in zip(scene.cloth, resolutions, strict=True):
            width, height = cloth.shape.size
            assert (n - 1) / (m - 1) == pytest.approx(width / height, rel=1.0 / (min(n, m) - 1))
            for item in scene.filters:
                assert (item.thickness or 0.0) <= 0.5 * min(width / (n - 1), height / (m - 1)) * (1 + 1e-12)


def test_a_tube_has_sizes() -> None:
    """A sleeve of 2 pi r by h: n around, m along, and cells that keep their proportions."""
    for size in (300, 2_600, 40_000):
        scene = resized("elbow", size)
        (cloth,), (n, m) = scene.cloth, scene.cloth[0].shape.resolution
        (radius, bottom), (_, top) = cloth.shape.profile
        assert n * m == pytest.approx(size, rel=2.0 / size**0.5)
        assert (n / (m - 1)) / (26 / 32) == pytest.approx(1.0, rel=1.0 / n)
        edge = min(2.0 * np.pi * radius / n, (top - bottom) / (m - 1))
        assert all(item.thickness <= 0.5 * edge * (1 + 1e-12) for item in scene.filters)


def test_only_grids_and_tubes_have_sizes() -> None:
    with pytest.raises(InputError, match="grids or tubes"):
        resized("spin", 1000)


def test_the_pile_has_up_to_fifty_sheets() -> None:
    """Sheets of 70 x 70 vertices; finer ones beyond 245,000 vertices, smaller ones where two are too many."""
    for size, layers, side in ((300, 2, 12), (10_000, 2, 71), (40_000, 8, 71), (245_000, 50, 70), (1_000_000, 50, 141)):
        scene = SCENES["layers_50"].of_size(size)
        assert [cloth.shape.resolution for cloth in scene.cloth] == [(side, side)] * layers


def test_scenes_with_sizes_of_their_own() -> None:
    sizes = {name: [case.size for case in suite.cases("cuda") if case.scene == name] for name in SCENES}
    assert sizes["hang"] == [2_600, 10_000, 40_000, 160_000, 1_000_000]
    assert sizes["layers_50"] == [10_000, 40_000, 245_000]
    assert {case.scene for case in suite.cases("cpu", sizes=[100])} == set(SCENES)


# swing error


def test_the_error_of_a_swing() -> None:
    """The error of the reference itself is 0, wherever it starts, and that of a path displaced by d is |d|."""
    start = np.array([0.3, -0.2, 1.3])
    centers = [start, *(start + swing.reference(51))]
    assert swing.error(centers, 51) == pytest.approx(0.0, abs=1e-15)
    off = np.array([0.003, 0.0, 0.004])
    assert swing.error([start, *(center + off for center in centers[1:])], 51) == pytest.approx(0.005, rel=1e-12)
    assert swing.error(centers[:-1], 51) is None


def test_the_reference_is_what_symplectic_euler_computes(benchmark_script: Any) -> None:
    """The first frames are computed again by the program that makes the file; 7 digits are kept. The scoreboard's
    reference, which another program writes, is the same path."""
    claims, steps_for = benchmark_script("claims"), benchmark_script("suite_reference").steps_for
    board = json.loads((ROOT / "benchmarks/scoreboard/scenes/hang_51.json").read_text(encoding="utf-8"))["reference"]
    assert board["steps_per_frame"] == steps_for(51)
    for side, frames in ((26, 3), (51, 1)):
        scene = claims.sheet(side, 5e3)
        short = scene.model_copy(update={"time": scene.time.model_copy(update={"frames": frames})})
        expected = claims.explicit_reference(short, steps_for(side))
        np.testing.assert_allclose(swing.reference(side)[:frames], expected, atol=1e-7)
    np.testing.assert_allclose(board["centers"][:frames], expected, atol=1e-12)


def test_a_sheet_is_compared_with_the_reference_of_the_nearest_resolution() -> None:
    """Finer sheets are compared with the finest one and coarser sheets with the coarsest."""
    for side, nearest in ((1000, 101), (80, 101), (60, 51), (5, 26)):
        assert np.array_equal(swing.reference(side), swing.reference(nearest))
    assert not np.array_equal(swing.reference(26), swing.reference(51))


# rows


@pytest.fixture(scope="module")
def drape() -> dict[str, Any]:
    return measure(Case("drape", 150, frames=11))


def test_a_row_agrees_with_the_certificate(drape: dict[str, Any]) -> None:
    """An independent run of the same scene, with steps of 1/60 s; the CPU computes the same bits."""
    simulation = Simulation(resized("drape", 150, ["outputs=[]", f"time.max_step={1.0 / 60.0!r}"]))
    for _ in simulation.run(11):
        pass
    report = simulation.report()
    summary = report["summary"]
    for key in ("steps", "rejected", "max_strain", "intersections", "frames"):
        assert drape[key] == summary[key], key
    assert drape["vertices"] == simulation.model.particle_count
    assert drape["contacts"] == report["frames"][-1]["contacts"]
    assert drape["failed"] is None and drape["swing_error_cm"] is None
    assert drape["memory"]["process"] > 50e6 and drape["memory"]["device"] is None


def test_times_of_a_row_add_up(drape: dict[str, Any]) -> None:
    assert drape["window"] == [8, 11] and drape["begun"]
    timed = drape["ms_frames"][7:]
    assert drape["ms_mean"] == pytest.approx(np.mean(timed), rel=1e-3)  # they are stored to a microsecond
    assert drape["ms_per_frame"] == pytest.approx(np.median(timed), rel=1e-3)
    stages = dict(drape["stages"])
    assert stages.pop("audit") > 0.0
    assert set(stages) == {*STAGES, "rest"}
    assert sum(stages.values()) == pytest.approx(drape["ms_mean"], rel=1e-9)
    assert min(stages.values()) >= 0.0
    assert 1 <= drape["iterations"]["median"] <= drape["iterations"]["max"]


def test_the_swing_error_of_a_coarse_sheet() -> None:
    """15 x 15 for a second against the reference of 26 x 26: the error of the integrator and of the mesh."""
    row = measure(Case("hang", 225, frames=30))
    assert row["window"] == [2, 30]
    assert 0.1 < row["swing_error_cm"] < 5.0
    assert row["intersections"] == 0


def test_a_case_without_time_measures_the_minimum_of_frames() -> None:
    """A budget of zero allows the minimum number of frames."""
    row = measure(Case("twist", 100, budget=0.0))
    assert (row["frames"], row["window"], row["begun"]) == (3, [2, 3], False)
    assert tables.times([row])[1][0][2] == "2-3 *"
    assert tables.notes([row], 10**6) == ["* the budget ended before the timed window of the scene began"]


def test_a_step_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Simulation.advance_frame

    def fails(simulation: Simulation) -> Any:
        if simulation.frame == 4:
            raise StepFailed("vertex 1 moved 0.41 m.\n  Try another.", 5, 0.2, np.zeros((1, 3)), np.zeros((1, 3)))
        return advance(simulation)

    monkeypatch.setattr(Simulation, "advance_frame", fails)
    row = plain(measure(Case("layers", 100)))
    assert row["failed"] == "StepFailed: vertex 1 moved 0.41 m."
    assert row["frames"] == 4 and len(row["ms_frames"]) == 4
    assert tables.notes([row], 10**6)[-1] == "layers 100: StepFailed: vertex 1 moved 0.41 m."


def test_a_lack_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("Failed to allocate 8 bytes on device 'cuda:0'")

    monkeypatch.setattr("toile.bench.case.Simulation", fails)
    row = plain(measure(Case("layers", 100)))
    assert row["failed"] == "RuntimeError: Failed to allocate 8 bytes on device 'cuda:0'"
    assert tables.times([row])[1] == [("layers", "100", *["-"] * 10)]
    assert set(tables.outcomes([row])[1][0][2:-1]) == {"-"}


def test_nan_is_written_as_null() -> None:
    assert plain({"max_strain": np.float64("nan"), "n": np.int64(3)}) == {"max_strain": None, "n": 3}


def test_a_case_in_a_separate_process() -> None:
    seen = []
    row = suite.measured(Case("hang", 100, frames=3), lambda frame, last: seen.append((frame, last)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert (row["scene"], row["vertices"], row["failed"]) == ("hang", 100, None)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
@pytest.mark.parametrize(
    ("script", "why"),
    [("kill -9 $$", "out of memory"), ("echo some; echo last >&2; exit 3", "last"), ("exit 3", "ended with 3")],
)
def test_a_process_that_dies_is_a_row(script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert suite.measured(Case("hang", 100)) == {"scene": "hang", "size": 100, "device": "cpu", "failed": why}


# growth


def row_of(size: int, ms: list[float], window: tuple[int, int], scene: str = "hang") -> dict[str, Any]:
    return {
        "scene": scene, "size": size, "vertices": size, "device": "cpu", "failed": None, "frames": len(ms),
        "window": list(window), "begun": True, "ms_frames": ms, "ms_per_frame": float(np.median(ms)),
    }  # fmt: skip


def test_growth_of_a_power() -> None:
    """ms = 3e-3 n^1.1 in the common frames, other values elsewhere, and at a size that is too small to count."""
    rows = [row_of(2_600, [50.0] * 9, (2, 9))]
    for size, count in ((160_000, 5), (10_000, 9), (40_000, 7)):
        ms = [1e5] * 2 + [3e-3 * size**1.1] * 3 + [float(size) ** 2] * (count - 5)
        rows.append(row_of(size, ms, (3, count)))
    found = suite.growth(rows)
    assert found is not None
    assert found["exponent"] == pytest.approx(1.1, rel=1e-12)
    assert found["steepest"] == pytest.approx(1.1, rel=1e-12)
    assert (found["sizes"], found["frames"]) == ([10_000, 160_000], [3, 5])
    (line,) = tables.growths({"hang": found})
    assert line == "hang: n^1.10 from 10k to 160k, n^1.10 where it is steepest (frames 3 to 5)"


def test_growth_of_two_powers() -> None:
    """n up to 40k and n^1.5 beyond, at sizes with a ratio of four: 1.25 by least squares, 1.5 where it is steepest."""
    times = {10_000: 1.0, 40_000: 4.0, 160_000: 32.0}
    found = suite.growths([row_of(size, [ms] * 3, (2, 3)) for size, ms in times.items()])["hang"]
    assert found["exponent"] == pytest.approx(1.25, rel=1e-12)
    assert found["steepest"] == pytest.approx(1.5, rel=1e-12)


def test_growth_needs_two_sizes() -> None:
    assert suite.growths([row_of(10_000, [1.0] * 3, (2, 3)), {"scene": "hang", "size": 40_000, "failed": "no"}]) == {}


# files


def test_results_are_kept_after_each_case(tmp_path: Path) -> None:
    path = tmp_path / "new" / "suite.json"
    kept = results.Results(path, CONDITIONS)
    kept.add({"scene": "drape", "size": 100, "device": "cpu", "failed": "out of memory"})
    kept.add(row_of(100, [1.0] * 3, (2, 3)))
    again = results.Results(path, CONDITIONS)
    assert again.rows == kept.rows and results.read(path)["conditions"] == CONDITIONS
    assert again.has(Case("hang", 100)) and not again.has(Case("hang", 200))
    assert not again.has(Case("drape", 100)), "what failed is tried again"
    again.add(row_of(100, [2.0] * 3, (2, 3)))
    assert [row["scene"] for row in results.read(path)["rows"]] == ["hang", "drape"]
    assert [entry.name for entry in path.parent.iterdir()] == ["suite.json"]


def test_times_of_another_machine_are_not_mixed(tmp_path: Path) -> None:
    results.Results(tmp_path / "suite.json", CONDITIONS).add(row_of(100, [1.0] * 3, (2, 3)))
    with pytest.raises(InputError, match="measured with another machine and threads"):
        results.Results(tmp_path / "suite.json", {**CONDITIONS, "threads": 1, "machine": {"cpu": "other", "cores": 2}})
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="holds no results"):
        results.Results(tmp_path / "other.json", CONDITIONS)


# the command


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def test_the_command_resumes_an_interrupted_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Case] = []

    def measured(case: Case, progress: Any) -> dict[str, Any]:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(case)
        stages = dict.fromkeys((*STAGES, "rest", "audit"), 0.0)
        return row_of(case.size, [1.0] * 3, (2, 3), case.scene) | {"ms_mean": 1.0, "stages": stages}

    prepared: list[str] = []
    monkeypatch.setattr(suite, "prepare", lambda scene, device: prepared.append(scene))
    monkeypatch.setattr(suite, "measured", measured)
    arguments = ("--suite", "--sizes", "100,200", "--scenes", "hang,twist", "--out", str(tmp_path / "suite.json"))
    assert call(*arguments).exit_code == 130
    assert [(case.scene, case.size) for case in asked] == [("hang", 100), ("twist", 100), ("hang", 200)]
    assert prepared == ["hang", "twist"]
    prepared.clear()
    asked.clear()
    result = call(*arguments, "--resume", "--json")
    assert result.exit_code == 0, result.output
    assert [(case.scene, case.size, case.budget) for case in asked] == [("twist", 200, 90.0)]
    assert prepared == ["twist"]
    found = json.loads(result.stdout)
    assert len(found["rows"]) == 4 and set(found["growth"]) == {"hang", "twist"}
    assert set(found) == {"conditions", "rows", "growth", "written"}
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it, and the table is wider
    printed = call(*arguments, "--resume").stdout
    assert " swing " in printed and "n^0.00 from 100 to 200" in printed


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--suite", "hang"), "SCENE: cannot be combined with --suite"),
        (("--suite", "--scenes", "spin"), 'the suite has no scene "spin"'),
        (("--suite", "--sizes", "many"), "must be a number of vertices"),
        (("--suite", "--profile"), "--profile: cannot be combined with --suite"),
        (("--profile",), "give exactly one scene"),
        (("hang", "--profile", "--sizes", "1k,2k"), "--profile takes one"),
        (("hang", "--profile", "--resume"), "--resume: only for toile bench --suite"),
        (("hang", "--sizes", "1k"), "--sizes: only for toile bench --suite or --profile"),
        (("hang", "--device", "cuda"), "--device: only for toile bench --suite or --profile"),
    ],
)
def test_options_without_effect_are_refused(
    arguments: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert not list(tmp_path.iterdir())
