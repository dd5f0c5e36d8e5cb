"""Error messages about a scene: one line per problem, with the place, the key, its value and the remedy.

drape.yaml:14  cloth[0].energies[2].type = "bend_angel": no such energy. Did you mean "bend_angle"?
drape.yaml:15  cloth[0].energies[2].rigidity = -2e-5: must be >= 0 [N m].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from toile.plugins import in_scope, nearest
from toile.scene.fields import NOTHING, annotation_at, field_at, fixed_length, keys_at, literals_of, unit_of, value_at
from toile.scene.yaml_reader import KeyPath

LONGEST_VALUE = 60  # characters of a value that a message repeats

COMPARISONS = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}
LIMITS = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
KINDS = {
    "float": "a number", "int": "a whole number", "bool": "true or false", "string": "text", "tuple": "a list",
    "list": "a list", "dict": "a mapping of keys to values", "model": "a mapping of keys to values",
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """A problem at a path of a scene."""

    path: KeyPath
    text: str
    value: Any = NOTHING

    def line(self, place: str) -> str:
        """Returns the message; `place` is `file:line` or the override that set the value."""
        key = key_text(self.path)
        if not key:
            return f"{place}  {self.text}"
        value = "" if self.value is NOTHING else f" = {value_text(self.value)}"
        return f"{place}  {key}{value}: {self.text}"


def key_text(path: KeyPath) -> str:
    """Formats the path ("cloth", 0, "fabric") as cloth[0].fabric."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def value_text(value: Any) -> str:
    """Formats a value as YAML would, shortened if it is long."""
    if isinstance(value, str):
        text = value if _is_number(value) else f'"{value}"'  # YAML reads 1e-3 as text, but a number was meant
    elif isinstance(value, bool):
        text = str(value).lower()
    elif value is None:
        text = "null"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {value_text(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(map(value_text, value)) + "]"
    else:
        text = str(value)
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def problems_of(error: ValidationError, model: type[BaseModel], raw: Any) -> list[Problem]:
    """Translates the errors of pydantic into messages about keys of the scene, one for each place."""
    problems: dict[KeyPath, Problem] = {}
    for details in error.errors(include_url=False):
        problem = _problem(details, model, raw)
        known = problems.get(problem.path)
        # A union reports an error for each alternative; a limit or a hint is more useful than "must be a list".
        if known is None or (known.text.startswith("must be a") and not problem.text.startswith("must be a")):
            problems[problem.path] = problem
    return list(problems.values())


def _problem(details: ErrorDetails, model: type[BaseModel], raw: Any) -> Problem:
    kind, context = details["type"], details.get("ctx", {})
    path = _path_in(raw, details["loc"])
    value = details["input"]
    field = field_at(model, path, raw)
    unit = unit_of(field)
    bracket = f" [{unit}]" if unit else ""
    if kind == "extra_forbidden":
        return Problem(path, f"no such key.{nearest(str(path[-1]), keys_at(model, path[:-1], raw))}")
    if kind == "missing":
        if isinstance(path[-1], int):
            count = fixed_length(annotation_at(model, path[:-1], raw))
            return Problem(path[:-1], f"needs {count} entries{bracket}.", value_at(raw, path[:-1]))
        doc = f" ({field.description})" if field is not None and field.description else ""
        return Problem(path, f"missing{doc}.")
    if kind == "at":  # a validator of a model has rejected one of its fields
        path += tuple(context["path"])
        return Problem(path, context["text"], value_at(raw, path))
    if kind == "choice_type":
        path, value = ((*path, "type"), value["type"]) if isinstance(value, dict) else (path, value)
        if {"forces", "energies"} & set(path) and value in in_scope("energies", "world"):
            return Problem(path, f"always acts and is not listed. Set the scene's own key {value} instead.", value)
        return Problem(path, details["msg"], value)
    if kind in COMPARISONS:
        return Problem(path, f"must be {COMPARISONS[kind]} {context[LIMITS[kind]]:g}{bracket}.", value)
    if kind == "finite_number":
        return Problem(path, f"must be a finite number{bracket}.", value)
    if kind == "literal_error" and field is not None:
        choices = sorted(literals_of(field.annotation))
        return Problem(path, f"no such choice.{nearest(str(value), choices)}", value)
    if kind in ("too_long", "too_short"):
        limit = f"at most {context['max_length']}" if kind == "too_long" else f"at least {context['min_length']}"
        return Problem(path, f"has {context['actual_length']} entries; {limit} are allowed.", value)
    if kind == "value_error":
        return Problem(path, details["msg"].removeprefix("Value error, "), value if isinstance(value, str) else NOTHING)
    if kind == "int_from_float":
        return Problem(path, f"must be a whole number{bracket}.", value)
    expected = KINDS.get(kind.split("_")[0])
    if expected and kind.endswith(("_type", "_parsing", "_parsing_size")):
        return Problem(path, f"must be {expected}{bracket}.", value)
    message = details["msg"]
    return Problem(path, message[0].lower() + message[1:] + ("" if message.endswith((".", "?")) else "."), value)


def _path_in(raw: Any, location: tuple[int | str, ...]) -> KeyPath:
    """Returns the path of pydantic's location, without the names it gives to the alternatives of a union."""
    path: list[int | str] = []
    for i, part in enumerate(location):
        last = i == len(location) - 1
        if isinstance(raw, dict):
            if part in raw:
                raw = raw[part]
            elif not last:
                raw = None
        elif isinstance(raw, list) and isinstance(part, int):
            raw = raw[part] if part < len(raw) else None
        elif raw is not None:  # a scalar, or a list that is not indexed: the part names an alternative of a union
            continue
        path.append(part)
    return tuple(path)
