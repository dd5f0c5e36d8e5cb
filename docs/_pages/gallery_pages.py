"""The pages of the gallery, from the measurements that gallery.py stores: one for each scene, and an index.

They are in docs/gallery beside the pictures and films, and are readable in the repository as well as on the site: where
`<video>` is not allowed, the picture inside it links to the film.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pieces import code, escaped, table

ROOT = Path(__file__).parents[2]
GALLERY, SCENES = ROOT / "docs" / "gallery", ROOT / "toile" / "scenes"

INTRODUCTION = """# Gallery

The gallery shows every shipped scene, run without changes. Each picture links to a page with the film, the measurements
and the scene file. `make gallery` runs the scenes that have changed. Times are processor times of one core, without
rendering.
"""

COLUMNS = 3

VALUES = (
    ("steps", "steps"),
    ("rejected", "steps discarded"),
    ("max_strain", "largest strain [-]"),
    ("intersections", "intersecting pairs of triangles, maximum over the frames"),
    ("intersections_start", "the same at the start"),
    ("solid_depth", "largest depth inside a solid [m]"),
)


def navigation() -> list[Any]:
    return ["gallery/index.md", *({name: f"gallery/{name}.md"} for name in shown())]


def shown() -> list[str]:
    """Returns the scenes in the gallery."""
    return sorted(path.stem for path in GALLERY.glob("*.json"))


def write() -> None:
    """Writes all pages, and deletes those of scenes that no longer exist."""
    texts = {"index": index(), **{name: page(name) for name in shown()}}
    for path in GALLERY.glob("*.md"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        (GALLERY / f"{name}.md").write_text(text, encoding="utf-8")


def index() -> str:
    """Returns a table with three scenes in a row, which every Markdown viewer shows."""
    cells = [
        f'[<img src="{name}.webp" alt="{name}" width="300">]({name}.md)<br>'
        f"[**{escaped(name)}**]({name}.md)<br>{escaped(_first_sentence(_scene(name)['about']))}"
        for name in shown()
    ]
    cells += [""] * (-len(cells) % COLUMNS)
    rows = [cells[i : i + COLUMNS] for i in range(0, len(cells), COLUMNS)]
    return "\n".join([INTRODUCTION, table([""] * COLUMNS, rows)])


def page(name: str) -> str:
    results = json.loads((GALLERY / f"{name}.json").read_text(encoding="utf-8"))
    text = (SCENES / f"{name}.yaml").read_text(encoding="utf-8")
    summary = results["summary"]
    size = [
        ("cloth", f"{results['vertices']:,} vertices, {results['triangles']:,} triangles"),
        ("frames", f"{summary['frames']}, {results['seconds']:g} s"),
    ]
    size.append(("processor time per frame, median [ms]", _number(results["ms_per_frame"])))
    if not _scene(name).get("solids"):
        del summary["solid_depth"]
    rows = [*size, *((label, _number(summary[key])) for key, label in VALUES if summary.get(key) is not None)]
    expected = [
        (f"`{entry['key']}`", entry["bound"], _number(entry["value"]), "ok" if entry["ok"] else "**failed**")
        for entry in results["expect"]
    ]
    return "\n".join(
        [
            f"# {name}\n",
            f"{text.splitlines()[0].lstrip('# ')}\n",
            f"{escaped(_scene(name)['about'])}\n",
            f'<video controls loop muted playsinline poster="{name}.webp" src="{name}.mp4">'
            f'<a href="{name}.mp4"><img src="{name}.webp" alt="{name}: the film" width="640"></a></video>\n',
            code(f"toile run {name}"),
            "## Measurements\n",
            table(("quantity", "value"), rows),
            "The `expect` block of the scene:\n",
            table(("key", "expected", "measured", "result"), expected),
            "## The scene\n",
            code(text, "yaml"),
        ]
    )


def _scene(name: str) -> dict[str, Any]:
    return yaml.safe_load((SCENES / f"{name}.yaml").read_text(encoding="utf-8"))


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".") + "."


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else f"{value:.3g}"
