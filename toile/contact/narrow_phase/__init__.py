"""Closest points, times of impact, and the contacts made of them."""
