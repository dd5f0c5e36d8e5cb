"""Resuming is refused if the scene, its files or the conditions have changed, and results are not changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from resumed_runs import RAG, interruptible, results, scene_folder, simulate, stopped, uninterrupted_run  # noqa: F401  fixtures

import toile
from toile.errors import InputError


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("gravity=[0,0,-9]", r"gravity\[2\]: -9.81 in that run, -9.0 in this one"),
        ("cloth[0].fabric=denim", 'cloth.0..fabric.name: "cotton" in that run, "denim" in this one'),
        ("filters[0].thickness=0.004", r"filters\[0\].thickness: 0.005 in that run, 0.004 in this one"),
        (
            "solids[0].motion.keyframes[1].time=0.4",
            r"solids\[0\].motion.keyframes\[1\].time: 0.3 in that run, 0.4 in this one",
        ),
        ("forces=[drag]", r'forces: \[\] in that run, \[\{"type": "drag".* in this one'),
        ("seed=4", "seed: 0 in that run, 4 in this one"),
    ],
)
def test_another_scene_is_refused(change: str, expected: str) -> None:
    stopped("out", after=1)
    before = results("out")
    with pytest.raises(InputError, match=f"out: holds another run[^$]*{expected}"):
        simulate("out", change, resume=True)
    assert results("out") == before
    assert simulate("out", resume=True).resumed == 1


def test_another_file_is_refused(tmp_path: Path) -> None:
    stopped("out", after=1)
    (tmp_path / "rag.obj").write_text(RAG.replace("v 0.1 0.1 0", "v 0.1 0.12 0"))
    with pytest.raises(InputError, match="cloth: the files that it is read from have changed"):
        simulate("out", resume=True)


@pytest.mark.parametrize("what", ["precision", "device", "toile", "audit"])
def test_other_conditions_are_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped("out", after=1)
    identity = toile.Simulation.identity
    monkeypatch.setattr(toile.Simulation, "identity", lambda simulation: {**identity(simulation), what: "another"})
    with pytest.raises(InputError, match=f'{what}: ".*" in that run, "another" in this one'):
        simulate("out", resume=True)


def test_a_run_without_resume_replaces_the_results(whole: dict[str, bytes | str]) -> None:
    stopped("out", after=3)
    stopped("out", after=1)
    assert simulate("out", resume=True).resumed == 1
    simulate("out", "seed=4")
    simulate("out")
    assert results("out") == whole


def test_a_run_that_cannot_start_keeps_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, one whose output needs a package that is not installed."""
    stopped("out", after=3)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pxr", None)
        with pytest.raises(InputError, match="usd-core"):
            simulate("out")
    assert simulate("out", resume=True).resumed == 3
