"""Adds generated pages to the site: reference, formulas, examples, benchmarks, contributing and changelog.

mkdocs calls these functions during the build (`hooks` in mkdocs.yml). The pages exist in memory only, so none of them
can be out of date. Links from hand-written pages to files outside docs/ are redirected to the pages that show these
files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import formulas
import gallery_pages
import interface
import reference
import scripts

ROOT = Path(__file__).parents[2]
PLACEHOLDER = "generated"

# Link targets outside docs/, and the page of the site that shows each.
OUTSIDE = {"../benchmarks/README.md": "benchmarks.md", "../CHANGELOG.md": "changelog.md", "docs/": ""}

_pages: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Generates the pages, and their parts of the navigation."""
    _pages.clear()
    _pages["formulas.md"] = formulas.page()
    _pages["changelog.md"] = _read("CHANGELOG.md")
    _pages["contributing.md"] = _contributing()
    _pages["benchmarks.md"] = _read("benchmarks/README.md").replace("../docs/", "")
    sections = {"Gallery": gallery_pages.navigation(), "Examples": [], "Reference": []}
    for name, made in (("Examples", scripts.pages()), ("Reference", reference.pages())):
        sections[name] = _navigation(made)
        _pages.update({uri: text for _, uri, text in made})
    _pages["reference/python.md"] = interface.page()
    sections["Reference"] += [{"Command line": "cli.md"}, {"Python": "reference/python.md"}]
    config.nav = [
        {title: sections[title] if inside == PLACEHOLDER else inside}
        for entry in config.nav
        for title, inside in entry.items()
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for uri, text in _pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    for target, uri in OUTSIDE.items():
        markdown = markdown.replace(f"]({target}", f"]({uri}")
    return markdown


def _navigation(made: list[tuple[tuple[str, ...], str, str]]) -> list[Any]:
    """Nests entries by their titles: ("Energies", "stretch") becomes stretch inside Energies."""
    entries: list[Any] = []
    for titles, uri, _ in made:
        place = entries
        for title in titles[:-1]:
            if not place or list(place[-1]) != [title]:
                place.append({title: []})
            place = place[-1][title]
        place.append({titles[-1]: uri})
    return entries


def _contributing() -> str:
    """CONTRIBUTING.md with links to pages; files that have no page are named only."""
    text = _read("CONTRIBUTING.md")
    for file, uri in {"benchmarks/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md"}.items():
        text = text.replace(f"]({file})", f"]({uri})")
    return re.sub(r"\[([^]]+)\]\((?:LICENSE|CITATION\.cff)\)", r"\1", text)


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
