"""Ten runs of every scene with contact, from starts a tenth of a millimeter apart: none may fail, tangle or stall.

    intersections after any step    0, by an audit that shares no code with toile.contact
    time of a frame                 at most 10 times the median of its run
    linear solves of a step         at most 3 on average, and at most 8
    expectations of the scene       all met

A step that no step size makes possible raises StepFailed, which fails the test with its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.reference.jittered import Run, run
from toile.bench.layers_50 import layers_50
from toile.runs.expectations import check
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene

SEEDS = range(10)

# Largest time of a frame relative to the median, and linear solves of a step: mean and maximum.
SLOWEST, MEAN_SOLVES, MAX_SOLVES = 10.0, 3.0, 8


@dataclass(frozen=True)
class Row:
    """How a scene is run: as shipped, unless ten runs of that take too long."""

    changes: tuple[str, ...] = ()
    made: Callable[[], Scene] | None = None  # of a scene that is not shipped
    tangled: bool = False  # it starts with intersections, and must end without

    def scene(self, name: str) -> Scene:
        return self.made() if self.made else load(name, overrides=["outputs=[]", *self.changes])


AS_SHIPPED, SHORT = Row(), Row(("time.frames=100",))
TABLE: dict[str, Row] = {
    # cloth on cloth
    "drape": AS_SHIPPED, "fold": AS_SHIPPED, "layers": AS_SHIPPED, "stack": AS_SHIPPED, "twist": AS_SHIPPED,
    "funnel": AS_SHIPPED, "flip": AS_SHIPPED, "reef_knot": AS_SHIPPED, "tangled": Row(tangled=True),
    "layers_50": Row(made=lambda: layers_50(7_200, layers=8)),
    # solids with edges, and solids that leave no room
    "needle": AS_SHIPPED, "knives": AS_SHIPPED, "pinch": AS_SHIPPED, "elbow": AS_SHIPPED, "armpit": AS_SHIPPED,
    "press": AS_SHIPPED,
    # cloth on solids
    "ball": AS_SHIPPED, "conveyor": AS_SHIPPED, "incline": AS_SHIPPED, "spin": AS_SHIPPED, "tablecloth": AS_SHIPPED,
    "stretched_over": AS_SHIPPED, "bmf03_balloon": AS_SHIPPED, "bmf03_bottle": AS_SHIPPED, "ye08_ball": AS_SHIPPED,
    "ye08_skirt": SHORT,
    # cloth that may meet itself
    "bmf03_fold": AS_SHIPPED, "curtain": AS_SHIPPED, "flag": AS_SHIPPED, "hang": AS_SHIPPED, "swing": AS_SHIPPED,
    "pro95_flag": SHORT, "pro95_sail": AS_SHIPPED, "pro95_sheet": AS_SHIPPED, "ye08_swing": AS_SHIPPED,
}  # fmt: skip


def faults(found: Run, row: Row, scene: Scene) -> Iterator[str]:
    """Says what a run did that it may not."""
    summary = found.report["summary"]
    if row.tangled:
        start, end = summary["intersections_start"], summary["intersections_end"]
        if not start or end:
            yield f"{start} intersections at the start, {end} at the end"
    elif summary["intersections"]:
        frames = [entry["frame"] for entry in found.report["frames"] if entry["intersections"]]
        yield f"{summary['intersections']} intersections, first in frame {frames[0]}"
    frame, ratio = found.slowest
    if ratio > SLOWEST:
        yield f"frame {frame} takes {ratio:.1f} times the median"
    mean, largest = sum(found.solves) / len(found.solves), max(found.solves)
    if mean > MEAN_SOLVES or largest > MAX_SOLVES:
        yield f"{mean:.2f} solves a step, at most {largest}"
    yield from (
        f"{finding.key} is {finding.value}, not {finding.bound}"
        for finding in check(scene.expect, found.report)
        if not finding.ok
    )


def test_every_scene_with_contact_is_in_the_table() -> None:
    shipped = {
        name
        for name, scene in ((name, load(name)) for name in scene_names())
        if scene.solids or any(item.resolves_cloth_contact for item in scene.filters)
    }
    assert set(TABLE) == shipped | {"layers_50"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TABLE)
def test_a_jittered_run_stays_calm(name: str, seed: int, device: str) -> None:
    row = TABLE[name]
    scene = row.scene(name)
    found = list(faults(run(scene, seed, device), row, scene))
    assert not found, "; ".join(found)
