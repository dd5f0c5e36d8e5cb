"""A valid scene that tests of messages change, and the lines of the error that a broken scene gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from toile.errors import SceneError
from toile.scene.load import load

VALID = """\
name: drape
time: {frames: 2}
cloth:
  - name: sheet
    shape: {type: grid, resolution: [3, 3]}
    translation: [0, 0, 1]
constraints:
  - {type: pin, cloth: sheet, where: {corners: [upper_left]}}
"""


def problems(folder: Path, text: str, *overrides: str, name: str = "drape.yaml") -> list[str]:
    """Lines of the SceneError of a scene, without the folder."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SceneError) as caught:
        load(path, overrides=overrides)
    assert caught.value.exit_code == 2
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [line.replace(f"{folder}/", "") for line in caught.value.problems]
