"""Shipped fabrics: each loads, names its source, and lies within the range of measured cloth."""

from __future__ import annotations

import pytest
import yaml

from toile.scene.schema import FABRICS, Fabric, fabric_names, read_fabric

# Smallest and largest of 618 fabrics (Feng et al. 2022); rigidity of both directions together [N m].
DENSITY = (0.015, 0.870)
RIGIDITY = (2.2e-7, 2.7e-4)
# Bounds of stiffness per width [N/m]: a knit at rest, and paper.
STRETCH = (1.0, 5e5)

WANG = [
    "ivory_rib_knit", "pink_ribbon_brown", "white_dots_on_blk", "navy_sparkle_sweat", "camel_ponte_roma",
    "gray_interlock", "11oz_black_denim", "white_swim_solid", "tango_red_jet_set", "royal_target",
]  # fmt: skip
MATSUDAIRA = ["cotton_broad", "wool_tropical", "polyester_tropical", "polyester_faille"]


def fabric(name: str) -> Fabric:
    return Fabric.model_validate(read_fabric(name))


def test_all_measured_fabrics_are_shipped() -> None:
    assert sorted(["cotton", "denim", *WANG, *MATSUDAIRA]) == fabric_names()


@pytest.mark.parametrize("name", fabric_names())
def test_every_fabric_is_within_the_range_of_measured_cloth(name: str) -> None:
    cloth = fabric(name)
    assert cloth.name == name
    assert cloth.source
    assert DENSITY[0] <= cloth.density <= DENSITY[1]
    for rigidity in (cloth.bend_warp, cloth.bend_weft):
        assert RIGIDITY[0] <= rigidity <= RIGIDITY[1]
    for stiffness in (cloth.stretch_warp, cloth.stretch_weft, cloth.shear):
        assert STRETCH[0] <= stiffness <= STRETCH[1]
    # cloth shears more easily than it stretches, except knits, whose stretch is soft too
    if min(cloth.stretch_warp, cloth.stretch_weft) > 200.0:
        assert cloth.shear < min(cloth.stretch_warp, cloth.stretch_weft)


@pytest.mark.parametrize("name", fabric_names())
def test_every_fabric_gives_all_its_values(name: str) -> None:
    """A later change of the defaults must not change a measured fabric."""
    given = set(yaml.safe_load((FABRICS / f"{name}.yaml").read_text(encoding="utf-8")))
    assert {"source", "density", "stretch_warp", "stretch_weft", "shear", "bend_warp", "bend_weft"} <= given


def test_the_default_lies_between_the_quartiles() -> None:
    cotton = fabric("cotton")
    assert 0.104 <= cotton.density <= 0.294
    assert 4.1e-6 <= cotton.bend_warp <= 3.6e-5
    assert 3.3e-6 <= cotton.bend_weft <= 2.4e-5


@pytest.mark.parametrize(
    ("name", "B", "W", "bending_length"),
    [
        ("cotton_broad", 0.118, 12.38, 21.2e-3),
        ("wool_tropical", 0.067, 16.29, 16.0e-3),
        ("polyester_tropical", 0.077, 11.65, 18.8e-3),
        ("polyester_faille", 0.019, 10.43, 12.2e-3),
    ],
)
def test_conversion_from_kes(name: str, B: float, W: float, bending_length: float) -> None:
    """1 gf cm^2/cm = 9.80665e-5 N m, 1 mg/cm^2 = 0.01 kg/m^2, bending length = (D / (density g))^(1/3)."""
    cloth = fabric(name)
    assert cloth.bend_warp == pytest.approx(B * 9.80665e-5, rel=1e-3)
    assert cloth.density == pytest.approx(0.01 * W)
    assert (cloth.bend_warp / (cloth.density * 9.80665)) ** (1 / 3) == pytest.approx(bending_length, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "mean_rigidity"),
    list(zip(WANG, [9.8e-6, 2.2e-5, 1.0e-5, 1.3e-5, 9.2e-6, 4.7e-6, 2.0e-5, 1.4e-5, 4.3e-6, 3.1e-5], strict=True)),
)
def test_rigidity_of_the_ten(name: str, mean_rigidity: float) -> None:
    """A quarter of the tabulated value; the mean over 0, 45 and 90 degrees is close to that of warp and weft."""
    cloth = fabric(name)
    assert 0.5 * (cloth.bend_warp + cloth.bend_weft) == pytest.approx(mean_rigidity, rel=0.15)
