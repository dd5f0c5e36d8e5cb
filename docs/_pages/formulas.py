"""The page of files and formulas, made from the docstrings of toile/.

The docstring of a file has a title, most often a formula, and then Source, Symbols and Deviations.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pieces import code, code_span, escaped, table

PACKAGE = Path(__file__).parents[2] / "toile"
TAGS = ("BW98", "Pro95", "Ye08", "BMF03", "BFA02")
SECTIONS = ("Source", "Symbols", "Deviations")

INTRODUCTION = """# Files and formulas

Every file that implements a method begins with a docstring that states what it computes. This page collects these
docstrings, first by paper, then in full. [Papers](papers.md) maps each equation to a function, and reports how the
claims of the papers hold up. Paths are inside `toile/`.
"""


@dataclass(frozen=True)
class Opening:
    """The docstring of one file."""

    path: str
    text: str

    @property
    def title(self) -> str:
        return self.text.strip().splitlines()[0]

    def section(self, name: str) -> str:
        """Returns the text of one of SECTIONS as one line."""
        return " ".join(self._lines(name).split())

    def markdown(self) -> str:
        """Returns everything below the first line: formulas as code, the remainder as text."""
        lines = self.text.strip().splitlines()[1:]
        first = next((i for i, line in enumerate(lines) if line.startswith(SECTIONS)), len(lines))
        parts = [_block(list(block)) for _, block in groupby(lines[:first], key=lambda line: line.startswith("    "))]
        listed = [f"* **{name}:** {text}" for name in SECTIONS if (text := self._text(name))]
        return "\n".join([*parts, *listed]) + "\n"

    def _text(self, name: str) -> str:
        return _symbols(self._lines(name)) if name == "Symbols" else escaped(self.section(name))

    def _lines(self, name: str) -> str:
        found = re.search(rf"^{name} +(.*?)(?=^(?:{'|'.join(SECTIONS)})\b|\Z)", self.text, re.DOTALL | re.MULTILINE)
        return found[1] if found else ""

    def of_paper(self, tag: str) -> str:
        """Returns the parts of its Source that name a paper."""
        parts = re.split(r";\s+|(?<=\)),\s+|\.\s+(?=\[)", self.section("Source"))
        return "; ".join(part for part in parts if f"[{tag}]" in part)


def openings() -> Iterator[Opening]:
    """Yields the docstring of every file that names a source, by path."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""
        if re.search(r"^Source\s", text, re.MULTILINE):
            yield Opening(str(path.relative_to(PACKAGE)), text)


def page() -> str:
    found = list(openings())
    parts = [INTRODUCTION, "## By paper\n"]
    for tag in TAGS:
        rows = [
            (escaped(opening.of_paper(tag)), f"[`{opening.path}`](#{_anchor(opening.path)})", escaped(opening.title))
            for opening in found
            if opening.of_paper(tag)
        ]
        parts += [f"### [{tag}]\n", table(("source", "file", "what it computes"), sorted(rows, key=_order))]
    parts.append("## By file\n")
    for opening in found:
        head = f"### `{opening.path}` {{ #{_anchor(opening.path)} }}\n"
        parts += [head, escaped(opening.title) + "\n", opening.markdown()]
    return "\n".join(parts)


def _block(lines: list[str]) -> str:
    """Returns indented lines as formulas, and all others as text."""
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        return ""
    return code(textwrap.dedent(text)) if text.startswith("    ") else "\n" + escaped(text) + "\n"


def _symbols(text: str) -> str:
    """Lists symbols with their meanings: two spaces separate the two, more spaces or a new line separate entries."""
    entries: list[str] = []
    for piece in re.split(r"\s*\n\s*| {3,}", text.strip()):
        symbol, between, meaning = piece.partition("  ")
        if between:
            entries.append(f"{code_span(symbol.strip())} {escaped(meaning.strip())}")
        elif entries:
            entries[-1] += f" {escaped(piece)}"
        else:
            entries.append(escaped(piece))
    return "; ".join(entries)


def _order(row: Sequence[str]) -> tuple[list[int], str]:
    """Sorts by section, so that a table follows its paper."""
    numbers = re.search(r"(?:secs?\.|eqs?\.) \(?([\d.]+)", row[0])
    return [int(number) for number in numbers[1].strip(".").split(".")] if numbers else [], row[1]


def _anchor(path: str) -> str:
    return path.removesuffix(".py").replace("/", "-")
