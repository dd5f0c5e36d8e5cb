"""Slow, plain NumPy versions of what Toile computes in kernels: the oracles of the tests.

They are written from the papers, element by element and densely, without any numerics of Toile.
"""
