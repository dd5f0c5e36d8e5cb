"""The public names of `import toile`, and the cost of importing it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import toile
from toile.errors import InputError
from toile.families import FAMILIES, ROOT, class_name, members

HEAVY = ("numpy", "scipy", "warp", "pydantic", "yaml", "qdldl", "cvxopt", "pxr", "imageio_ffmpeg")


def python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=60
    ).stdout


@pytest.mark.parametrize("name", sorted(toile.__all__))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(toile, name) is not None
    assert name in dir(toile)


def test_the_lists_of_public_names_agree() -> None:
    assert set(toile.__all__) == {*toile._MODULE_OF, "__version__", "use_precision"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Garment'"):
        _ = toile.Garment


def test_importing_toile_and_its_command_imports_nothing_heavy() -> None:
    loaded = python("import toile, toile.cli, sys; print(*sys.modules)").split()
    assert "toile.cli" in loaded
    assert not {name for name in loaded if name.split(".")[0] in HEAVY}


def test_help_takes_less_than_half_a_second() -> None:
    def seconds() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "toile", "--help"], capture_output=True, check=True, timeout=60)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time, and the best of several, because other load on the machine does not matter.
    assert min(seconds() for _ in range(3)) < 0.5


def test_precision_is_chosen_before_the_kernels() -> None:
    code = "import toile; toile.use_precision('single'); from toile.math import types; print(types.precision)"
    assert python(code).strip() == "single"
    assert python("from toile.math import types; print(types.precision)", TOILE_PRECISION="double").strip() == "double"


def test_precision_cannot_change_after_kernels_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOILE_PRECISION", "double")
    monkeypatch.setitem(sys.modules, "toile.math.types", SimpleNamespace(precision="double"))
    toile.use_precision("double")
    with pytest.raises(
        InputError, match="precision cannot change to single: the kernels of this process already use double"
    ):
        toile.use_precision("single")
    assert os.environ["TOILE_PRECISION"] == "double"


def test_only_two_precisions_exist() -> None:
    with pytest.raises(InputError, match='precision = "half": must be "double" or "single"'):
        toile.use_precision("half")


# Files in the folders of plug-ins that several of them share.
SHARED = {
    "toile.colliders": {"base", "features", "solids"},
    "toile.constraints": {"base", "scene_constraints"},
    "toile.energies": {"base"},
    "toile.filters": {"base"},
    "toile.integrators": {"base", "newton"},
    "toile.outputs": {"base"},
    "toile.post": {"base"},
    "toile.shapes": {"base"},
}


@pytest.mark.parametrize("family", [name for name in FAMILIES if not FAMILIES[name].prefix])
def test_every_public_file_of_a_family_holds_its_plugin(family: str) -> None:
    """A class whose name is not that of its file (`VTK` in vtk.py) would be missing without a message."""
    package = FAMILIES[family].package
    files = {path.stem for path in ROOT.joinpath(*package.split(".")[1:]).glob("[!_]*.py")} - SHARED[package]
    for name in sorted(files):
        assert name in members(family), f"{package}.{name} has no class {class_name(name)}"
