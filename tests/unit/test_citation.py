"""CITATION.cff names the installed version, and has the fields that the Citation File Format 1.2.0 requires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import toile

ROOT = Path(__file__).parents[2]
NUMBERS = {"year", "volume", "issue", "start", "end"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_version_and_license(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == toile.__version__
    assert citation["license"] == "Apache-2.0"
    assert {"authors", "message", "title"} <= set(citation)


def test_references_are_the_papers_that_the_code_cites(citation: dict[str, Any]) -> None:
    references = citation["references"]
    assert {paper["abbreviation"] for paper in references} == {"BW98", "Pro95", "Ye08", "BMF03", "BFA02"}
    table = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    for paper in references:
        assert {"authors", "title", "type", "year"} <= set(paper)
        assert all(isinstance(paper[key], int) for key in NUMBERS & set(paper))
        assert all(author["family-names"] for author in paper["authors"])
        (row,) = [line for line in table.splitlines() if line.startswith(f"| [{paper['abbreviation']}] | ")][:1]
        assert paper["title"] in row and str(paper["year"]) in row
