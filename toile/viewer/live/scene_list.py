"""The scenes that a page can open: the shipped ones, and the one that it started with."""

from __future__ import annotations

from toile.errors import SceneError
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene


class SceneList:
    """Scenes by title. `own` is the title of the given scene, which may have the name of a shipped one."""

    def __init__(self, given: Scene):
        self.given, self.own = given, given.name
        shipped = scene_names()
        if given.name in shipped and not _is_shipped(given):
            self.own = f"{given.name} (as given)"
        self.titles = tuple(dict.fromkeys([self.own, *shipped]))

    def read(self, title: str) -> Scene:
        """Returns a scene. Raises SceneError if it cannot be loaded."""
        return self.given if title == self.own else load(title)


def _is_shipped(scene: Scene) -> bool:
    try:
        return load(scene.name) == scene
    except SceneError:
        return False
