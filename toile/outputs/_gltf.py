"""A glTF document under construction: its lists, and the bytes that they describe.

Source      glTF 2.0 specification (Khronos), secs. 3.6 (buffers, accessors), 3.7 (meshes), 3.11 (animations), 4.4 (GLB)
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

FLOAT, UINT = 5126, 5125  # component types
VERTICES, INDICES = 34962, 34963  # targets of buffer views
JSON_CHUNK, BINARY_CHUNK = 0x4E4F534A, 0x004E4942
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3"}

Json = dict[str, Any]


class Document:
    """Arrays are added first; `reserve` allocates space for data that is written after them."""

    def __init__(self, name: str):
        self.name = name
        self.lists: dict[str, list[Json]] = {
            key: [] for key in ("nodes", "meshes", "materials", "animations", "accessors", "bufferViews")
        }
        self.data: list[bytes] = []
        self.length = 0  # of all bytes, including the reserved ones

    def add(self, key: str, entry: Json) -> int:
        """Adds an entry to a list and returns its number."""
        self.lists[key].append(entry)
        return len(self.lists[key]) - 1

    def add_array(self, array: np.ndarray, target: int | None = None, box: bool = False) -> int:
        """Adds an array and returns the number of its accessor, with the bounds of its values if `box` is set."""
        array = array.reshape(len(array), -1)
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        self.data.append(data)
        entry: Json = {
            "bufferView": self.reserve(len(data), target),
            "componentType": UINT if array.dtype == np.uint32 else FLOAT,
            "count": len(array),
            "type": TYPES[array.shape[1]],
        }
        return self.add("accessors", entry | (bounds(array) if box else {}))

    def reserve(self, size: int, target: int | None = None, **more: int) -> int:
        """Adds a view of the bytes that come next and returns its number."""
        view = {"buffer": 0, "byteOffset": self.length, "byteLength": size, **more}
        self.length += size
        return self.add("bufferViews", view | ({} if target is None else {"target": target}))

    def head(self) -> bytes:
        """The part of a GLB before the bytes of its arrays."""
        # glTF does not allow empty lists.
        scene = {"name": self.name} | ({"nodes": list(range(len(self.lists["nodes"])))} if self.lists["nodes"] else {})
        whole: Json = {"asset": {"version": "2.0", "generator": "toile"}, "scene": 0, "scenes": [scene]}
        whole |= {key: entries for key, entries in self.lists.items() if entries}
        whole |= {"buffers": [{"byteLength": self.length}]} if self.length else {}
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        binary = struct.pack("<II", self.length, BINARY_CHUNK) if self.length else b""
        total = 12 + 8 + len(text) + len(binary) + self.length
        if total >= 2**32:
            raise OverflowError(total)
        return struct.pack("<4sIIII", b"glTF", 2, total, len(text), JSON_CHUNK) + text + binary


def bounds(array: np.ndarray) -> Json:
    return {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
