"""Small pieces of Markdown that the generated pages have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty when it has no rows."""
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines]) + "\n"


def code(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def type_name(text: str) -> str:
    """Code inside a line; nothing for nothing."""
    return f"`{text}`" if text else ""


def escaped(text: str) -> str:
    """Plain text in which Markdown and HTML find nothing to interpret."""
    for sign in ("&", "<", ">"):
        text = text.replace(sign, {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[sign])
    for sign in ("*", "_", "`"):
        text = text.replace(sign, "\\" + sign)
    return text


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
