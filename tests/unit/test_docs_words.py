"""The documentation is correct: its scenes load, its scripts run, its commands and files exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import toile
from toile import step_limits
from toile.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(page: Path) -> list[str]:
    """The lines of code that begin with the command."""
    return re.findall(r"^ {4}(toile [a-z].*)$", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_can_be_read(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in blocks(page, "yaml"):
        assert yaml.safe_load(text)
        if "version: 1" in text:
            Path("shown.yaml").write_text(text, encoding="utf-8")
            assert toile.load("shown.yaml").cloth


@cache
def known_options(command: str) -> set[str]:
    """The options in `--help` of a command."""
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, f"no command {command}"
    return set(re.findall(r"--[a-z][a-z-]*", result.stdout))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    for line in commands(page):
        assert set(re.findall(r"(?<=\s)--[a-z][a-z-]*", line)) <= known_options(line.split()[1]), line


@pytest.mark.parametrize("name", ["start.md", "howto/certificate.md"])
def test_scripts_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in blocks(ROOT / "docs" / name, "python"):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})


def test_the_dataset_is_made(tmp_path: Path) -> None:
    """It runs as a program, because its workers are separate processes."""
    (text,) = blocks(ROOT / "docs" / "howto" / "dataset.md", "python")
    (tmp_path / "make_data.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "make_data.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if re.fullmatch(r"\d (True|False)", line)]
    assert sorted(lines) == [f"{number} True" for number in range(4)]
    assert all(list((tmp_path / "data" / f"{number:05d}").glob("*.npz")) for number in range(4))


def test_files_and_functions_in_the_papers_table_exist() -> None:
    """`file.py`: `function`, `Class.method` of docs/papers.md."""
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = [line.rsplit("|", 2)[1] for line in page.split("file: function")[1].split("\n\n")[0].splitlines()[2:]]
    assert len(rows) > 30
    for row in rows:
        for path, functions in re.findall(r"`([\w/]+\.py)`(?:: ((?:`[\w.]+`(?:, )?)+))?", row):
            found = [*(ROOT / "toile").rglob(Path(path).name)]
            file = next((f for f in found if str(f).endswith("/" + path)), None)
            assert file is not None, path
            for function in re.findall(r"`([\w.]+)`", functions):
                assert function.split(".")[-1] in _defined(file), f"{path}: {function}"


def _defined(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    values = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return functions | values


def test_every_file_with_a_paper_is_in_the_table() -> None:
    """A file whose Source is one of the four papers can be found from its equation."""
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").split("Paths are inside")[0]
    missing = []
    for file in sorted((ROOT / "toile").rglob("*.py")):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")), clean=False) or ""
        source = re.search(r"^Source +(\[(?:BW98|Pro95|Ye08|BMF03)\].*)$", text, re.MULTILINE)
        if source and file.name not in page:
            missing.append(f"{file.relative_to(ROOT)}: {source[1]}")
    assert not missing, "\n".join(missing)


def test_the_diagram_of_a_step_is_the_same_in_code_and_documentation() -> None:
    """docs/architecture.md shows the diagram of toile/step_limits.py, character by character."""
    text = step_limits.__doc__ or ""
    diagram = re.search(r"^ {4}StepLoop\.step.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    assert diagram is not None
    shown = [block for block in blocks(ROOT / "docs" / "architecture.md", "text") if block.startswith("StepLoop.step")]
    assert shown == [textwrap.dedent(diagram[0]) + "\n"]
