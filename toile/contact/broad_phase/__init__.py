"""Broad phase: pairs of elements whose boxes overlap at some instant of a step."""
