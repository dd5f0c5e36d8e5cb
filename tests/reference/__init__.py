"""Slow, plain NumPy versions of what Toile computes in kernels: the oracles of the tests.

Written from the papers, element by element and densely, without a line of Toile's numerics.
"""
