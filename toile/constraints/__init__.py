"""Constraints on particles: one file each, holding some directions of some particles."""
