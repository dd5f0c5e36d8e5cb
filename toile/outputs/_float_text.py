"""Fast formatting of many float32 numbers: nine significant digits each, which read back as the same float32.

    -1.23456789e-01      sign or blank, digit, point, eight digits, exponent: always 15 characters

The digits of |x| are those of the integer |x| 10^(8 - e), taken from a table three at a time; e is the decimal
exponent.

Source      nine digits distinguish all float32 numbers: D. Goldberg, "What every computer scientist should know about
            floating-point arithmetic", 1991, theorem 15
Deviations  |x| 10^(8 - e) is rounded in double precision, and its last digit may not be that of the nearest decimal;
            that is less than a tenth of the distance to the next float32.
"""

from __future__ import annotations

import numpy as np

WIDTH = 15  # characters of one number
LOWEST, HIGHEST = -45, 38  # decimal exponents of float32
_TRIPLES = np.array([list(f"{n:03d}".encode()) for n in range(1000)], np.uint8)
_EXPONENTS = np.array([list(f"e{n:+03d}".encode()) for n in range(LOWEST, HIGHEST + 1)], np.uint8)


def number_lines(keyword: str, rows: np.ndarray) -> bytes:
    """Returns one line per row: the keyword, then the numbers of the row, which must be finite."""
    values = np.asarray(rows, np.float32)
    count, columns = values.shape
    start = f"{keyword} ".encode()
    text = np.full((count, len(start) + columns * (WIDTH + 1)), ord(" "), np.uint8)
    text[:, : len(start)] = list(start)
    numbers = text[:, len(start) :].reshape(count, columns, WIDTH + 1)
    _write(values.astype(np.float64), numbers)
    text[:, len(start) :] = numbers.reshape(count, -1)
    text[:, -1] = ord("\n")
    return text.tobytes()


def _write(x: np.ndarray, text_out: np.ndarray) -> None:
    size = np.abs(x)
    exponent = np.floor(np.log10(np.where(size > 0.0, size, 1.0))).astype(np.int64)
    whole = np.rint(size * 10.0 ** (8 - exponent)).astype(np.int64)
    # Rounding may reach the next power of ten.
    over = whole >= 10**9
    whole[over] //= 10
    exponent[over] += 1
    text_out[..., 0] = np.where(np.signbit(x), ord("-"), ord(" "))
    high, middle, low = (_TRIPLES[whole // 10**6], _TRIPLES[whole // 10**3 % 1000], _TRIPLES[whole % 1000])
    text_out[..., 1], text_out[..., 2] = high[..., 0], ord(".")
    text_out[..., 3:5], text_out[..., 5:8], text_out[..., 8:11] = high[..., 1:], middle, low
    text_out[..., 11:15] = _EXPONENTS[exponent - LOWEST]
