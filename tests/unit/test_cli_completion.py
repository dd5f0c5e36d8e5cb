"""Shell completion, requested as the shells do; fields that are read from the source are those of the models."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from toile.cli import catalog, set_keys
from toile.cli.commands.list import CatalogKind
from toile.families import FAMILIES, members
from toile.families import ROOT as PACKAGE
from toile.plugins import find, in_scope, names
from toile.scene.schema import Scene

ROOT = Path(__file__).parents[2]
HEAVY = {"numpy", "scipy", "warp", "toile.scene", "toile.plugins", "toile.model"}


def ask(line: str, cwd: Path = ROOT, shell: str = "bash") -> list[str]:
    """The completions of a line whose last word is incomplete, without the lines of help."""
    words = line.split(" ")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "_TOILE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = (sys.executable, "-m", "toile")
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    if shell == "zsh":
        return re.findall(r'^(?:_arguments \'\*: :\(\()?"([^"]+)"', done.stdout, re.M)
    return [entry.partition("\t")[0] for entry in done.stdout.split("\n") if entry]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_completions(shell: str) -> None:
    expected = ["time.frames=", "time.fps=", "time.max_step=", "time.min_step=", "time.max_excess="]
    assert ask("toile run hang --set time.", shell=shell) == expected


def test_scenes_files_and_runs_are_completed(tmp_path: Path) -> None:
    for folder in ("out/hang", "out/empty"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "out" / "hang" / "cache.pc2").touch()
    (tmp_path / "hand.yaml").touch()
    (tmp_path / "hand.txt").touch()
    assert ask("toile run han", tmp_path) == ["hang", "hand.yaml"]
    assert ask("toile render o", tmp_path) == ["out/"]
    assert ask("toile render out/", tmp_path) == ["out/empty/", "out/hang"]
    assert ask("toile check out/h", tmp_path) == ["out/hang"]
    assert ask("toile bench hang dra", tmp_path) == ["drape"]


def test_types_formats_and_options_are_completed() -> None:
    assert ask("toile explain pul") == ["pull"]
    assert ask("toile list sc") == ["scenes"]
    assert set(ask("toile export out/hang --format ")) == set(names("outputs"))
    assert ask("toile export out/hang --format=us") == ["usd"]
    assert ask("toile run hang --dev") == ["--device"]


def test_a_completion_imports_nothing_heavy_and_is_fast() -> None:
    code = (
        "import sys, time; from toile.cli import completion, set_keys; import typer\n"
        "class Context: params = {'scene': 'drape'}; args = []\n"
        "assert completion.overrides(Context(), 'cloth.0.') and completion.type_names('') and completion.formats()\n"
        "print(time.process_time(), *sys.modules)"
    )
    command = (sys.executable, "-c", code)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    seconds, *modules = done.stdout.split()
    assert not {module for module in modules if any(module == name or module.startswith(f"{name}.") for name in HEAVY)}
    assert float(seconds) < 0.3


def models() -> list[type[BaseModel]]:
    """The models of the scene, of all its types, and of their fields."""
    found: dict[type[BaseModel], None] = {}
    pending: list[type[BaseModel]] = [Scene, *(find(family, name) for family in FAMILIES for name in names(family))]
    while pending:
        model = pending.pop()
        if model not in found:
            found[model] = None
            from toile.scene.fields import models_in

            pending += [inner for info in model.model_fields.values() for inner in models_in(info)]
    return list(found)


@pytest.mark.parametrize("model", models(), ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_fields_read_from_the_source_are_those_of_the_models(model: type[BaseModel]) -> None:
    read = set_keys.fields(set_keys.ModelSource(model.__module__, model.__name__))
    assert set(read) == set(model.model_fields)
    for name, info in model.model_fields.items():
        assert read[name].doc.startswith(info.description or "")


def test_families_and_types_read_from_the_source_are_those_of_the_loader() -> None:
    for family in FAMILIES:
        assert sorted({*members(family), *catalog.outside(family)}) == list(names(family))
    assert {kind.value for kind in CatalogKind} == {*FAMILIES, "scenes", "fabrics", "presets"}
    for scope in ("cloth", "scene"):
        assert set_keys.Choice("energies", scope).type_names() == list(in_scope("energies", scope))


@pytest.mark.parametrize("name", sorted(catalog.scenes()))
def test_every_key_that_is_offered_can_be_set(name: str) -> None:
    """The loader accepts an override of every key of every shipped scene."""
    from toile.cli.completion import _values
    from toile.scene.overrides import apply
    from toile.scene.presets import fill

    values = _values(name)
    filled, _ = fill(yaml.safe_load((PACKAGE / "scenes" / f"{name}.yaml").read_text(encoding="utf-8")))
    offered, pending = [], [""]
    while pending:
        for key, _ in set_keys.complete(pending.pop(), values):
            (offered if key.endswith("=") else pending).append(key)
    assert len(offered) > 30
    for key in offered:
        apply(f"{key}1", Scene, deepcopy(filled))


def test_values_of_choices_are_completed() -> None:
    assert set_keys.complete("preset=", []) == [(f"preset={name}", "") for name in catalog.presets()]
    assert ("cloth.0.fabric=denim", "") in set_keys.complete("cloth.0.fabric=", [])
    assert ("integrator=implicit_euler", "") in set_keys.complete("integrator=", [])
    assert ("solids.0.sharp=true", "") in set_keys.complete("solids.0.sharp=", [{"solids": [{"type": "sphere"}]}])
    assert set_keys.complete("nothing.at.all=", []) == set_keys.complete("nothing.at.all.", []) == []


NEEDS_UNIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither pseudo-terminals nor /bin/sh")
SHELLS = {"bash": ("bash", "--rcfile", ".rc", "-i"), "zsh": ("zsh", "-i")}


class Shell:
    """A shell on a pseudo-terminal, with completion installed as a user does."""

    def __init__(self, name: str, folder: Path):
        import pty

        environment = home(folder)
        install(name, environment)
        (folder / ".zshrc").write_text("fpath+=~/.zfunc; autoload -Uz compinit; compinit -u; PS1='> '; unsetopt beep\n")
        settings = "PS1='> '; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'"
        (folder / ".rc").write_text(f"{settings}\n. ~/.bashrc\n")
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(name, SHELLS[name], environment | {"TERM": "dumb", "COLUMNS": "200"})
        self.read("> ")

    def read(self, end: str, seconds: float = 60.0) -> str:
        shown, stop = "", time.monotonic() + seconds
        while not shown.endswith(end) and time.monotonic() < stop:
            if select.select([self.screen], [], [], 0.2)[0]:
                shown += re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\x07", "", os.read(self.screen, 4096).decode(errors="replace"))
        return shown

    def complete(self, line: str, expected: str) -> str:
        """The line after the tab key."""
        os.write(self.screen, f"{line}\t".encode())
        shown = self.read(expected, 30.0)
        os.write(self.screen, b"\x15")  # Ctrl-U clears the line
        time.sleep(0.1)
        while select.select([self.screen], [], [], 0.2)[0]:
            os.read(self.screen, 4096)
        return shown

    def close(self) -> None:
        os.write(self.screen, b"exit\n")
        os.close(self.screen)
        os.waitpid(self.process, 0)


def home(folder: Path) -> dict[str, str]:
    """The environment of a user with this home folder and a `toile`."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "toile"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m toile "$@"\n')
    command.chmod(0o755)
    (folder / "runs" / "drape").mkdir(parents=True)
    (folder / "runs" / "drape" / "cache.pc2").touch()
    kept = {key: value for key, value in os.environ.items() if key not in ("ZDOTDIR", "XDG_CONFIG_HOME")}
    return kept | {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def install(shell: str, environment: dict[str, str]) -> Path:
    """The path of the installed script."""
    environment = environment | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # the shell is given explicitly
    command = ("toile", "--install-completion", shell)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return Path(re.search(rf"{shell} completion installed in (.*)", done.stdout)[1])  # type: ignore[index]


@NEEDS_UNIX
@pytest.mark.parametrize("name", ["bash", pytest.param("zsh", marks=pytest.mark.slow)])
def test_completion_in_a_real_shell(tmp_path: Path, name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    shell = Shell(name, tmp_path)
    try:
        for line, expected in [
            ("toile expl", "toile explain "),
            ("toile run hang --set tim", "toile run hang --set time."),
            ("toile run hang --set time.max_s", "toile run hang --set time.max_step="),
            ("toile run hang --set preset=pro", "toile run hang --set preset=pro95 "),
            ("toile render ru", "toile render runs/"),
            ("toile render runs/d", "toile render runs/drape "),
        ]:
            assert shell.complete(line, expected).endswith(expected), line
    finally:
        shell.close()


@NEEDS_UNIX
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_completion_in_a_real_fish(tmp_path: Path) -> None:
    environment = home(tmp_path)
    install("fish", environment)
    questions = {"toile run hang --set preset=pro": "preset=pro95", "toile render runs/": "runs/drape\ta run"}
    for line, expected in questions.items():
        command = ("fish", "-c", f"complete -C '{line}'")
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == expected


@NEEDS_UNIX
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_installed(tmp_path: Path, shell: str) -> None:
    path = install(shell, home(tmp_path))
    assert "_TOILE_COMPLETE" in path.read_text()
    assert tmp_path in path.parents
