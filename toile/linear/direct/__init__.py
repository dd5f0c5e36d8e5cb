"""Sparse factorizations and elimination orders."""
