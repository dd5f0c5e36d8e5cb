"""Finds what a scene names: one file is one thing, and its file name is the word a scene uses for it.

`toile/energies/bend_angle.py` holds the class `BendAngle`; a scene writes `type: bend_angle`. Nothing is registered
by hand. A package outside Toile joins a family through an entry point in the group `toile.<family>` whose name is the
scene word and whose value is the class.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import PydanticCustomError

# family -> (package, what one member is called, prefix that its file names carry)
FAMILIES = {
    "shapes": ("toile.shapes", "shape", ""),
    "energies": ("toile.energies", "energy", ""),
    "constraints": ("toile.constraints", "constraint", ""),
    "colliders": ("toile.colliders", "collider", ""),
    "filters": ("toile.filters", "filter", ""),
    "post": ("toile.post", "post-process", ""),
    "integrators": ("toile.integrators", "integrator", ""),
    "preconditioners": ("toile.linear", "preconditioner", "precondition_"),
    "outputs": ("toile.outputs", "output", ""),
}


class Plugin(BaseModel):
    """Base of everything a scene can choose by `type`; its fields are the scene keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def type_name(cls) -> str:
        """The scene word: the file name without the family's prefix."""
        module = cls.__module__.rsplit(".", 1)[-1]
        for _, _, prefix in FAMILIES.values():
            if prefix and module.startswith(prefix):
                return module.removeprefix(prefix)
        return module

    @model_serializer(mode="wrap")
    def _with_type(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What `choice` reads: a dumped scene can be loaded again."""
        return {"type": self.type_name(), **fields(self)}

    @classmethod
    def summary(cls) -> str:
        """First line of the file's docstring."""
        doc = importlib.import_module(cls.__module__).__doc__ or cls.__doc__ or ""
        return doc.strip().splitlines()[0] if doc.strip() else ""


def quantity(default: Any = ..., *, unit: str = "", doc: str = "", **limits: Any) -> Any:
    """A field with its unit and one line of documentation: the same words appear in errors and in `toile explain`."""
    return Field(default, description=doc, json_schema_extra={"unit": unit}, **limits)


@cache
def names(family: str) -> tuple[str, ...]:
    """Every scene word of a family, sorted."""
    package_name, _, prefix = FAMILIES[family]
    package = importlib.import_module(package_name)
    own = [
        module.name.removeprefix(prefix)
        for module in pkgutil.iter_modules(package.__path__)
        if module.name.startswith(prefix) and not module.name.startswith("_")
        and _is_member(f"{package_name}.{module.name}", prefix)
    ]
    outside = [point.name for point in importlib.metadata.entry_points(group=f"toile.{family}")]
    return tuple(sorted({*own, *outside}))


@cache
def find(family: str, name: str) -> type[Plugin]:
    """The class behind a scene word; KeyError when the family has no such member."""
    package_name, _, prefix = FAMILIES[family]
    if name not in names(family):
        raise KeyError(name)
    for point in importlib.metadata.entry_points(group=f"toile.{family}", name=name):
        return point.load()
    module = importlib.import_module(f"{package_name}.{prefix}{name}")
    return getattr(module, _class_name(name))


def nearest(type_name: str, valid: Any) -> str:
    """' Did you mean "..."?' with the closest valid word, or the list of all when nothing is close."""
    valid = sorted(valid)
    close = difflib.get_close_matches(str(type_name), valid, n=1, cutoff=0.6)
    return f' Did you mean "{close[0]}"?' if close else f" Choose from: {', '.join(valid)}."


def choice(family: str, scope: str | None = None) -> Any:
    """A pydantic type: one member of a family, written as `{type: name, ...}` or just `name`."""

    def validate(value: Any) -> Any:
        if isinstance(value, Plugin):
            return value
        if isinstance(value, str):
            value = {"type": value}
        noun = FAMILIES[family][1]
        if not isinstance(value, dict) or "type" not in value:
            type_names = ", ".join(_in_scope(family, scope))
            raise PydanticCustomError("choice", "needs a type: one of {names}.", {"names": type_names})
        fields = dict(value)
        name = fields.pop("type")
        if name not in _in_scope(family, scope):
            raise PydanticCustomError(
                "choice_type", "no such {noun}.{hint}", {"noun": noun, "hint": nearest(name, _in_scope(family, scope))}
            )
        return find(family, name).model_validate(fields)

    return Annotated[SerializeAsAny[Plugin], BeforeValidator(validate)]


@cache
def _in_scope(family: str, scope: str | None) -> tuple[str, ...]:
    every = names(family)
    return every if scope is None else tuple(n for n in every if getattr(find(family, n), "scope", None) == scope)


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _is_member(module_name: str, prefix: str) -> bool:
    """A file is a member when it holds the class its name announces; helpers such as base.py are not."""
    type_name = module_name.rsplit(".", 1)[-1].removeprefix(prefix)
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        return False
    with open(spec.origin, encoding="utf-8") as file:
        return f"\nclass {_class_name(type_name)}(" in file.read()
