"""Words for the page's panel, which reads Markdown and HTML."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Text that is shown as it is: file names and messages must neither be laid out nor load anything."""
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text).replace("\n", "<br>")


def number(value: object) -> str:
    """A figure in few digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
