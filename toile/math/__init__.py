"""Warp functions for kernels: number types, closest points, dihedral angles, air pressure."""
