"""Plug-ins: everything that a scene chooses by `type`, and how the class behind a type name is found.

One plug-in is one file, and the file name is its type name in scenes. The file toile/energies/bend_angle.py holds the
class `BendAngle`, and a scene chooses it with

    cloth:
      - energies: [stretch, {type: bend_angle, rigidity: 1.2e-5}]

Nothing is registered. A folder of plug-ins is a family; a file in it is a member if it holds the class that its name
announces (`bend_angle` -> `BendAngle`), so that base.py and other helpers are not. To add a plug-in, add its file:
`toile list` and `toile explain` show it, and the tests in tests/contracts apply to it.

    family             folder         base class        keys of the scene            makes
    shapes             shapes/        Shape             cloth[].shape                the mesh of a cloth
    energies           energies/      Energy            cloth[].energies, forces     elements and their formulas
    constraints        constraints/   Constraint        constraints                  held directions of particles
    colliders          colliders/     Collider          solids                       solids
    filters            filters/       Filter            filters                      corrections of a step
    post               post/          PostProcess       post                         changes of frames before output
    integrators        integrators/   Integrator        integrator                   steps in time
    preconditioners    linear/        Preconditioner    solver.preconditioner        approximate inverses
    outputs            outputs/       Output            outputs                      files

(The file names of preconditioners begin with `precondition_`.) The base class is in base.py of the folder, and its
docstrings state what a member has to provide.

From a scene to a simulation:

1.  A field of toile/scene/schema.py has the type `choice("energies")`. When a scene is validated, `choice` takes the
    `type`, finds the class, and validates the other keys with it: a plug-in is a pydantic model, its fields are the
    keys of the scene, and `quantity` gives each of them a unit, limits and one line of documentation.
2.  The plug-in is thus only settings; it does not change, and can be dumped and loaded again. When a run begins, a
    method of the base class (`start`, `build`, `mesh`, `writer`, ...) makes the object that does the work.
3.  What other parts of Toile need to know about a plug-in, such as whether it has an effect without solids, is a
    class attribute of the base class. Code outside the plug-in does not compare type names.

A package outside Toile joins a family by an entry point in the group `toile.<family>`, whose name is the type name:

    [project.entry-points."toile.energies"]
    my_energy = "my_package.my_energy:MyEnergy"
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, ClassVar

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

from toile.families import FAMILIES, class_name, members


class Plugin(BaseModel):
    """Base class of everything that a scene chooses by `type`; its fields are the keys of the scene."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    needs_solids: ClassVar[bool] = False  # it has no effect in a scene without solids
    keeps_out_of_solids: ClassVar[bool] = False  # it keeps cloth out of solids, in place of the default contact
    at_most_one: ClassVar[bool] = False  # a scene may list it only once

    @classmethod
    def type_name(cls) -> str:
        """Returns the type name in scenes: the file name, without the prefix of the family."""
        module = cls.__module__.rsplit(".", 1)[-1]
        for family in FAMILIES.values():
            if family.prefix and module.startswith(family.prefix):
                return module.removeprefix(family.prefix)
        return module

    @model_serializer(mode="wrap")
    def _with_type(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Adds the `type` that `choice` reads, so that a dumped scene can be loaded again."""
        return {"type": self.type_name(), **fields(self)}

    @classmethod
    def summary(cls) -> str:
        """Returns the first line of the file's docstring."""
        doc = importlib.import_module(cls.__module__).__doc__ or cls.__doc__ or ""
        return doc.strip().splitlines()[0] if doc.strip() else ""


def quantity(default: Any = ..., *, unit: str = "", doc: str = "", **limits: Any) -> Any:
    """Declares a field with its unit, limits and one line of documentation, used in messages and `toile explain`."""
    return Field(default, description=doc, json_schema_extra={"unit": unit}, **limits)


@cache
def names(family: str) -> tuple[str, ...]:
    """Returns every type name of a family, sorted, with those of packages outside Toile."""
    outside = [point.name for point in importlib.metadata.entry_points(group=f"toile.{family}")]
    return tuple(sorted({*members(family), *outside}))


@cache
def find(family: str, name: str) -> type[Plugin]:
    """Returns the class behind a type name; KeyError if the family has no such member."""
    if name not in names(family):
        raise KeyError(name)
    for point in importlib.metadata.entry_points(group=f"toile.{family}", name=name):
        plugin: type[Plugin] = point.load()
        return plugin
    package, _, prefix = FAMILIES[family]
    plugin = getattr(importlib.import_module(f"{package}.{prefix}{name}"), class_name(name))
    return plugin


def nearest(name: object, valid: Iterable[str]) -> str:
    """Returns ' Did you mean "..."?' with the most similar valid name, or a list of all if none is similar."""
    valid = sorted(valid)
    close = difflib.get_close_matches(str(name), valid, n=1, cutoff=0.6)
    return f' Did you mean "{close[0]}"?' if close else f" Choose from: {', '.join(valid)}."


def choice(family: str, scope: str | None = None) -> Any:
    """Returns a type for pydantic: one member of a family, written as `{type: name, ...}` or just `name`.

    With a `scope`, only members whose class attribute `scope` has this value.
    """

    def validate(value: object) -> Plugin:
        if isinstance(value, Plugin):
            return value
        if isinstance(value, str):
            value = {"type": value}
        if not isinstance(value, dict) or "type" not in value:
            type_names = ", ".join(in_scope(family, scope))
            raise PydanticCustomError("choice", "needs a type: one of {names}.", {"names": type_names})
        fields = dict(value)
        name = fields.pop("type")
        if name not in in_scope(family, scope):
            hint = nearest(name, in_scope(family, scope))
            raise PydanticCustomError(
                "choice_type", "no such {noun}.{hint}", {"noun": FAMILIES[family].noun, "hint": hint}
            )
        return find(family, name).model_validate(fields)

    return Annotated[SerializeAsAny[Plugin], BeforeValidator(validate)]


@cache
def in_scope(family: str, scope: str | None) -> tuple[str, ...]:
    """Returns the type names of a family, or those of one scope."""
    every = names(family)
    return every if scope is None else tuple(n for n in every if getattr(find(family, n), "scope", None) == scope)
