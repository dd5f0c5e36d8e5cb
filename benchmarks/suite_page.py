"""Writes the results of `toile bench --suite` to their page: tables in docs/speed.md, and docs/images/speed.svg.

    python benchmarks/suite_page.py [FILE ...]

Without files, the latest of benchmarks/suite_*.json for each device, number of threads and precision are used. A file
may have a `note`, which says what its rows no longer hold for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite_plot import drawn

from toile.bench import tables
from toile.bench.machine import describe
from toile.bench.results import read
from toile.bench.suite import growths

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGE, PLOT = DOCS / "speed.md", DOCS / "images" / "speed.svg"
BEGIN, END = "<!-- what follows is made by benchmarks/suite_page.py -->\n", "<!-- until here -->\n"

Results = dict[str, Any]


def latest(paths: Sequence[Path]) -> list[Results]:
    """The latest results for each device, precision and number of threads; the CPU first."""
    found: dict[tuple, Results] = {}
    for results in sorted((read(path) for path in paths), key=lambda results: results["date"]):
        conditions = results["conditions"]
        found[conditions["device"], conditions["precision"], conditions.get("threads")] = results
    return [found[key] for key in sorted(found, key=str)]


def title(results: Results) -> str:
    """The title of a section, such as "2 cores of AMD EPYC, single precision"."""
    conditions = results["conditions"]
    name = describe(conditions["machine"])
    if conditions.get("threads", conditions["machine"]["cores"]) != conditions["machine"]["cores"]:
        name = f"{conditions['threads']} of {name}"
    return name if conditions["precision"] == "double" else f"{name}, {conditions['precision']} precision"


def section(results: Results) -> str:
    """The section of one machine."""
    conditions, rows = results["conditions"], results["rows"]
    versions = ", ".join(f"{name} {version}" for name, version in conditions["versions"].items())
    parts = [
        f"### {title(results)}",
        f"{results['date']}; {versions}.",
        *([results["note"]] if results.get("note") else []),
        "Milliseconds per frame:",
        _markdown(*tables.times(rows)),
        "Results of the simulations:",
        _markdown(*tables.outcomes(rows)),
    ]
    lists = (tables.notes(rows, conditions["machine"]["cores"]), tables.growths(growths(rows)))
    parts += ["\n".join(f"- {_marked(line)}" for line in lines) for lines in lists if lines]
    return "\n\n".join(parts) + "\n"


def page(text: str, all_results: Sequence[Results]) -> str:
    """Returns the page with these results in place of the present ones."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = "\n".join(section(results) for results in all_results)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def plot(all_results: Sequence[Results]) -> str:
    return drawn([(title(results), results["rows"]) for results in all_results])


def _marked(line: str) -> str:
    """Escapes a star at the beginning, which would start a list."""
    return line.replace("* ", "\\* ", 1) if line.startswith("*") else line


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    files = [Path(argument) for argument in sys.argv[1:]] or sorted(HERE.glob("suite_*.json"))
    found = latest(files)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    PLOT.write_text(plot(found), encoding="utf-8")
    print(PAGE, PLOT)


if __name__ == "__main__":
    main()
