"""Writes scoreboard.json to its page, docs/scoreboard.md.

    python benchmarks/scoreboard/page.py
"""  # fmt: skip

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from score import HERE, table

PAGE = HERE.parents[1] / "docs" / "scoreboard.md"
BEGIN, END = "<!-- what follows is made by benchmarks/scoreboard/page.py -->\n", "<!-- until here -->\n"

TITLES = {
    "hang_51": "hang: a sheet of 51 x 51 swings from two corners",
    "drape_51": "drape: a sheet of 51 x 51 falls on a stand, cloth on cloth",
    "layers_25": "layers: five sheets of 25 x 25 fall over a ball and on each other",
    "membrane_51": "membrane: hang without bending",
    "strip_11": "strip: a strip hangs from its end",
}


def verdict(solver: str, kinds: dict[str, Any]) -> list[str]:
    """The lines of a list that compare one solver with Toile."""
    if "none" in kinds:
        return [f"- {solver}: {kinds['none']}."]
    return [
        f"- {solver}, {kind}: `{best['settings']}`, {best['ms']:.1f} times the wall-clock time of Toile, "
        f"{best['cpu_ms']:.1f} times its processor time."
        for kind, best in kinds.items()
    ]


def section(board: dict[str, Any]) -> str:
    rows = [row for scene in board["scenes"].values() for row in scene.values()]
    machine, versions = rows[-1]["machine"], sorted({row["simulator"] for row in rows})
    dates = sorted({row["date"] for row in rows})
    parts = [
        f"{' and '.join(dates)}, one thread of {machine['cores']} cores of {machine['cpu']}, "
        f"Python {machine['python']}; {'; '.join(versions)}."
    ]
    for name in (name for name in TITLES if name in board["scenes"]):
        parts += [f"### {TITLES[name]}", table(board["scenes"][name])]
        text = [line for solver, kinds in board["compared"].get(name, {}).items() for line in verdict(solver, kinds)]
        parts += ["\n".join(text)] if text else []
    return "\n\n".join(parts) + "\n"


def page(text: str, board: dict[str, Any]) -> str:
    """Returns the page with these results in place of the present ones."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{section(board)}\n{END}{after}"


def main() -> None:
    board = json.loads((HERE / "scoreboard.json").read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), board), encoding="utf-8")
    print(Path(PAGE).name)


if __name__ == "__main__":
    main()
