"""Vertex sequences from NPZ archives and PC2 caches: number types, and files that are refused with their reason."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sequences import FRAMES, POSITIONS, TRIANGLES, npz_bytes, pc2, write_pc2

from toile.errors import InputError
from toile.model.sequence_files import read_sequence

# NPZ


@pytest.mark.parametrize(
    ("given", "expected"),
    [("<f8", "f8"), (">f8", "f8"), ("<f4", "f4"), (">f4", "f4"), ("<f2", "f4"), ("<i4", "f8"), ("<u2", "f8")],
)
def test_npz_arrays_of_any_number_type(tmp_path: Path, given: str, expected: str) -> None:
    whole = np.arange(24).reshape(2, 4, 3)
    np.savez_compressed(tmp_path / "a.npz", positions=whole.astype(given))
    found = read_sequence(tmp_path, "a.npz")
    np.testing.assert_array_equal(found.positions, whole)
    assert found.positions.dtype == np.dtype(expected)
    assert found.fps is None and found.triangles is None


def npz_of(header: bytes, data: bytes = b"") -> bytes:
    """An archive whose single array has a given header."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("positions.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    return buffer.getvalue()


HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000, 3), }\n"
NPZ_ERRORS = {
    "garbage": (b"garbage", r"a\.npz: not a readable NumPy archive \(File is not a zip file\)\."),
    "cut off": (npz_bytes(positions=FRAMES)[:-300], r"a\.npz: not a readable NumPy archive \("),
    "damaged": (
        npz_bytes(positions=FRAMES).replace(FRAMES[2].tobytes(), FRAMES[3].tobytes()),
        r"a\.npz: not a readable NumPy archive \(Bad CRC-32",
    ),
    "no positions": (
        npz_bytes(verts=FRAMES, faces=TRIANGLES),
        r'a\.npz: has no array "positions" \(frames, vertices, 3\), but faces, verts\.',
    ),
    "nothing": (npz_bytes(), r'a\.npz: has no array "positions" \(frames, vertices, 3\), but nothing\.'),
    "one frame": (
        npz_bytes(positions=POSITIONS),
        r'a\.npz: "positions" is \(8, 3\) of float64; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "no frames": (
        npz_bytes(positions=FRAMES[:0]),
        r'a\.npz: "positions" is \(0, 8, 3\) of float64; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "text": (
        npz_bytes(positions=FRAMES.astype("U8")),
        r'a\.npz: "positions" is \(5, 8, 3\) of <U8; it must be \(frames, vertices, 3\) of numbers\.',
    ),
    "objects": (
        npz_bytes(positions=np.array([[["a", 1, None]]], object)),
        r'a\.npz: "positions" has Python objects, which are never read. Save plain numbers\.',
    ),
    "announces too much": (npz_of(HUGE), r'a\.npz: "positions" declares 12000000000000 bytes and has 0\.'),
    "header": (npz_of(b"{'descr': __import__('os')}"), r"a\.npz: not a readable NumPy archive \("),
    "fps": (npz_bytes(positions=FRAMES, fps=0), r'a\.npz: "fps" must be one number > 0 \[1/s\]\.'),
    "two fps": (npz_bytes(positions=FRAMES, fps=[24, 25]), r'a\.npz: "fps" must be one number > 0 \[1/s\]\.'),
    "quads": (
        npz_bytes(positions=FRAMES, triangles=[[0, 1, 2, 3]]),
        r'a\.npz: "triangles" is \(1, 4\) of int64; it must be \(triangles, 3\) of integers\.',
    ),
    "range": (
        npz_bytes(positions=FRAMES, triangles=[[0, 1, 2], [0, 1, 8]]),
        r"a\.npz: triangle 1 refers to a vertex outside of 0 to 7\.",
    ),
}


@pytest.mark.parametrize(("content", "expected"), NPZ_ERRORS.values(), ids=NPZ_ERRORS.keys())
def test_npz_files_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match=f"^{expected}"):
        read_sequence(tmp_path, "a.npz")


def test_an_archive_larger_than_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", positions=np.zeros((100, 1000, 3)))
    monkeypatch.setattr("toile.model.mesh_files.available_memory", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"^reading a\.npz needs about 0\.0024 GB of memory, but only 0\.001 GB are"):
        read_sequence(tmp_path, "a.npz")


# PC2


def test_pc2_samples_of_several_frames_are_reported(tmp_path: Path) -> None:
    found = read_sequence(tmp_path, write_pc2(tmp_path, rate=2.0))
    assert found.warnings == ("its samples are 2 frames apart. Set fps to samples per second.",)


PC2_ERRORS = {
    "garbage": (b"garbage" * 20, "a.pc2: not a PC2 file: it does not begin with POINTCACHE2."),
    "header cut off": (pc2()[:20], "a.pc2: ends within its header of 32 bytes."),
    "version": (pc2(version=2), "a.pc2: PC2 version 2; only version 1 exists."),
    "no points": (pc2(points=0), "a.pc2: declares 5 frames of 0 vertices; both must be at least 1."),
    "negative": (pc2(samples=-5), "a.pc2: declares -5 frames of 8 vertices; both must be at least 1."),
    "cut off": (
        pc2(data=479),
        "a.pc2: 5 frames of 8 vertices are 512 bytes, but the file has 511: it was cut off. Write it again.",
    ),
    "billions announced": (
        pc2(points=2**31 - 1, samples=2**31 - 1),
        "a.pc2: 2147483647 frames of 2147483647 vertices are 55340232169589047340 bytes, but the file has 512: "
        "it was cut off. Write it again.",
    ),
    "too long": (
        pc2(data=481),
        "a.pc2: 5 frames of 8 vertices are 512 bytes, but the file has 513: "
        "it does not match its header. Write it again.",
    ),
}


@pytest.mark.parametrize(("content", "expected"), PC2_ERRORS.values(), ids=PC2_ERRORS.keys())
def test_pc2_files_that_cannot_be_used(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "a.pc2").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_sequence(tmp_path, "a.pc2")
    assert str(caught.value) == expected
