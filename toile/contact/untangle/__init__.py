"""Cloth that starts intersecting is moved apart."""
