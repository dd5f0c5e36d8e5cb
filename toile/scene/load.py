"""Reads a scene: finds the file, checks all of it, and reports every problem at once, before anything runs.

scene = load("hang")                                       # a shipped scene
scene = load("drape.yaml", overrides=["time.frames=10"])   # a file; relative paths in it start at its folder
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from toile.errors import SceneError
from toile.model.mesh import Mesh
from toile.plugins import nearest
from toile.scene import overrides as override_keys
from toile.scene.consistency import SceneParts, check_consistency
from toile.scene.error_messages import Problem, key_text, problems_of
from toile.scene.fields import field_at, types_of
from toile.scene.presets import fill
from toile.scene.schema import CheckedMeshes, Cloth, Scene
from toile.scene.yaml_reader import Document, KeyPath, parse

SCENES = Path(__file__).parent.parent / "scenes"
SUFFIXES = (".yaml", ".yml", ".json")
LARGEST_FILE = 2 << 20  # [bytes]  large data belong in files beside the scene


def scene_names() -> list[str]:
    """Returns the names of the shipped scenes."""
    return sorted(path.stem for path in SCENES.glob("*.yaml"))


def load(
    name_or_path: str | Path,
    *,
    overrides: Sequence[str] | Mapping[str, str] = (),
    allow_outside: bool = False,
) -> Scene:
    """Returns a checked scene. SceneError holds one line for every problem, as `file:line  key = value: what to do`.

    `overrides` are `key=value` texts, or a mapping of keys to values. Files outside the folder of the scene are read
    only with `allow_outside`.
    """
    path, shown = _find(name_or_path)
    document = parse(_read(path, shown))
    if document.values is None and not document.faults:
        raise SceneError([f"{shown}  is empty. See the shipped scenes with: toile list scenes"])
    if not isinstance(document.values, dict):
        faults = document.faults or [((), 1, "a scene is a mapping of keys to values, such as `name: drape`.")]
        raise SceneError([f"{shown}:{line}  {text}" for _, line, text in faults])
    if isinstance(overrides, Mapping):
        overrides = [f"{key}={value}" for key, value in overrides.items()]
    reader = _SceneReader(shown, document, path.parent, allow_outside)
    return reader.scene(overrides)


def meshes(scene: Scene) -> list[Mesh]:
    """Returns the mesh of every cloth, checked, placed and with its regions. SceneError lists every problem.

    Meshes that `load` has made for its checks are not made again, unless the scene has been changed since.
    """
    parts = SceneParts.of(scene)
    if scene._checked is not None and scene._checked.parts == parts:
        return list(scene._checked.meshes)
    found = check_consistency(parts)
    if found.problems:
        raise SceneError([problem.line(scene.name) for problem in found.problems])
    return [found.meshes[i] for i in range(len(scene.cloth))]


def _find(name_or_path: str | Path) -> tuple[Path, str]:
    """Returns the file of a scene, and its name in messages."""
    text = str(name_or_path)
    if text in scene_names():
        return SCENES / f"{text}.yaml", f"{text}.yaml"
    path = Path(name_or_path)
    if path.is_dir():
        raise SceneError([f"{text}: is a directory; give a scene file inside it."])
    if path.suffix.lower() not in SUFFIXES and not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise SceneError([f"{text}: no such file. A scene is a {', '.join(SUFFIXES)} file or a shipped name."])
        raise SceneError([f'no scene "{text}".{nearest(text, scene_names())} Other scenes are given by their path.'])
    if path.suffix.lower() not in SUFFIXES:
        raise SceneError([f"{text}: a scene is a {', '.join(SUFFIXES)} file."])
    if not path.exists():
        hint = nearest(path.stem, scene_names())
        hint = hint.replace("Did you mean", "Did you mean the shipped scene") if "Did you mean" in hint else ""
        raise SceneError([f"{text}: no such file (tried {path.absolute()}).{hint}"])
    return path, text


def _read(path: Path, shown: str) -> str:
    try:
        if not path.is_file():
            raise SceneError([f"{shown}: is not a regular file."])
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise SceneError(
                [
                    f"{shown}: {size / 1e6:.1f} MB is too large for a scene (at most {LARGEST_FILE / 1e6:.1f} MB). "
                    "Keep large data in files beside it."
                ]
            )
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SceneError([f"{shown}: cannot be read: {error.strerror or error}."]) from error
    except UnicodeDecodeError as error:
        raise SceneError([f"{shown}: is not text (byte {error.start} is not UTF-8)."]) from error
    # JSON may be indented by tabs, which YAML refuses; line numbers stay the same.
    return text.replace("\t", " ") if path.suffix.lower() == ".json" else text


class _SceneReader:
    """Makes a Scene from one scene file: preset, overrides, validation and consistency checks."""

    def __init__(self, shown: str, document: Document, folder: Path, allow_outside: bool):
        self.shown, self.document = shown, document
        self.raw: dict[str, Any] = document.values
        self.folder, self.allow_outside = folder, allow_outside
        self.origins: dict[KeyPath, str] = {}  # the override or the preset that set a value
        self.of_preset: frozenset[KeyPath] = frozenset()

    def scene(self, overrides: Sequence[str]) -> Scene:
        """Returns the scene; SceneError lists all its problems."""
        lines = [Problem(path, text).line(f"{self.shown}:{line}") for path, line, text in self.document.faults]
        # The preset is filled in first, because overrides may change values inside it.
        naming = [override for override in overrides if override.partition("=")[0].strip() == "preset"]
        lines += self._apply(naming)
        self._fill()
        lines += self._apply([override for override in overrides if override not in naming])
        scene, problems = self._validate()
        parts = self._valid_parts() if scene is None else SceneParts.of(scene)
        found = check_consistency(parts)
        problems += found.problems
        unreadable = {path for path, _, _ in self.document.faults}  # the type of such a value needs no second message
        problems = [problem for problem in problems if problem.path not in unreadable]
        lines += [problem.line(self._place(problem.path)) for problem in sorted(problems, key=self._order)]
        if lines or scene is None:
            raise SceneError(list(dict.fromkeys(lines)))
        scene._checked = CheckedMeshes(parts, tuple(found.meshes[i] for i in range(len(scene.cloth))))
        return scene

    def _apply(self, overrides: Sequence[str]) -> list[str]:
        """Applies overrides, and returns a message for each that cannot be applied."""
        lines = []
        for override in overrides:
            try:
                self._set_by(override_keys.apply(override, Scene, self.raw), override)
            except override_keys.OverrideError as error:
                lines.append(f"--set {override}  {error}")
        return lines

    def _fill(self) -> None:
        """Fills in the values of the preset where the scene has none."""
        self.raw, self.of_preset = fill(self.raw)
        self.origins.update((path, f"preset {self.raw['preset']}") for path in self.of_preset)

    def _set_by(self, path: KeyPath, override: str) -> None:
        """Notes that the value at a path was set by an override, so that messages do not point at the file."""
        lines = self.document.lines
        self.document.lines = {other: line for other, line in lines.items() if other[: len(path)] != path}
        self.origins[path] = f"--set {override}"
        self.of_preset = frozenset(other for other in self.of_preset if path[: len(other)] != other)

    def _validate(self) -> tuple[Scene | None, list[Problem]]:
        problems = self._booleans_for_numbers(self.raw, ())
        try:
            scene = Scene.model_validate(self.raw)
        except ValidationError as error:
            known = {problem.path for problem in problems}
            return None, problems + [p for p in problems_of(error, Scene, self.raw) if p.path not in known]
        scene._folder, scene._allow_outside, scene._of_preset = self.folder, self.allow_outside, self.of_preset
        return scene, problems

    def _booleans_for_numbers(self, value: Any, path: KeyPath) -> list[Problem]:
        """Finds values such as `frames: yes`, which pydantic would accept as 1."""
        if isinstance(value, dict):
            return [p for key, item in value.items() for p in self._booleans_for_numbers(item, (*path, key))]
        if isinstance(value, list):
            return [p for i, item in enumerate(value) for p in self._booleans_for_numbers(item, (*path, i))]
        if not isinstance(value, bool) or (field := field_at(Scene, path, self.raw)) is None:
            return []
        kinds = types_of(field)
        return [] if bool in kinds or not kinds & {int, float} else [Problem(path, "must be a number.", value)]

    def _valid_parts(self) -> SceneParts:
        """Returns the parts of a broken scene that can still be checked: list entries that are valid by themselves."""

        def valid(key: str) -> dict[int, Any]:
            kind = get_args(Scene.model_fields[key].annotation)[0]
            items = self.raw.get(key)
            found = {}
            for i, item in enumerate(items if isinstance(items, list) else []):
                try:
                    found[i] = TypeAdapter(kind).validate_python(item)
                except ValidationError:
                    continue
            return found

        cloths: dict[int, Cloth] = valid("cloth")
        given = self.raw.get("cloth")
        broken = frozenset(
            str(item.get("name", "cloth")) if isinstance(item, dict) else "cloth"
            for i, item in enumerate(given if isinstance(given, list) else [given] if given is not None else [])
            if i not in cloths
        )
        expect = self.raw.get("expect")
        return SceneParts(
            cloths,
            valid("solids"),
            valid("constraints"),
            valid("forces"),
            valid("outputs"),
            tuple(expect) if isinstance(expect, dict) else (),
            self.folder,
            self.allow_outside,
            broken,
        )

    def _place(self, path: KeyPath) -> str:
        """Returns `file:line` of a value, or the override or preset that set it."""
        for depth in range(len(path), -1, -1):
            if path[:depth] in self.origins:
                return self.origins[path[:depth]]
            if path[:depth] in self.document.lines:
                return f"{self.shown}:{self.document.lines[path[:depth]]}"
        return self.shown

    def _order(self, problem: Problem) -> tuple[int, str]:
        """Sorts problems by line, and by key within a line; values set by overrides come last."""
        place = self._place(problem.path)
        line = place.rpartition(":")[2]
        return (int(line) if not place.startswith("--set") and line.isdecimal() else 1 << 30, key_text(problem.path))
