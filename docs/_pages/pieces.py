"""Pieces of Markdown that the generated pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table, or an empty string if there are no rows."""
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines]) + "\n"


def code(text: str, language: str = "text") -> str:
    """Returns a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def code_span(text: str) -> str:
    """Returns code inside a line; an empty string stays empty."""
    return f"`{text}`" if text else ""


def escaped(text: str) -> str:
    """Escapes plain text, so that Markdown and HTML show it as it is."""
    for sign in ("&", "<", ">"):
        text = text.replace(sign, {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[sign])
    for sign in ("*", "_", "`"):
        text = text.replace(sign, "\\" + sign)
    return text


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
