"""Text for the panel of a page, which interprets Markdown and HTML."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Escapes text: file names and messages must not be interpreted as markup or load anything."""
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text).replace("\n", "<br>")


def number(value: object) -> str:
    """Formats a value with few digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
