"""The profile: times add up to at most the wall time, every launch is counted, and all patches are removed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp
from typer.testing import CliRunner

from toile.bench.profile import LAUNCHES, OTHERS, Tally, _Stopwatch, _timed_on_device, profile
from toile.bench.sizes import resized
from toile.cli import app
from toile.device.cuda_graph import CudaGraph
from toile.device.launcher import Launcher
from toile.simulation.simulation import Simulation


@wp.kernel
def double(x: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = x[i] * wp.float64(2.0)


def started(name: str, device: str, size: int = 300) -> Simulation:
    simulation = Simulation(resized(name, size, ["outputs=[]"]), device=device)
    simulation.advance_frame()
    return simulation


def places() -> list[Any]:
    return [getattr(home, name) for home, name, *_ in (*LAUNCHES, *OTHERS, (CudaGraph, "__call__"))]


@pytest.mark.parametrize("name", ["swing", "drape"])
def test_times_are_within_the_wall_time(name: str, device: str) -> None:
    before = places()
    simulation = started(name, device)
    found = profile(simulation, 3)
    assert places() == before
    assert found["frames"] == [2, 4] and simulation.frame == 4
    rows = [*found["kernels"], *found["others"]]
    assert min(row["ms"] for row in rows) >= 0.0
    assert 0.0 < sum(row["ms"] for row in rows) <= found["wall_ms"]
    assert found["rest_ms"] >= 0.0
    assert found["ms_per_frame"] == pytest.approx(found["wall_ms"] / 3)
    for kind in ("kernels", "others"):
        ms = [row["ms"] for row in found[kind]]
        assert ms == sorted(ms, reverse=True)
        for row in found[kind]:
            assert row["share"] == pytest.approx(row["ms"] / found["wall_ms"])
            assert row["us_per_call"] == pytest.approx(1e3 * row["ms"] / row["calls"])


def test_every_solve_is_counted(device: str) -> None:
    simulation = started("swing", device)
    integrator: Any = simulation.integrator
    solver, solves = integrator.newton.solver, [0]
    solve = solver.solve

    def counted(*given: Any, **named: Any) -> Any:
        solves[0] += 1
        return solve(*given, **named)

    solver.solve = counted
    calls = {row["name"]: row["calls"] for row in profile(simulation, 2)["kernels"]}
    assert solves[0] >= 4
    assert calls["linear.modified_pcg.start"] == solves[0]


def test_a_profile_changes_no_bit() -> None:
    plain, watched = (started("drape", "cpu") for _ in range(2))
    for _ in range(3):
        plain.advance_frame()
    profile(watched, 3)
    assert np.array_equal(plain.state.x.numpy(), watched.state.x.numpy())


def test_a_failure_restores_the_original_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    before, simulation = places(), started("swing", "cpu")

    def fails(_: Simulation) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Simulation, "advance_frame", fails)
    with pytest.raises(ZeroDivisionError):
        profile(simulation, 1)
    assert places() == before


def test_nested_time_is_counted_once() -> None:
    """An outer call of 30 ms that spends 20 ms in an inner one; sleeps take a little longer than requested."""
    tally = Tally()
    stopwatch = _Stopwatch(tally)
    inner = stopwatch.timed(lambda: time.sleep(0.02), "inner")

    def work() -> None:
        inner()
        time.sleep(0.01)

    begin = time.perf_counter()
    stopwatch.timed(work, "outer")()
    wall = 1e3 * (time.perf_counter() - begin)
    assert tally.others["inner"].ms >= 20.0 and tally.others["outer"].ms >= 10.0
    assert tally.others["inner"].ms + tally.others["outer"].ms <= wall


def test_activities_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Activities that Warp reports of a GPU, from a stand-in: kernels by name, and those of CUDA graphs one by one."""

    class Activity:
        def __init__(self, name: str, kind: int, elapsed: float):
            self.name, self.filter, self.elapsed = name, kind, elapsed

    launch, x = Launcher("cpu"), wp.ones(4, dtype=wp.float64, device="cpu")

    def messages() -> list[Activity]:
        kernel = f"forward kernel {double.get_mangled_name()}"
        return [
            Activity(kernel, wp.TIMING_KERNEL, 1.5),
            Activity(kernel, wp.TIMING_KERNEL, 0.5),
            Activity("forward kernel of_others", wp.TIMING_KERNEL, 0.25),
            Activity("memcpy DtoH", wp.TIMING_MEMCPY, 0.125),
        ]

    monkeypatch.setattr(wp, "timing_begin", lambda: None)
    monkeypatch.setattr(wp, "timing_end", messages)
    tally = Tally()
    recorded = CudaGraph("cpu", lambda: launch(double, 4, [x]))
    with _timed_on_device(tally):
        recorded(x)
        recorded(x)
    assert x.numpy().tolist() == [4.0] * 4
    assert {name: (spent.calls, spent.ms) for name, spent in tally.kernels.items()} == {
        f"{__name__}.double": (2, 2.0), "of_others": (1, 0.25)
    }  # fmt: skip
    assert {name: (spent.calls, spent.ms) for name, spent in tally.others.items()} == {"memcpy DtoH": (1, 0.125)}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["bench", "swing", "--profile", "--sizes", "200", "--frames", "2", "--skip", "2"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["scene"], found["vertices"], found["frames"]) == ("swing", 196, [3, 4])
    messages = CliRunner().invoke(app, [*arguments, "--set", "solver.preconditioner=block_jacobi"]).stdout
    assert "swing, 196 vertices on cpu: frames 3 to 4" in messages
    kernels = messages.split("kernel ")[1].split("other calls")[0].strip().splitlines()[1:]
    assert len([line for line in kernels if line.strip()]) == 11, "ten, and a line for all others"
