"""Scenes that a page can open, by the titles that it gives them: those that are shipped, and the one it began with."""

from __future__ import annotations

from toile.errors import SceneError
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene


class SceneList:
    """`own` is the title of the scene that was given: a name that is shipped may stand for something else."""

    def __init__(self, given: Scene):
        self.given, self.own = given, given.name
        shipped = scene_names()
        if given.name in shipped and not _is_shipped(given):
            self.own = f"{given.name} (as given)"
        self.titles = tuple(dict.fromkeys([self.own, *shipped]))

    def read(self, title: str) -> Scene:
        """SceneError if it cannot be loaded."""
        return self.given if title == self.own else load(title)


def _is_shipped(scene: Scene) -> bool:
    try:
        return load(scene.name) == scene
    except SceneError:
        return False
