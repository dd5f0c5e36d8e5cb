"""The documentation as a site: it builds without a warning, no link is dead, and nothing is loaded from other hosts."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from toile.families import FAMILIES
from toile.plugins import find, names
from toile.scene.load import load, scene_names
from toile.scene.schema import Scene

ROOT = Path(__file__).parents[2]
LOADED = {"script", "img", "video", "source", "iframe", "audio", "embed"}  # by their src
LOADING_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}


@dataclass
class Page(HTMLParser):
    """The anchors of one page, its links, and the files that a browser loads with it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and set(given.get("rel", "").split()) & LOADING_LINKS:
            self.loaded.append(given.get("href", ""))
        for name in ("poster", "data-src"):
            if name in given:
                self.loaded.append(given[name])
        self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loaded += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style", ""))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path.resolve()


def test_the_site_has_no_dead_links_and_loads_nothing_from_other_hosts(site: Path) -> None:
    """One test, because building takes most of its time."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    assert len(pages) > 100
    assert not (dead := list(dead_links(site, pages))), "\n".join(dead[:20])
    assert not (outside := list(loaded_from_outside(site, pages))), "\n".join(outside[:20])

    # every type and every field has its anchor
    for family in FAMILIES:
        for name in names(family):
            page = pages[site / "reference" / family / f"{name}.html"]
            assert set(find(family, name).model_fields) <= page.ids, name
    assert set(Scene.model_fields) <= pages[site / "reference" / "scene.html"].ids
    for script in (ROOT / "examples").glob("*.py"):
        assert site / "examples" / f"{script.stem}.html" in pages

    # search finds fields and pages
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["location"]: entry["title"] for entry in index["docs"]}
    assert titles["reference/time.html#max_step"] == "max_step"
    assert titles["start.html"] == "Five minutes"


def dead_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yields links, pictures and scripts without a target, and anchors that a page does not have."""
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # it is shown at any address, so its links begin at the root of the server
        for link in (*page.links, *page.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_relative_to(site) or not target.exists():
                yield f"{path.relative_to(site)}: {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.relative_to(site)}: {link}: no such place"


def loaded_from_outside(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yields addresses on other hosts that a browser would request for a page."""
    for path, page in pages.items():
        for address in page.loaded:
            if urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data"):
                yield f"{path.relative_to(site)}: {address}"
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        for address in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", text):
            yield f"{path.relative_to(site)}: {address}"


def test_every_field_has_a_description() -> None:
    for family in FAMILIES:
        for name in names(family):
            for key, info in find(family, name).model_fields.items():
                assert info.description, f"{family}.{name}.{key}"


def test_every_shipped_scene_is_in_the_gallery() -> None:
    gallery = ROOT / "docs" / "gallery"
    missing = [
        f"{name}{suffix}"
        for name in scene_names()
        for suffix in (".md", ".json", ".webp", ".mp4")
        if not (gallery / f"{name}{suffix}").exists()
    ]
    assert not missing, f"make gallery makes {', '.join(missing)}"
    assert sum(path.stat().st_size for path in gallery.iterdir()) < 15e6
    assert {path.stem for path in gallery.glob("*.json")} == set(scene_names())


@pytest.fixture
def pages_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that make pages can be imported by their names."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_pages"))


@pytest.mark.usefixtures("pages_folder")
def test_pages_of_the_gallery_are_what_their_generator_makes() -> None:
    """From the measurements and scene files as they are now; `make gallery` writes them again."""
    gallery_pages = importlib.import_module("gallery_pages")
    made = {"index": gallery_pages.index(), **{name: gallery_pages.page(name) for name in gallery_pages.shown()}}
    assert {path.stem for path in gallery_pages.GALLERY.glob("*.md")} == set(made)
    for name, text in made.items():
        assert (gallery_pages.GALLERY / f"{name}.md").read_text(encoding="utf-8") == text, name


@pytest.mark.usefixtures("pages_folder")
def test_a_changed_scene_has_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint depends on the file and on the defaults, and on nothing else."""
    gallery = importlib.import_module("gallery")
    before = gallery.fingerprint("hang")
    assert before == gallery.fingerprint("hang") != gallery.fingerprint("drape")
    (tmp_path / "hang.yaml").write_text((gallery.SCENES / "hang.yaml").read_text(encoding="utf-8") + "# changed\n")
    with monkeypatch.context() as changed:
        changed.setattr(gallery, "SCENES", tmp_path)
        assert gallery.fingerprint("hang") != before
    with monkeypatch.context() as changed:
        changed.setattr(gallery, "load", lambda name: load(name, overrides=["seed=1"]))
        assert gallery.fingerprint("hang") != before
