"""Names that a file system or a USD stage accepts, made from names that users gave."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A path component may have 255 bytes; this leaves space for a frame number, a suffix and the temporary name.
MAX_BYTES = 200


def file_name(name: str) -> str:
    """Returns a file name without separators, spaces, control characters or a leading dot, and not too long."""
    safe = re.sub(r"[^\w.\-]+", "_", name).lstrip(".")
    return safe.encode()[:MAX_BYTES].decode(errors="ignore") or "run"


def identifiers(names: Iterable[str]) -> list[str]:
    """Returns one identifier of letters, digits and underscores per name, all different."""
    unique: list[str] = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_]", "_", name)[:MAX_BYTES]
        base = base if re.match(r"[A-Za-z_]", base) else f"_{base}"
        candidate, copy = base, 2
        while candidate in unique:
            candidate, copy = f"{base}_{copy}", copy + 1
        unique.append(candidate)
    return unique
