"""The parameters of a scene that can be changed while it runs.

QUANTITIES is the table of the numbers. Each entry finds the paths of its value in a scene; if there are none, the page
does not offer the parameter. Applying a parameter returns another scene.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from toile.plugins import Plugin, find, names
from toile.scene.schema import Scene, fabric_names, read_fabric
from toile.scene.yaml_reader import KeyPath
from toile.viewer.live.scene_edits import with_value

Value = float | str | bool

NO_FILTER = "none"
CHANGED = " (changed)"  # after the name of a fabric
NEW_WIND = (0.0, 3.0, 0.0)  # [m/s]


@dataclass(frozen=True)
class Parameter:
    """A parameter of one scene."""

    group: str
    label: str
    doc: str
    read: Callable[[Scene], Value]
    apply: Callable[[Scene, Any], Scene]

    @property
    def key(self) -> str:
        return f"{self.group}/{self.label}"


@dataclass(frozen=True)
class Slider(Parameter):
    """A number."""

    unit: str
    low: float
    high: float
    logarithmic: bool


@dataclass(frozen=True)
class Choice(Parameter):
    options: tuple[str, ...]


@dataclass(frozen=True)
class Switch(Parameter):
    pass


# Names and paths of a value in a scene. The name is that of the energy, force or solid, or empty.
Paths = Callable[[Scene], Iterator[tuple[str, KeyPath]]]


@dataclass(frozen=True)
class Quantity:
    """A number that a scene may contain at several paths."""

    group: str
    label: str
    unit: str
    low: float
    high: float
    paths: Paths
    logarithmic: bool = False
    scale: float = 1.0  # [SI unit / unit]
    doc: str = ""


def parameters(scene: Scene) -> list[Parameter]:
    """Returns all parameters of this scene, sorted by group."""
    found = [*_fabrics(scene), *_wind(scene), *_contact(scene), *_method(scene), *_values(scene)]
    groups = list(dict.fromkeys(parameter.group for parameter in found))
    return sorted(found, key=lambda parameter: groups.index(parameter.group))


# Paths of values


def at(*path: str | int) -> Paths:
    """One path that every scene has."""

    def paths(scene: Scene) -> Iterator[tuple[str, KeyPath]]:
        yield "", path

    return paths


def each(key: str, field: str, *inner: str | int) -> Paths:
    """Paths in a list of the scene: one for every item in which this field has a value."""

    def paths(scene: Scene) -> Iterator[tuple[str, KeyPath]]:
        for i, item in enumerate(getattr(scene, key)):
            if getattr(item, field, None) is not None:
                yield (
                    ("" if key == "cloth" else getattr(item, "name", None) or item.type_name()),
                    (key, i, field, *inner),
                )

    return paths


def either(*several: Paths) -> Paths:
    return lambda scene: chain.from_iterable(paths(scene) for paths in several)


def of_cloth(field: str, **own: tuple[str, ...]) -> Paths:
    """Paths in the fabrics, or in energies that override the value of the fabric.

    `own` maps type names of energies to the fields that override it, of which the first with a value counts; `every`
    applies to all other energies.
    """

    def paths(scene: Scene) -> Iterator[tuple[str, KeyPath]]:
        for i, cloth in enumerate(scene.cloth):
            from_fabric = False
            for e, energy in enumerate(cloth.energies):
                fields = [name for name in own.get(energy.type_name(), own.get("every", ())) if hasattr(energy, name)]
                given = [name for name in fields if getattr(energy, name) is not None]
                if given:
                    yield energy.type_name(), ("cloth", i, "energies", e, given[0])
                from_fabric = from_fabric or bool(fields and not given)
            if from_fabric:
                yield "", ("cloth", i, "fabric", field)

    return paths


def of_energy(type_name: str, field: str) -> Paths:
    """Paths in the energies of one type in which this field has a value."""

    def paths(scene: Scene) -> Iterator[tuple[str, KeyPath]]:
        for i, cloth in enumerate(scene.cloth):
            for e, energy in enumerate(cloth.energies):
                if energy.type_name() == type_name and getattr(energy, field) is not None:
                    yield "", ("cloth", i, "energies", e, field)

    return paths


_BENT_WARP, _BENT_WEFT = ("rigidity_warp", "rigidity"), ("rigidity_weft", "rigidity")
_BENDING = ("bend_angle", "bend_mode", "bend_buckling")

QUANTITIES = (
    Quantity("cloth", "stretch, warp", "N/m", 10.0, 1e5, of_cloth(
        "stretch_warp", stretch=("stiffness_warp",), spring=("structural",), bend_buckling=("stiffness",)
    ), logarithmic=True, doc="stiffness along the warp"),
    Quantity("cloth", "stretch, weft", "N/m", 10.0, 1e5, of_cloth(
        "stretch_weft", stretch=("stiffness_weft",), spring=("structural",), bend_buckling=("stiffness",)
    ), logarithmic=True, doc="stiffness along the weft"),
    Quantity("cloth", "shear", "N/m", 1.0, 1e4, of_cloth(
        "shear", shear=("stiffness",), spring=("shear",)
    ), logarithmic=True, doc="stiffness against shear"),
    # Its unit differs from that of the rigidities. It comes before them, because each path is used once.
    Quantity("cloth", "bending", "N/m", 1e-2, 1e3, of_energy("spring", "flexion"), logarithmic=True,
           doc="stiffness of springs past one particle"),
    Quantity("cloth", "bending, warp", "N m", 1e-7, 1e-2, of_cloth(
        "bend_warp", **dict.fromkeys(_BENDING, _BENT_WARP), spring=("flexion",)
    ), logarithmic=True, doc="rigidity when the warp curves"),
    Quantity("cloth", "bending, weft", "N m", 1e-7, 1e-2, of_cloth(
        "bend_weft", **dict.fromkeys(_BENDING, _BENT_WEFT), spring=("flexion",)
    ), logarithmic=True, doc="rigidity when the weft curves"),
    Quantity("cloth", "damping", "s", 1e-5, 1e-1, of_cloth("damping", every=("damping",)), logarithmic=True,
           doc="damping coefficient / stiffness"),
    Quantity("cloth", "density", "kg/m^2", 0.01, 10.0, each("cloth", "fabric", "density"), logarithmic=True,
           doc="mass per area"),
    Quantity("forces", "gravity", "m/s^2", -20.0, 10.0, at("gravity", 2), doc="acceleration along z"),
    Quantity("forces", "wind, x", "m/s", -15.0, 15.0, each("forces", "velocity", 0), doc="velocity of the air along x"),
    Quantity("forces", "wind, y", "m/s", -15.0, 15.0, each("forces", "velocity", 1), doc="velocity of the air along y"),
    Quantity("forces", "wind, z", "m/s", -15.0, 15.0, each("forces", "velocity", 2), doc="velocity of the air along z"),
    Quantity("forces", "gusts", "", 0.0, 2.0, each("forces", "gust"), doc="relative to the velocity of the wind"),
    Quantity("forces", "air", "kg/m^3", 0.0, 3.0, each("forces", "quadratic"), doc="pressure per normal speed squared"),
    Quantity("forces", "viscous", "1/s", 0.0, 10.0, each("forces", "rate"), doc="rate at which velocities decay"),
    Quantity("contact", "friction", "", 0.0, 1.5, either(
        each("solids", "friction"), each("filters", "friction"), each("forces", "friction")
    ), doc="Coulomb's coefficient"),
    Quantity("method", "largest step", "ms", 0.1, 100.0, at("time", "max_step"), logarithmic=True, scale=1e-3,
           doc="the longest time step; a step never extends past a frame"),
    Quantity("method", "extension", "", 0.0, 0.5, each("filters", "extension"), doc="maximum extension of threads"),
)  # fmt: skip


def _values(scene: Scene) -> Iterator[Parameter]:
    seen: set[KeyPath] = set()  # one value for both warp and weft is in two entries
    for quantity in QUANTITIES:
        paths = [(name, path) for name, path in quantity.paths(scene) if path not in seen]
        seen.update(path for _, path in paths)
        for name, path in paths:
            if path[0] == "cloth":
                yield _slider(scene, quantity, _cloth_group(scene, int(path[1])), name, path)
            else:
                yield _slider(scene, quantity, quantity.group, name if len(paths) > 1 else "", path)


def _cloth_group(scene: Scene, cloth: int) -> str:
    return f"cloth: {scene.cloth[cloth].name}" if len(scene.cloth) > 1 else "cloth"


def _slider(scene: Scene, quantity: Quantity, group: str, name: str, path: KeyPath) -> Slider:
    def read(scene: Scene) -> float:
        value: Any = scene
        for key in path:
            value = value[key] if isinstance(key, int) else getattr(value, key)
        return float(value) / quantity.scale

    def apply(scene: Scene, value: float) -> Scene:
        scene = with_value(scene, path, value * quantity.scale)
        return _with_changed_name(scene, int(path[1])) if path[0] == "cloth" and path[2] == "fabric" else scene

    # The value of the scene may be outside the range of the table.
    low, high, value = quantity.low, quantity.high, read(scene)
    if value > 0.0 or not quantity.logarithmic:
        low, high = min(low, value), max(high, value)
    label = f"{quantity.label} ({name})" if name else quantity.label
    return Slider(group, label, quantity.doc, read, apply, quantity.unit, low, high, quantity.logarithmic)


def _with_changed_name(scene: Scene, cloth: int) -> Scene:
    """Marks the name of a fabric whose values differ from those of the named fabric."""
    name = scene.cloth[cloth].fabric.name
    return scene if name.endswith(CHANGED) else with_value(scene, ("cloth", cloth, "fabric", "name"), name + CHANGED)


def _fabrics(scene: Scene) -> Iterator[Parameter]:
    for i, cloth in enumerate(scene.cloth):

        def read(scene: Scene, i: int = i) -> str:
            return scene.cloth[i].fabric.name

        def apply(scene: Scene, name: str, i: int = i) -> Scene:
            return with_value(scene, ("cloth", i, "fabric"), read_fabric(name))

        own = () if cloth.fabric.name in fabric_names() else (cloth.fabric.name,)
        yield Choice(_cloth_group(scene, i), "fabric", cloth.fabric.source, read, apply, (*own, *fabric_names()))


def _wind(scene: Scene) -> Iterator[Parameter]:
    drag = find("energies", "drag")

    def read(scene: Scene) -> bool:
        return any(force.moves_air for force in scene.forces)

    def apply(scene: Scene, blows: bool) -> Scene:
        forces = []
        for force in scene.forces:
            if force.moves_air and not blows:
                # Air at rest stays with the same coefficients, if the wind has those of drag.
                forces += [_air("drag", force)] if drag.model_fields.keys() <= type(force).model_fields.keys() else []
            elif not blows or force.moves_air or not force.resists_air:  # wind includes drag
                forces.append(force)
        if blows and not read(scene):
            still = [force for force in scene.forces if force.resists_air and not force.moves_air]
            forces.append(_air("wind", still[0] if still else None, velocity=NEW_WIND))
        return with_value(scene, ("forces",), tuple(forces))

    yield Switch("forces", "wind", "moving air instead of air at rest", read, apply)


def _air(type_name: str, like: Plugin | None, **more: Any) -> Plugin:
    given = {} if like is None else {name: getattr(like, name) for name in ("linear", "quadratic")}
    return find("energies", type_name)(**given, **more)


def _contact(scene: Scene) -> Iterator[Parameter]:
    def read(scene: Scene) -> bool:
        return any(item.resolves_cloth_contact for item in scene.filters)

    def apply(scene: Scene, wanted: bool) -> Scene:
        others = tuple(item for item in scene.filters if not item.resolves_cloth_contact)
        return with_value(scene, ("filters",), (*others, *((find("filters", "self_contact")(),) if wanted else ())))

    yield Switch("contact", "cloth on cloth", "the filter self_contact", read, apply)


def _method(scene: Scene) -> Iterator[Parameter]:
    def integrator(scene: Scene, type_name: str) -> Scene:
        old, new = scene.integrator, find("integrators", type_name)
        given = {name: getattr(old, name) for name in old.model_fields_set if name in new.model_fields}
        return with_value(scene, ("integrator",), new(**given))

    filters: dict[str, Any] = {name: find("filters", name) for name in names("filters")}
    limits = tuple(name for name, settings in filters.items() if settings.limits_lengths)

    def limit(scene: Scene) -> str:
        return next((item.type_name() for item in scene.filters if item.type_name() in limits), NO_FILTER)

    def limited(scene: Scene, type_name: str) -> Scene:
        others = tuple(item for item in scene.filters if item.type_name() not in limits)
        return with_value(
            scene, ("filters",), (*(() if type_name == NO_FILTER else (find("filters", type_name)(),)), *others)
        )

    type_names = names("integrators")
    yield Choice("method", "integrator", "time integrator", lambda s: s.integrator.type_name(), integrator, type_names)
    yield Choice("method", "strain filter", "limits the stretch of threads", limit, limited, (NO_FILTER, *limits))
