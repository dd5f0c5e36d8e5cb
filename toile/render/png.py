"""PNG files, written without a library: 8-bit RGB, one compressed block."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def png_bytes(image: np.ndarray) -> bytes:
    """Returns a (height, width, 3) uint8 image as the bytes of a .png file."""
    height, width, _ = image.shape
    # The type of its filter precedes each row; type 1 stores differences to the left pixel, which compress well.
    left = np.zeros_like(image)
    left[:, 1:] = image[:, :-1]
    rows = np.full((height, 1 + 3 * width), 1, np.uint8)
    rows[:, 1:] = (image - left).reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"sRGB", b"\0")
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
