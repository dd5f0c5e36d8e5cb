"""Chebyshev smoothing: the factors of its steps, and how it stays stable when contacts are left out.

    r -= A d,    d = keep d + add (D^-1 r),    x += d

Source      Adams, Brezina, Hu & Tuminaro 2003
Symbols     as in toile/linear/precondition_multigrid.py
Deviations  none
"""

import numpy as np

Step = tuple[float, float]  # keep, add

# Smoothing reduces the errors with eigenvalues above lambda / SMOOTHED. Those below are smooth on the next grid.
SMOOTHED = 20.0
# D^-1 A of elements with p points has no eigenvalue above p, because x A_e x <= p (sum of x_i A_e,ii x_i) for each of
# them. Hinges have 4. On coarser grids elements reach more nodes, but as smooth functions: the largest eigenvalue found
# in the plane was 2.9. The cloth passes through three-dimensional grids in all directions; there it was 5.5.
BOUND, BOUND_3D = 4.0, 8.0


def chebyshev(terms: int, high: float) -> list[Step]:
    """Returns the factors of each step, for eigenvalues up to `high`."""
    low = high / SMOOTHED
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    rho = half / middle
    found = [(0.0, 1.0 / middle)]
    for _ in range(terms - 1):
        next_rho = 1.0 / (2.0 * middle / half - rho)
        found.append((next_rho * rho, 2.0 * next_rho / half))
        rho = next_rho
    return found


def contact_share(steps: list[Step], bound: float) -> float:
    """Returns the factor of K in D where smoothing leaves out contacts. Smoothing multiplies by q(D^-1 A) D^-1, where A
    excludes the contacts C, and stays a contraction while q(l) (l + C/D) < 2 for every eigenvalue l. C is at most 4 K,
    as for elements with four points."""
    eigenvalues = np.linspace(0.0, bound, 2001)
    q, d, left = np.zeros(2001), np.zeros(2001), np.ones(2001)  # `left` is 1 - l q
    for keep, add in steps:
        d = keep * d + add * left
        q, left = q + d, left - eigenvalues * d
    return float(1.1 * np.max(4.0 * q / (1.0 + left)))
