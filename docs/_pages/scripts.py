"""The pages of examples/: a `# %%` cell becomes a block of code, a `# %% [markdown]` cell becomes text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pieces import code

EXAMPLES = Path(__file__).parents[2] / "examples"

# The order of the examples; those that are not named here come last.
ORDER = ("first_run", "own_scene", "sweep", "forces_in_pins", "fabrics", "drape_coefficient", "export_and_render")

INTRODUCTION = """# Examples

These short scripts in `examples/` run as they are, or cell by cell (`# %%`) in VS Code, Spyder, or Jupyter with
Jupytext. The tests run all of them. With `TOILE_EXAMPLE_SIZE=small` in the environment, each takes a second or two.
"""


def pages() -> list[tuple[tuple[str, ...], str, str]]:
    """Returns (titles in the navigation, address, text) of the overview and of every example."""
    places = {name: place for place, name in enumerate(ORDER)}
    scripts = sorted(EXAMPLES.glob("*.py"), key=lambda script: (places.get(script.stem, len(ORDER)), script.stem))
    made = [((_title(script),), f"examples/{script.stem}.md", _page(script)) for script in scripts]
    return [(("Examples",), "examples/index.md", _overview(scripts)), *made]


def cells(text: str) -> list[tuple[str, str]]:
    """Returns ("markdown" or "code", content) of every cell."""
    found = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        kind, _, content = part.partition("\n")
        if kind.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in content.strip().splitlines()]
            found.append(("markdown", "\n".join(lines)))
        elif content.strip():
            found.append(("code", content.strip()))
    return found


def _docstring(script: Path) -> list[str]:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").splitlines()


def _title(script: Path) -> str:
    return _docstring(script)[0].rstrip(".")


def _page(script: Path) -> str:
    parts = [f"# {_title(script)}\n", "\n".join(_docstring(script)[1:]).strip() + "\n"]
    for kind, content in cells(script.read_text(encoding="utf-8")):
        parts.append(content + "\n" if kind == "markdown" else code(content, "python"))
    parts.append(f"Run it with `python examples/{script.name}`, or cell by cell in an editor that supports `# %%`.\n")
    return "\n".join(parts)


def _overview(scripts: list[Path]) -> str:
    lines = [f"* [{_title(script)}]({script.stem}.md)" for script in scripts]
    return "\n".join([INTRODUCTION, *lines, ""])
