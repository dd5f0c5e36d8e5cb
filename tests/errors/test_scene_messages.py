"""Messages for broken scenes: the place, the key, the value, what is wrong, and the remedy.

Each case changes one field of a valid scene and gives the exact line of the error.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_scenes import VALID, problems

from toile.plugins import find, names
from toile.scene.load import load

OF_CLOTH = [name for name in names("energies") if getattr(find("energies", name), "scope", None) == "cloth"]


def test_the_scene_that_the_cases_change_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "drape.yaml"
    path.write_text(VALID)
    assert load(path).cloth[0].translation == (0.0, 0.0, 1.0)


# (text of the valid scene, its replacement, the expected line)
ONE_FIELD = {
    "unknown key": (
        "time: {frames: 2}",
        "time: {frame: 2}",
        'drape.yaml:2  time.frame: no such key. Did you mean "frames"?',
    ),
    "unknown top key": (
        "time: {frames: 2}",
        "tiem: {frames: 2}",
        'drape.yaml:2  tiem: no such key. Did you mean "time"?',
    ),
    "unknown key of a plugin": (
        "resolution: [3, 3]",
        "resolutoin: [3, 3]",
        'drape.yaml:5  cloth[0].shape.resolutoin: no such key. Did you mean "resolution"?',
    ),
    "unknown type": (
        "type: grid",
        "type: gird",
        'drape.yaml:5  cloth[0].shape.type = "gird": no such shape. Did you mean "grid"?',
    ),
    "unknown type, far from any": (
        "type: grid",
        "type: xyz",
        'drape.yaml:5  cloth[0].shape.type = "xyz": no such shape. Choose from: ' + f"{', '.join(names('shapes'))}.",
    ),
    "no type": (
        "shape: {type: grid, resolution: [3, 3]}",
        "shape: {size: [1, 1]}",
        f"drape.yaml:5  cloth[0].shape = {{size: [1, 1]}}: needs a type: one of {', '.join(names('shapes'))}.",
    ),
    "out of range with unit": (
        "time: {frames: 2}",
        "time: {fps: -1}",
        "drape.yaml:2  time.fps = -1: must be > 0 [1/s].",
    ),
    "out of range, written 1e-3": (
        "    translation: [0, 0, 1]",
        "    energies: [{type: bend_angle, rigidity: -2e-5}]",
        "drape.yaml:6  cloth[0].energies[0].rigidity = -2e-5: must be >= 0 [N m].",
    ),
    "unknown energy": (
        "    translation: [0, 0, 1]",
        "    energies: [stretch, {type: bend_angel}]",
        'drape.yaml:6  cloth[0].energies[1].type = "bend_angel": no such energy. Did you mean "bend_angle"?',
    ),
    "an energy of the scene in a cloth": (
        "    translation: [0, 0, 1]",
        "    energies: [drag]",
        'drape.yaml:6  cloth[0].energies[0] = "drag": no such energy. Choose from: ' + f"{', '.join(OF_CLOTH)}.",
    ),
    "text for a number": ("frames: 2", "max_step: fast", 'drape.yaml:2  time.max_step = "fast": must be a number [s].'),
    "text for a whole number": (
        "frames: 2",
        "frames: many",
        'drape.yaml:2  time.frames = "many": must be a whole number.',
    ),
    "a fraction for a whole number": (
        "frames: 2",
        "frames: 2.5",
        "drape.yaml:2  time.frames = 2.5: must be a whole number.",
    ),
    "true for a number": ("frames: 2", "frames: yes", "drape.yaml:2  time.frames = true: must be a number."),
    "a list for a number": ("frames: 2", "fps: [1, 2]", "drape.yaml:2  time.fps = [1, 2]: must be a number [1/s]."),
    "a number for a list": (
        "translation: [0, 0, 1]",
        "translation: 1",
        "drape.yaml:6  cloth[0].translation = 1: must be a list [m].",
    ),
    "a number for a mapping": (
        "time: {frames: 2}",
        "time: 2",
        "drape.yaml:2  time = 2: must be a mapping of keys to values.",
    ),
    "too few entries": (
        "translation: [0, 0, 1]",
        "translation: [0]",
        "drape.yaml:6  cloth[0].translation = [0]: needs 3 entries [m].",
    ),
    "too many entries": (
        "translation: [0, 0, 1]",
        "translation: [0, 0, 1, 2]",
        "drape.yaml:6  cloth[0].translation = [0, 0, 1, 2]: has 4 entries; at most 3 are allowed.",
    ),
    "a wrong entry": (
        "translation: [0, 0, 1]",
        "translation: [0, x, 1]",
        'drape.yaml:6  cloth[0].translation[1] = "x": must be a number [m].',
    ),
    "NaN": ("[0, 0, 1]", "[0, .nan, 1]", "drape.yaml:6  cloth[0].translation[1] = nan: must be a finite number [m]."),
    "infinity": (
        "[0, 0, 1]",
        "[0, 0, -.inf]",
        "drape.yaml:6  cloth[0].translation[2] = -inf: must be a finite number [m].",
    ),
    "1e400": (
        "[0, 0, 1]",
        "[0, 0, 1e400]",
        "drape.yaml:6  cloth[0].translation[2] = 1e400: must be a finite number [m].",
    ),
    "1.0e+400": (
        "[0, 0, 1]",
        "[0, 0, 1.0e+400]",
        "drape.yaml:6  cloth[0].translation[2] = inf: must be a finite number [m].",
    ),
    "base 60": ("frames: 2", "fps: 1:30", 'drape.yaml:2  time.fps = "1:30": must be a number [1/s].'),
    "missing field": (
        "    shape: {type: grid, resolution: [3, 3]}\n",
        "",
        "drape.yaml:4  cloth[0].shape: missing (source of its mesh, such as grid, disc or mesh).",
    ),
    "missing field of a plugin": (
        ", where: {corners: [upper_left]}",
        "",
        "drape.yaml:8  constraints[0].where: missing (which particles).",
    ),
    "unknown fabric": (
        "translation: [0, 0, 1]",
        "fabric: cotten",
        'drape.yaml:6  cloth[0].fabric = "cotten": no such fabric. Did you mean "cotton"?',
    ),
    "unknown key of a fabric": (
        "translation: [0, 0, 1]",
        "fabric: {densty: 1}",
        'drape.yaml:6  cloth[0].fabric.densty: no such key. Did you mean "density"?',
    ),
    "weightless fabric": (
        "translation: [0, 0, 1]",
        "fabric: {density: 0}",
        "drape.yaml:6  cloth[0].fabric.density = 0: must be > 0 [kg/m^2].",
    ),
    "unknown choice": (
        "upper_left",
        "uper_left",
        'drape.yaml:8  constraints[0].where.corners[0] = "uper_left": no such choice. Did you mean "upper_left"?',
    ),
    "steps in the wrong order": (
        "time: {frames: 2}",
        "time: {max_step: 1e-3, min_step: 0.01}",
        "drape.yaml:2  time.min_step = 0.01: larger than max_step = 0.001 [s].",
    ),
    "a name twice": (
        "constraints:\n",
        "  - {name: sheet, shape: grid}\nconstraints:\n",
        'drape.yaml:7  cloth[1].name = "sheet": another cloth has this name; names must differ.',
    ),
    "gravity among the forces": (
        "time: {frames: 2}",
        "forces: [gravity]",
        'drape.yaml:2  forces[0] = "gravity": always acts and is not listed. Set the scene\'s own key gravity instead.',
    ),
    "an output twice": (
        "time: {frames: 2}",
        "outputs: [obj, npz, {type: obj}]",
        "drape.yaml:2  outputs[2]: would write the same file as outputs[0]; list it once.",
    ),
    "two cameras for one picture": (
        "time: {frames: 2}",
        "outputs: [{type: picture, frame: 1}, {type: picture, frame: 1, fov: 20}]",
        "drape.yaml:2  outputs[1]: would write the same file as outputs[0]; list it once.",
    ),
    "an unknown value": (
        "time: {frames: 2}",
        "expect:\n  ok: {equals: true}\n  max_strian: {max: 0.1}",
        'drape.yaml:4  expect.max_strian: no such value in the certificate. Did you mean "max_strain"?',
    ),
    "an unknown value of a frame": (
        "time: {frames: 2}",
        "expect: {frames.strain.warp_men: {max: 0.1}}",
        "drape.yaml:2  expect.frames.strain.warp_men: no such value in the certificate. "
        'Did you mean "frames.strain.warp_mean"?',
    ),
    "the energy of a force that is not there": (
        "time: {frames: 2}",
        "expect: {frames.energy.stretch: {max: 1}, frames.energy.pull: {max: 1}}",
        "drape.yaml:2  expect.frames.energy.pull: no such value in the certificate. "
        'Did you mean "frames.energy.shear"?',
    ),
    "an expectation without a limit": (
        "time: {frames: 2}",
        "expect: {ok: {}}",
        "drape.yaml:2  expect.ok = {}: no limit given. Give min, max or equals.",
    ),
    "version from the future": ("name: drape", "version: 9", "drape.yaml:1  version = 9: must be <= 1."),
    "empty name": ("name: drape", "name: ''", 'drape.yaml:1  name = "": string should have at least 1 character.'),
    "keyframes out of order": (
        "{corners: [upper_left]}",
        "{all: true}, motion: {keyframes: [{time: 1}, {time: 0.5}]}",
        "drape.yaml:8  constraints[0].motion: keyframe 1 at 0.5 s is not later than keyframe 0 at 1.0 s.",
    ),
    "a key twice": (
        "time: {frames: 2}",
        "time:\n  frames: 2\n  frames: 3",
        "drape.yaml:4  time.frames: given twice; the first is on line 3.",
    ),
    "tag": (
        "name: drape",
        "name: !!python/object/apply:os.getcwd []",
        "drape.yaml:1  name: tags such as !!python/object/apply:os.getcwd are not allowed in a scene.",
    ),
    "unknown cloth": (
        "cloth: sheet",
        "cloth: shet",
        'drape.yaml:8  constraints[0].cloth = "shet": no such cloth. Did you mean "sheet"?',
    ),
    "which cloth": (
        "constraints:\n  - {type: pin, cloth: sheet,",
        "  - {name: other, shape: grid}\nconstraints:\n  - {type: pin,",
        "drape.yaml:9  constraints[0].cloth: missing: the scene has several cloths. Name one of: sheet, other.",
    ),
    "a vertex that does not exist": (
        "{corners: [upper_left]}",
        "{indices: [0, 9]}",
        "drape.yaml:8  constraints[0].where = {indices: [0, 9]}: vertex 9 does not exist: the cloth "
        "has vertices 0 to 8.",
    ),
    "selects nothing": (
        "{corners: [upper_left]}",
        "{}",
        "drape.yaml:8  constraints[0].where = {}: selects no particle: give indices, corners, "
        "edges, box, region or all.",
    ),
    "an empty box": (
        "{corners: [upper_left]}",
        "{box: [[5, 5, 5], [6, 6, 6]]}",
        "drape.yaml:8  constraints[0].where = {box: [[5.0, 5.0, 5.0], [6.0, 6.0, 6.0]]}: no "
        "particle starts inside the box: "
        "the cloth starts within (-0.5, -0.5, 1) to (0.5, 0.5, 1) m.",
    ),
    "unknown region": (
        "{corners: [upper_left]}",
        "{region: colar}",
        'drape.yaml:8  constraints[0].where = {region: "colar"}: no region "colar". The cloth has no regions.',
    ),
    "nearest region": (
        "    translation: [0, 0, 1]\n",
        "    regions: {collar: {edges: [upper]}}\n    rest_stretch: [{region: colar, warp: 0.8}]\n",
        'drape.yaml:7  cloth[0].rest_stretch[0].region = "colar": no such region. Did you mean "collar"?',
    ),
    "a region that selects nothing": (
        "    translation: [0, 0, 1]\n",
        "    regions: {collar: {}}\n",
        "drape.yaml:6  cloth[0].regions.collar = {}: selects no particle: give indices, corners, "
        "edges, box, region or all.",
    ),
    "a cloth without area": (
        "resolution: [3, 3]",
        "resolution: [3, 3], size: [1, 0]",
        "drape.yaml:5  cloth[0].shape.size[1] = 0: must be > 0 [m].",
    ),
    "a grid without cells": (
        "resolution: [3, 3]",
        "resolution: [3, 1]",
        "drape.yaml:5  cloth[0].shape.resolution[1] = 1: must be >= 2.",
    ),
    "a negative number of vertices": (
        "resolution: [3, 3]",
        "resolution: [-3, 3]",
        "drape.yaml:5  cloth[0].shape.resolution[0] = -3: must be >= 2.",
    ),
    "far away": (
        "translation: [0, 0, 1]",
        "translation: [1e300, 0, 0]",
        "drape.yaml:4  cloth[0]: starts farther than 1e+06 m from the origin; check translation and rotation.",
    ),
    "turned without end": (
        "translation: [0, 0, 1]",
        "rotation: [1e300, 1e300, 0]",
        "drape.yaml:4  cloth[0]: starts farther than 1e+06 m from the origin; check translation and rotation.",
    ),
    "a force on a cloth that is not there": (
        "constraints:\n  - {type: pin, cloth: sheet, where: {corners: [upper_left]}}",
        "forces:\n  - {type: pull, cloth: shirt, target: [0, 0, 1]}",
        'drape.yaml:8  forces[0].cloth = "shirt": no such cloth. Did you mean "sheet"?',
    ),
    "a triangle that does not exist": (
        "constraints:\n  - {type: pin, cloth: sheet, where: {corners: [upper_left]}}",
        "forces:\n  - {type: pull, triangle: 8, target: [0, 0, 1]}",
        "drape.yaml:8  forces[0].triangle = 8: does not exist: the cloth has 0 to 7.",
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), ONE_FIELD.values(), ids=ONE_FIELD.keys())
def test_one_wrong_field(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert VALID.count(old) == 1
    assert problems(tmp_path, VALID.replace(old, new)) == [expected]
