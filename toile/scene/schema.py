"""Models of a scene: every field with its default, unit, limits and one line of documentation.

These pydantic models are the Python API, and YAML files are read into them: `Scene(cloth=[...])` in a script and
`cloth: [...]` in a file are checked by the same rules. Units are SI; the world is in meters, with z up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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

from toile.model.mesh import Mesh
from toile.model.motion import Vector
from toile.model.selection import Selection
from toile.plugins import choice, nearest, quantity
from toile.scene.fields import unit_of
from toile.scene.presets import DEFAULT, fill, preset_names, read_preset
from toile.scene.yaml_reader import KeyPath

DEFAULTS = read_preset(DEFAULT)
FABRICS = Path(__file__).parent / "fabrics"

# Plug-ins, which a scene chooses by `type`. Their annotations hold the name of the family, for toile/scene/fields.py.
if TYPE_CHECKING:  # the base class of each family
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
    """Rules of all models: unknown keys are errors, checked values do not change, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def wrong(text: str, *path: str | int) -> PydanticCustomError:
    """Returns the error that a validator raises about one field of its model."""
    return PydanticCustomError("at", "{text}", {"text": text, "path": path})


class Time(SceneModel):
    """Duration, frame rate and limits of the time step."""

    frames: int = quantity(75, doc="frames after the start", ge=0)
    fps: float = quantity(30.0, unit="1/s", doc="frames per second", gt=0)
    max_step: float = quantity(1.0 / 60.0, unit="s", doc="largest time step; a step never crosses a frame", gt=0)
    min_step: float = quantity(1e-5, unit="s", doc="the run stops when a step would have to be smaller", gt=0)
    max_excess: float | None = quantity(None, doc="strain beyond the fabric's extension that halves a step", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Time:
        if self.min_step > self.max_step:
            raise wrong(f"larger than max_step = {self.max_step:g} [s].", "min_step")
        return self


class Fabric(SceneModel):
    """Material of a cloth. Stiffness is per unit width, so it means the same on every mesh."""

    name: str = quantity("inline", doc="name of the fabric")
    source: str = quantity("", doc="where the values come from")
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
        """Returns every number of the fabric, with its unit."""
        values = {key: (getattr(self, key), unit_of(info)) for key, info in type(self).model_fields.items()}
        return {key: (value, unit) for key, (value, unit) in values.items() if isinstance(value, float)}


def fabric_names() -> list[str]:
    """Returns the names of the shipped fabrics."""
    return sorted(path.stem for path in FABRICS.glob("*.yaml"))


def read_fabric(value: Any) -> Any:
    """Returns the values of a shipped fabric for its name; any other value is left to the Fabric model."""
    if not isinstance(value, str):
        return value
    if value not in fabric_names():
        raise PydanticCustomError("fabric", "no such fabric.{hint}", {"hint": nearest(value, fabric_names())})
    return {"name": value, **yaml.safe_load((FABRICS / f"{value}.yaml").read_text(encoding="utf-8"))}


class RestStretch(SceneModel):
    """Rest lengths of a region, scaled ([BW98] b_u, b_v): cuffs, waistbands, induced wrinkles."""

    region: str | None = quantity(None, doc="named region; the whole cloth by default")
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
    """One piece of cloth: its shape, its position and velocity at the start, its material."""

    name: str = quantity("cloth", doc="name used by constraints, exports and messages", min_length=1, max_length=100)
    shape: Shape = quantity(doc="source of its mesh, such as grid, disc or mesh")
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
        None, unit="m", doc="distance kept from other cloth; by default that of self_contact or penalty", gt=0
    )
    regions: dict[str, Selection] = Field(default_factory=dict, description="named sets of particles")
    rest_stretch: tuple[RestStretch, ...] = quantity((), doc="regions whose rest lengths are scaled")
    energies: tuple[ClothEnergy, ...] = quantity(
        DEFAULTS["cloth"]["energies"],
        doc="internal forces; values that are not given come from the fabric",
        validate_default=True,
    )


class Solver(SceneModel):
    """Settings of the linear solver."""

    preconditioner: Preconditioner | None = quantity(None, doc="by default chosen by size and device")
    tolerance: float = quantity(1e-3, doc="factor by which a solve reduces its residual", gt=0, lt=1)
    max_iterations: int = quantity(2000, doc="largest number of iterations; a step whose solve needs more fails", ge=0)


class Bound(SceneModel):
    """Limits on one value of the certificate."""

    min: float | None = quantity(None, doc="smallest allowed value")
    max: float | None = quantity(None, doc="largest allowed value")
    equals: float | bool | None = quantity(None, doc="the only allowed value")

    @model_validator(mode="after")
    def _limits_something(self) -> Bound:
        if self.min is None and self.max is None and self.equals is None:
            raise wrong("no limit given. Give min, max or equals.")
        return self


def solid_names(solids: Iterable[Collider]) -> list[str]:
    """Returns the name of every solid: its own, or its type with a number where that is needed."""
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
    """Validates the name of a preset."""
    if name not in preset_names():
        raise PydanticCustomError("preset", "no such preset.{hint}", {"hint": nearest(name, preset_names())})
    return name


@dataclass(eq=False)
class CheckedMeshes:
    """The parts of a scene that `load` has checked, and the meshes that it made for that."""

    parts: Any  # consistency.SceneParts
    meshes: tuple[Mesh, ...]

    def __eq__(self, other: object) -> bool:
        """Scenes do not differ by what has been checked."""
        return other is None or isinstance(other, CheckedMeshes)

    __hash__ = None  # type: ignore[assignment]


class Scene(SceneModel):
    """A whole scene: cloth, solids, forces, and how they are simulated and written."""

    version: int = quantity(1, doc="format of the scene", ge=1, le=1)
    name: str = quantity("scene", doc="name of the scene", min_length=1, max_length=100)
    about: str = quantity("", doc="description of the scene")
    preset: Annotated[str, AfterValidator(known_preset)] = quantity(
        DEFAULT, doc="settings of a paper, for every key that the scene does not set"
    )
    time: Time = Field(default_factory=Time, description="frames and steps")
    gravity: Vector = quantity((0.0, 0.0, -9.81), unit="m/s^2", doc="acceleration of gravity")
    cloth: tuple[Cloth, ...] = quantity((), doc="the pieces of cloth; there may be none")
    solids: tuple[Collider, ...] = quantity((), doc="solids that the cloth collides with")
    constraints: tuple[Constraint, ...] = quantity((), doc="pins, sliding constraints, contact with solids")
    forces: tuple[SceneForce, ...] = quantity((), doc="external forces: drag, wind, pull")
    integrator: Integrator = quantity(DEFAULTS["integrator"], doc="time integration", validate_default=True)
    filters: tuple[Filter, ...] = quantity(
        DEFAULTS["filters"],
        doc="corrections after each step, in this order; [] for none",
        validate_default=True,
    )
    solver: Solver = Field(default_factory=Solver, description="linear solver")
    post: tuple[PostProcess, ...] = quantity((), doc="changes to frames before they are written, in this order")
    outputs: tuple[Output, ...] = quantity((), doc="files to write besides the cache and the certificate")
    expect: dict[str, Bound] = Field(
        default_factory=dict, description="limits on values of the certificate, checked by `toile check`"
    )
    seed: int = quantity(0, doc="seed of the random numbers (gusts)", ge=0)

    # The folder at which relative paths start, and whether paths may leave it. The loader sets both.
    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _allow_outside: bool = PrivateAttr(default=False)
    _checked: CheckedMeshes | None = PrivateAttr(default=None)
    # The paths whose values come from the preset.
    _of_preset: frozenset[KeyPath] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _fill_from_preset(cls, given: Any, make: ModelWrapValidatorHandler[Scene]) -> Scene:
        if not isinstance(given, dict):
            return make(given)
        filled, paths = fill(given)
        scene = make(filled)
        scene._of_preset = paths
        return scene

    @model_validator(mode="after")
    def _last_filter_is_last(self) -> Scene:
        """Rejects filters after self_contact: nothing would keep their corrections free of intersections."""
        for i, item in enumerate(self.filters[:-1]):
            if item.must_be_last:
                text = f"{item.type_name()} must be the last filter, and listed once. Move it to the end."
                raise wrong(text, "filters", i)
        return self
