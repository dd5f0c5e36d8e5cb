"""The scene: every field with its default, unit, limits and one line of documentation.

These pydantic models are the Python API as well as what a YAML file is read into: `Scene(cloth=[...])` in a script and
`cloth: [...]` in a file are checked by the same rules. SI units; the world is in meters with z up.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toile.model.motion import Vector
from toile.model.selection import Selection
from toile.plugins import choice, nearest, quantity
from toile.scene.fields import unit_of
from toile.scene.presets import DEFAULT, fill, preset_names, read_preset
from toile.scene.tree import Path as KeyPath

DEFAULTS = read_preset(DEFAULT)
FABRICS = Path(__file__).parent / "fabrics"

# What a scene chooses by `type`. The name of the family stays beside the type, for messages and `toile explain`.
if TYPE_CHECKING:  # what every member of the family is
    from toile.colliders.base import Collider
    from toile.constraints.base import Constraint
    from toile.energies.base import Energy as ClothEnergy
    from toile.energies.base import Energy as SceneForce
    from toile.filters.base import Filter
    from toile.integrators.base import Integrator
    from toile.linear.base import Preconditioner
    from toile.outputs.base import Output
    from toile.post.base import PostProcess
    from toile.shapes.base import Shape
else:
    Shape = Annotated[choice("shapes"), "shapes"]
    ClothEnergy = Annotated[choice("energies", "cloth"), "energies"]
    SceneForce = Annotated[choice("energies", "scene"), "energies"]
    Collider = Annotated[choice("colliders"), "colliders"]
    Constraint = Annotated[choice("constraints"), "constraints"]
    Filter = Annotated[choice("filters"), "filters"]
    Integrator = Annotated[choice("integrators"), "integrators"]
    Preconditioner = Annotated[choice("preconditioners"), "preconditioners"]
    Output = Annotated[choice("outputs"), "outputs"]
    PostProcess = Annotated[choice("post"), "post"]


class SceneModel(BaseModel):
    """Common rules: unknown keys are errors, values do not change once checked, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def wrong(text: str, *path: str | int) -> PydanticCustomError:
    """A rule that is broken at one field of a model, for its validators to raise."""
    return PydanticCustomError("at", "{text}", {"text": text, "path": path})


class Time(SceneModel):
    """How long, how often a frame, how large a step."""

    frames: int = quantity(75, doc="frames after the start", ge=0)
    fps: float = quantity(30.0, unit="1/s", doc="frames per second", gt=0)
    max_step: float = quantity(1.0 / 60.0, unit="s", doc="largest time step; a step never crosses a frame", gt=0)
    min_step: float = quantity(1e-5, unit="s", doc="the run stops when a step would have to be smaller", gt=0)
    max_excess: float | None = quantity(None, doc="stretch beyond the fabric's extension that halves a step", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Time:
        if self.min_step > self.max_step:
            raise wrong(f"larger than max_step = {self.max_step:g} [s].", "min_step")
        return self


class Fabric(SceneModel):
    """What the cloth is made of. Stiffness is per unit width, so it means the same on every mesh."""

    name: str = quantity("inline", doc="name of the fabric")
    source: str = quantity("", doc="where the figures come from")
    density: float = quantity(0.2, unit="kg/m^2", doc="mass per area", gt=0)
    stretch_warp: float = quantity(5e3, unit="N/m", doc="stretch stiffness along u", ge=0)
    stretch_weft: float = quantity(5e3, unit="N/m", doc="stretch stiffness along v", ge=0)
    extension_warp: float | None = quantity(None, doc="largest strain along u; none when not given", gt=0)
    extension_weft: float | None = quantity(None, doc="largest strain along v; none when not given", gt=0)
    shear: float = quantity(100.0, unit="N/m", doc="shear stiffness", ge=0)
    bend_warp: float = quantity(1.2e-5, unit="N m", doc="bending rigidity when u curves", ge=0)
    bend_weft: float = quantity(1.2e-5, unit="N m", doc="bending rigidity when v curves", ge=0)
    damping: float = quantity(
        1e-3, unit="s", doc="damping time of stretch, shear and bend: damping coefficient / stiffness", ge=0
    )

    def properties(self) -> dict[str, tuple[float, str]]:
        """Every number that it has, with its unit."""
        values = {key: (getattr(self, key), unit_of(info)) for key, info in type(self).model_fields.items()}
        return {key: (value, unit) for key, (value, unit) in values.items() if isinstance(value, float)}


def fabric_names() -> list[str]:
    """The shipped fabrics."""
    return sorted(path.stem for path in FABRICS.glob("*.yaml"))


def read_fabric(value: Any) -> Any:
    """A shipped fabric by name; anything else is left to the Fabric model."""
    if not isinstance(value, str):
        return value
    if value not in fabric_names():
        raise PydanticCustomError("fabric", "no such fabric.{hint}", {"hint": nearest(value, fabric_names())})
    return {"name": value, **yaml.safe_load((FABRICS / f"{value}.yaml").read_text(encoding="utf-8"))}


class RestStretch(SceneModel):
    """A region made to seek another length ([BW98] b_u, b_v): cuffs, waistbands, induced wrinkles."""

    region: str | None = quantity(None, doc="named region; the whole cloth when not given")
    warp: float | tuple[tuple[float, float], ...] = quantity(1.0, doc="b_u: a number, or [time, value] keys in order")
    weft: float | tuple[tuple[float, float], ...] = quantity(1.0, doc="b_v: a number, or [time, value] keys in order")

    @model_validator(mode="after")
    def _usable(self) -> RestStretch:
        for name in ("warp", "weft"):
            keys = getattr(self, name)
            keys = ((0.0, keys),) if isinstance(keys, float) else keys
            if not keys or any(value <= 0 for _, value in keys):
                raise wrong("must be > 0.", name)
            if any(later[0] <= earlier[0] for earlier, later in pairwise(keys)):
                raise wrong("times must increase from key to key.", name)
        return self


class Cloth(SceneModel):
    """One piece of cloth: its shape, where it starts, what it is made of."""

    name: str = quantity("cloth", doc="name used by constraints, exports and messages", min_length=1, max_length=100)
    shape: Shape = quantity(doc="grid, disc or mesh")
    translation: Vector = quantity((0.0, 0.0, 0.0), unit="m", doc="where the shape's origin starts")
    rotation: Vector = quantity((0.0, 0.0, 0.0), unit="deg", doc="rotation vector (axis times angle) applied first")
    velocity: Vector = quantity((0.0, 0.0, 0.0), unit="m/s", doc="velocity at the start")
    spin: Vector = quantity(
        (0.0, 0.0, 0.0), unit="rad/s", doc="angular velocity at the start, about the mean of the particles"
    )
    fabric: Annotated[Fabric, BeforeValidator(read_fabric)] = quantity(
        "cotton", doc="a fabric by name, or its fields", validate_default=True
    )
    thickness: float | None = quantity(
        None, unit="m", doc="distance it keeps from other cloth; that of self_contact or penalty when not given", gt=0
    )
    regions: dict[str, Selection] = Field(default_factory=dict, description="named sets of particles")
    rest_stretch: tuple[RestStretch, ...] = quantity((), doc="regions that seek another length")
    energies: tuple[ClothEnergy, ...] = quantity(
        DEFAULTS["cloth"]["energies"],
        doc="internal forces; figures not given come from the fabric",
        validate_default=True,
    )


class Solver(SceneModel):
    """How the linear systems are solved."""

    preconditioner: Preconditioner | None = quantity(
        None, doc="chosen by size and device when not given"
    )
    tolerance: float = quantity(1e-3, doc="how far a solve reduces its residual", gt=0, lt=1)
    max_iterations: int = quantity(2000, doc="a solve that needs more fails its step", ge=0)


class Bound(SceneModel):
    """Limits for one figure of the certificate."""

    min: float | None = quantity(None, doc="smallest allowed")
    max: float | None = quantity(None, doc="largest allowed")
    equals: float | bool | None = quantity(None, doc="exactly this")

    @model_validator(mode="after")
    def _limits_something(self) -> Bound:
        if self.min is None and self.max is None and self.equals is None:
            raise wrong("no limit given. Give min, max or equals.")
        return self


def solid_names(solids: Iterable[Collider]) -> list[str]:
    """Their own names, or their type with a number where it is needed."""
    solids = list(solids)
    found: list[str] = []
    taken = {solid.name for solid in solids}
    for solid in solids:
        type_name = solid.type_name()
        candidates = (type_name, *(f"{type_name}_{number}" for number in range(2, len(solids) + 2)))
        found.append(solid.name or next(name for name in candidates if name not in taken))
        taken.add(found[-1])
    return found


def known_preset(name: str) -> str:
    if name not in preset_names():
        raise PydanticCustomError("preset", "no such preset.{hint}", {"hint": nearest(name, preset_names())})
    return name


class Scene(SceneModel):
    """Everything a run needs."""

    version: int = quantity(1, doc="format of the scene", ge=1, le=1)
    name: str = quantity("scene", doc="name of the scene", min_length=1, max_length=100)
    about: str = quantity("", doc="what the scene shows")
    preset: Annotated[str, AfterValidator(known_preset)] = quantity(
        DEFAULT, doc="what a paper used, for all that the scene does not say itself"
    )
    time: Time = Field(default_factory=Time, description="frames and steps")
    gravity: Vector = quantity((0.0, 0.0, -9.81), unit="m/s^2", doc="acceleration of gravity")
    cloth: tuple[Cloth, ...] = quantity((), doc="the pieces of cloth; a scene without any is valid and does nothing")
    solids: tuple[Collider, ...] = quantity((), doc="what cloth falls on, slides over and is carried by")
    constraints: tuple[Constraint, ...] = quantity((), doc="what particles may not do")
    forces: tuple[SceneForce, ...] = quantity((), doc="outside forces: drag, wind, pull")
    integrator: Integrator = quantity(DEFAULTS["integrator"], doc="how time advances", validate_default=True)
    filters: tuple[Filter, ...] = quantity(
        DEFAULTS["filters"], doc="corrections after each step, in this order", validate_default=True
    )
    solver: Solver = Field(default_factory=Solver, description="linear solver")
    post: tuple[PostProcess, ...] = quantity((), doc="what is done to frames before they are written, in this order")
    outputs: tuple[Output, ...] = quantity((), doc="what to write besides the cache and the certificate")
    expect: dict[str, Bound] = Field(
        default_factory=dict, description="limits on the certificate's figures, checked by `toile check`"
    )
    seed: int = quantity(0, doc="seed of everything random (gusts)", ge=0)

    # Where relative paths start, and whether paths may leave it; set by the loader, not by the scene itself.
    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _allow_outside: bool = PrivateAttr(default=False)
    # What the preset has set.
    _of_preset: frozenset[KeyPath] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _above_its_preset(cls, given: Any, make: ModelWrapValidatorHandler[Scene]) -> Scene:
        if not isinstance(given, dict):
            return make(given)
        filled, paths = fill(given)
        scene = make(filled)
        scene._of_preset = paths
        return scene

    @model_validator(mode="after")
    def _contact_comes_last(self) -> Scene:
        """What a filter does after self_contact, nobody guards."""
        for i, item in enumerate(self.filters[:-1]):
            if item.type_name() == "self_contact":
                raise wrong("self_contact must be the last filter, and listed once. Move it to the end.", "filters", i)
        return self
