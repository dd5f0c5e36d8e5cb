"""Any content of a scene gives a Scene or a SceneError, every line of which names its place."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toile.errors import SceneError
from toile.scene.load import load, meshes

SCENE: dict[str, Any] = yaml.safe_load("""
name: all
time: {frames: 2, fps: 30}
gravity: [0, 0, -9.81]
cloth:
  - name: sheet
    shape: {type: grid, size: [1, 1], resolution: [3, 3]}
    fabric: denim
    translation: [0, 0, 1]
    regions: {hem: {edges: [lower]}, top: {indices: [7]}}
    rest_stretch: [{region: hem, warp: [[0, 1], [1, 0.9]]}]
    energies: [stretch, {type: bend_angle, rigidity: 1.0e-5}]
  - {name: other, shape: disc, fabric: {density: 0.3}}
constraints:
  - {type: pin, cloth: sheet, where: {corners: [upper_left], region: top}, end: 1}
  - {type: slide_on_plane, cloth: other, where: {all: true}, normal: [0, 0, 1]}
forces: [{type: wind, velocity: [1, 0, 0]}, {type: pull, cloth: sheet, target: [0, 0, 1]}]
integrator: {type: implicit_euler}
solver: {preconditioner: diagonal, tolerance: 1.0e-4}
outputs: [npz]
expect: {ok: {equals: true}}
""")

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.sampled_from(["1e400", "-1", "1e-3", "grid", "cotton", "sheet", "../x", "{type}", [[1, 2]], 2**80]),
    st.just({"type": "grid"}),
    st.lists(st.integers(-5, 5), max_size=5),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Yields the path of every item inside a value."""
    items: list = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


PLACES = places(SCENE)[1:]


def test_the_scene_that_is_changed_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_text(yaml.safe_dump(SCENE))
    assert len(meshes(load(path))) == 2


@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), JUNK, st.sampled_from(["set", "add", "remove"])), min_size=1, max_size=4
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_random_changes_give_a_scene_or_an_error(tmp_path: Path, changes: list[tuple[tuple, Any, str]]) -> None:
    scene = copy.deepcopy(SCENE)
    for (*parents, last), junk, action in changes:
        holder = scene
        try:
            for part in parents:
                holder = holder[part]
            if action == "remove":
                del holder[last]
            elif action == "add" and isinstance(holder[last], dict):
                holder[last]["extra"] = junk
            else:
                holder[last] = junk
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed the place
    path = tmp_path / "fuzz.yaml"
    path.write_text(yaml.safe_dump(scene, allow_unicode=True))
    try:
        loaded = load(path)
    except SceneError as error:
        for line in error.problems:
            assert re.match(rf"{re.escape(str(path))}(:\d+)?  \S", line), line
            assert line.rstrip().endswith((".", "?")), line
        return
    assert len(meshes(loaded)) == len(loaded.cloth)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_an_absurd_value_at_any_place_is_an_error_there(tmp_path: Path, place: tuple) -> None:
    """No item of a scene may be a mapping with this key, so every such change is an error at its place."""
    scene = copy.deepcopy(SCENE)
    holder: Any = scene
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = {"absurd": {"absurd": 1}}
    path = tmp_path / "fuzz.yaml"
    path.write_text(yaml.safe_dump(scene))
    with pytest.raises(SceneError) as caught:
        load(path)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "absurd" in text)
    assert any(
        re.match(rf"{re.escape(str(path))}:({line - 1}|{line}|{line + 1})  ", problem)
        for problem in caught.value.problems
    )
