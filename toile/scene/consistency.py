"""Consistency of a scene, where a check needs more than one field: meshes, selections, names, pins, expectations.

The checks run on those parts of a scene that are valid by themselves, so that their problems are reported together with
the problems of single fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from toile.constraints.base import Constraint
from toile.energies.base import Energy
from toile.errors import InputError
from toile.model.mesh import Mesh
from toile.model.mesh_check import check, require_memory_for
from toile.model.mesh_repair import FARTHEST
from toile.model.motion import rotation_matrix
from toile.model.selection import Selection
from toile.plugins import Plugin, in_scope, names, nearest
from toile.scene.error_messages import Problem
from toile.scene.fields import NOTHING, unit_of
from toile.scene.report_keys import report_keys
from toile.scene.schema import Cloth, Scene, solid_names
from toile.scene.yaml_reader import KeyPath

if TYPE_CHECKING:
    from toile.colliders.base import Collider
    from toile.outputs.base import Output

# Usual ranges of material constants, by unit. A value outside was probably meant in another unit.
USUAL = {"kg/m^2": (0.01, 2.0), "N m": (1e-7, 1e-3), "N/m": (1.0, 1e6)}


@dataclass
class SceneParts:
    """The parts of a scene that are valid by themselves, by their index in its lists."""

    cloths: Mapping[int, Cloth]
    solids: Mapping[int, Collider]
    constraints: Mapping[int, Plugin]
    forces: Mapping[int, Energy]
    outputs: Mapping[int, Output]
    expect: tuple[str, ...]
    folder: Path
    allow_outside: bool = False
    broken_cloths: frozenset[str] = frozenset()  # names of cloths that are not valid
    whole: bool = False  # whether these are all parts of the scene

    @staticmethod
    def of(scene: Scene) -> SceneParts:
        """Returns all parts of a valid scene."""
        return SceneParts(
            dict(enumerate(scene.cloth)),
            dict(enumerate(scene.solids)),
            dict(enumerate(scene.constraints)),
            dict(enumerate(scene.forces)),
            dict(enumerate(scene.outputs)),
            tuple(scene.expect),
            scene._folder,
            scene._allow_outside,
            whole=True,
        )


@dataclass
class CheckedParts:
    """Result of the checks: the placed meshes with their warnings, and every problem."""

    meshes: dict[int, Mesh] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def check_consistency(parts: SceneParts) -> CheckedParts:
    """Builds the mesh of every cloth, and checks all references to it and between the other parts."""
    found = CheckedParts(
        problems=[
            *_names_twice(parts),
            *_outputs_twice(parts),
            *_unknown_report_keys(parts),
            *_solids(parts),
            *_constraints_twice(parts),
        ]
    )
    for i, cloth in parts.cloths.items():
        try:
            mesh = _placed(cloth, parts)
        except InputError as error:
            field_name = cloth.shape.file_field
            key: KeyPath = ("cloth", i, "shape", *([field_name] if field_name else []))
            value = getattr(cloth.shape, field_name) if field_name else NOTHING
            found.problems += [Problem(key, line, value) for line in str(error).splitlines()]
            continue
        if not (np.abs(mesh.positions) <= FARTHEST).all():
            text = f"starts farther than {FARTHEST:g} m from the origin; check translation and rotation."
            found.problems.append(Problem(("cloth", i), text))
            continue
        mesh = replace(mesh, warnings=(*mesh.warnings, *_unusual_values(cloth)))
        found.meshes[i], problems = _with_regions(mesh, cloth, ("cloth", i))
        found.problems += [*problems, *_references(found.meshes[i], cloth, ("cloth", i), parts)]
    held: dict[int, list[_Pin]] = {}
    for name, plugins in (("constraints", parts.constraints), ("forces", parts.forces)):
        for i, plugin in plugins.items():
            found.problems += _targets(plugin, (name, i), parts, found.meshes, held)
    for number, pins in held.items():
        problems, warnings = _contradictions(pins, parts.cloths[number].name)
        found.problems += problems
        mesh = found.meshes[number]
        found.meshes[number] = replace(mesh, warnings=(*mesh.warnings, *warnings))
    for i, mesh in found.meshes.items():
        named = tuple(f'cloth "{parts.cloths[i].name}": {warning}' for warning in mesh.warnings)
        found.meshes[i] = replace(mesh, warnings=named)
    for i, mesh in list(found.meshes.items())[:1]:  # a warning about the scene as a whole is reported once
        found.meshes[i] = replace(mesh, warnings=(*mesh.warnings, *_air_twice(parts)))
    return found


def _names_twice(parts: SceneParts) -> Iterator[Problem]:
    """Finds cloths and solids with the same name."""
    named: tuple[tuple[str, str, Mapping[int, Cloth] | Mapping[int, Collider]], ...] = (
        ("cloth", "cloth", parts.cloths),
        ("solids", "solid", parts.solids),
    )
    for key, noun, things in named:
        seen: set[str] = set()
        for i, thing in things.items():
            if thing.name is None:
                continue
            if thing.name in seen:
                yield Problem((key, i, "name"), f"another {noun} has this name; names must differ.", thing.name)
            seen.add(thing.name)


def _solids(parts: SceneParts) -> Iterator[Problem]:
    """Checks the files of solids."""
    for i, solid in parts.solids.items():
        try:
            solid.check(parts.folder, parts.allow_outside)
        except InputError as error:
            yield from (Problem(("solids", i), line) for line in str(error).splitlines())


def _constraints_twice(parts: SceneParts) -> Iterator[Problem]:
    """Finds constraints such as solid_contact that are listed twice, but whose settings apply to the whole scene."""
    seen: dict[str, int] = {}
    for i, constraint in parts.constraints.items():
        name = constraint.type_name()
        if constraint.at_most_one and seen.setdefault(name, i) != i:
            yield Problem(("constraints", i), f"{name} is already set by constraints[{seen[name]}]; list it once.")


def _outputs_twice(parts: SceneParts) -> Iterator[Problem]:
    """Finds outputs that would write the same file."""
    seen: dict[tuple[Any, ...], int] = {}
    for i, output in parts.outputs.items():
        first = seen.setdefault((output.type_name(), *(getattr(output, name) for name in output.distinct_fields)), i)
        if first != i:
            yield Problem(("outputs", i), f"would write the same file as outputs[{first}]; list it once.")


def _unknown_report_keys(parts: SceneParts) -> Iterator[Problem]:
    if parts.whole:
        listed = [energy.type_name() for cloth in parts.cloths.values() for energy in cloth.energies]
        energies = {*in_scope("energies", "world"), *listed, *(force.type_name() for force in parts.forces.values())}
    else:  # the energies of the scene are not all known, so any energy may appear in the certificate
        energies = set(names("energies"))
    known = report_keys(energies, solid_names(parts.solids.values()))
    for key in parts.expect:
        if key not in known:
            yield Problem(("expect", key), f"no such value in the certificate.{nearest(key, known)}")


def _air_twice(parts: SceneParts) -> Iterator[str]:
    of_air = [(i, force.type_name()) for i, force in parts.forces.items() if force.resists_air]
    if len(of_air) > 1:
        listed = " and ".join(f"forces[{i}] ({type_name})" for i, type_name in of_air)
        yield f"{listed} each model the resistance of still air. Keep one of them; wind includes drag."


def _placed(cloth: Cloth, parts: SceneParts) -> Mesh:
    require_memory_for(cloth.shape.expected_vertex_count())
    mesh = check(cloth.shape.mesh(parts.folder, parts.allow_outside))
    with np.errstate(all="ignore"):  # a position that overflows is reported as too far from the origin
        return mesh.transformed(rotation_matrix(np.radians(cloth.rotation)), np.asarray(cloth.translation))


def _with_regions(mesh: Mesh, cloth: Cloth, path: KeyPath) -> tuple[Mesh, list[Problem]]:
    """Resolves the regions of a cloth in their order, so that one may refer to those before it."""
    problems = []
    for name, selection in cloth.regions.items():
        try:
            mesh = replace(mesh, regions={**mesh.regions, name: selection.resolve(mesh)})
        except ValueError as error:
            problems.append(Problem((*path, "regions", name), str(error), _shown(selection)))
    return mesh, problems


def _references(mesh: Mesh, cloth: Cloth, path: KeyPath, parts: SceneParts) -> Iterator[Problem]:
    """Checks the regions, selections and files that a cloth's own parts name."""
    for i, stretch in enumerate(cloth.rest_stretch):
        if stretch.region is not None and stretch.region not in mesh.regions:
            hint = nearest(stretch.region, mesh.regions) if mesh.regions else " The cloth has no regions."
            yield Problem((*path, "rest_stretch", i, "region"), f"no such region.{hint}", stretch.region)
    for i, energy in enumerate(cloth.energies):
        here = (*path, "energies", i)
        yield from _selected(energy, mesh, here)[1]
        if (text := energy.check_fabric(cloth.fabric)) is not None:
            yield Problem(here, text)
        try:
            energy.read(mesh, parts.folder, parts.allow_outside)
        except InputError as error:
            key = energy.file_field or ""
            value = getattr(energy, key, NOTHING)
            yield from (Problem((*here, key), line, value) for line in str(error).splitlines())


@dataclass(frozen=True)
class _Pin:
    path: KeyPath
    plugin: Constraint
    particles: np.ndarray


def _targets(
    plugin: Plugin, path: KeyPath, parts: SceneParts, meshes: Mapping[int, Mesh], held: dict[int, list[_Pin]]
) -> Iterator[Problem]:
    """Checks which cloth a constraint or force names, and which of its particles; adds pins to `held`, by cloth."""
    if "cloth" not in type(plugin).model_fields:
        return
    name = getattr(plugin, "cloth", None)
    known = [cloth.name for cloth in parts.cloths.values()]
    if name is None:
        if len(known) + len(parts.broken_cloths) > 1:
            every = ", ".join([*known, *sorted(parts.broken_cloths)])
            yield Problem((*path, "cloth"), f"missing: the scene has several cloths. Name one of: {every}.")
        elif not known and not parts.broken_cloths:
            yield Problem(path, f"the scene has no cloth that this {plugin.type_name()} could act on.")
        if len(known) != 1 or parts.broken_cloths:
            return
    elif name not in known:
        if name not in parts.broken_cloths:
            hint = nearest(name, {*known, *parts.broken_cloths}) if known or parts.broken_cloths else ""
            yield Problem((*path, "cloth"), f"no such cloth.{hint}", name)
        return
    number = next(i for i, cloth in parts.cloths.items() if name is None or cloth.name == name)
    if number not in meshes:
        return
    mesh = meshes[number]
    particles, problems = _selected(plugin, mesh, path)
    yield from problems
    triangle = getattr(plugin, "triangle", None)
    if isinstance(triangle, int) and triangle >= mesh.triangle_count:
        yield Problem((*path, "triangle"), f"does not exist: the cloth has 0 to {mesh.triangle_count - 1}.", triangle)
    if particles is not None and isinstance(plugin, Constraint) and plugin.holds_all_directions:
        held.setdefault(number, []).append(_Pin(path, plugin, particles))


def _selected(plugin: Plugin, mesh: Mesh, path: KeyPath) -> tuple[np.ndarray | None, list[Problem]]:
    where = getattr(plugin, "where", None)
    if not isinstance(where, Selection):
        return None, []
    try:
        return where.resolve(mesh), []
    except ValueError as error:
        return None, [Problem((*path, "where"), str(error), _shown(where))]


def _contradictions(pins: list[_Pin], cloth: str) -> tuple[list[Problem], list[str]]:
    """Finds pins that hold the same particle at the same time: an error if they differ, a warning if they agree."""
    problems, warnings = [], []
    for one, two in combinations(pins, 2):
        both = np.intersect1d(one.particles, two.particles)
        if not len(both) or not _overlap(one.plugin, two.plugin):
            continue
        names = " and ".join(f"constraints[{pin.path[1]}]" for pin in (one, two))
        if _agree(one, two):
            warnings.append(f"{names} both hold {len(both)} particles, the first of them particle {both[0]}.")
        else:
            problems.append(
                Problem(
                    two.path,
                    f"contradicts constraints[{one.path[1]}]: both pin particle {both[0]} of cloth "
                    f'"{cloth}" at the same time ({len(both)} such particles) but move it differently. '
                    "Give them times that do not overlap.",
                )
            )
    return problems, warnings


def _overlap(one: Constraint, two: Constraint) -> bool:
    """Whether two constraints are active at the same time."""
    ends = [math.inf if pin.end is None else pin.end for pin in (one, two)]
    return max(one.start, two.start) < min(ends)


def _agree(one: _Pin, two: _Pin) -> bool:
    """Whether two pins hold their common particles at the same positions."""
    ignored = {"cloth", "where", "start", "end"}
    if one.plugin.model_dump(exclude=ignored) != two.plugin.model_dump(exclude=ignored):
        return False
    # A moving pin starts at the positions of its particles when it begins, and turns about their mean.
    still = one.plugin.motion is None
    return still or (one.plugin.start == two.plugin.start and np.array_equal(one.particles, two.particles))


def _unusual_values(cloth: Cloth) -> Iterator[str]:
    for model in (cloth.fabric, *cloth.energies):
        owner = f"fabric {cloth.fabric.name}" if model is cloth.fabric else str(getattr(model, "type_name", str)())
        for name, info in type(model).model_fields.items():
            value, unit = getattr(model, name), unit_of(info)
            if unit not in USUAL or not isinstance(value, float) or value == 0.0:
                continue  # 0 switches a force off
            low, high = USUAL[unit]
            if not low <= value <= high:
                yield f"{name} = {value:g} {unit} ({owner}) is outside the usual {low:g} to {high:g}: is it in {unit}?"


def _shown(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(exclude_defaults=True)
