"""Copies of a scene with some values changed. Scenes are immutable; only the changed models are validated again."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from toile.errors import InputError
from toile.scene.error_messages import problems_of
from toile.scene.schema import Scene
from toile.scene.yaml_reader import KeyPath


def with_value(holder: Any, path: KeyPath, value: Any) -> Any:
    """Returns a copy of a model or a tuple with another value at a path. Raises InputError if it is not allowed."""
    key, rest = path[0], path[1:]
    if isinstance(holder, tuple):
        assert isinstance(key, int)
        return (*holder[:key], with_value(holder[key], rest, value) if rest else value, *holder[key + 1 :])
    return _with_field(holder, str(key), with_value(getattr(holder, str(key)), rest, value) if rest else value)


def _with_field(holder: Any, key: str, value: Any) -> Any:
    """Returns a copy of a model with another value of one field, validated as if it were in the scene file."""
    given = {name: getattr(holder, name) for name in holder.model_fields_set} | {key: value}
    try:
        validated = type(holder).model_validate(given)
    except ValidationError as error:
        messages = [problem.line("").strip() for problem in problems_of(error, type(holder), given)]
        raise InputError("\n".join(messages)) from error
    # The copy keeps attributes that are not fields, such as the folder of a scene's files.
    copy = holder.model_copy(update={key: getattr(validated, key)})
    if isinstance(copy, Scene):
        copy._of_preset = frozenset(path for path in holder._of_preset if path[0] != key)
    return copy
