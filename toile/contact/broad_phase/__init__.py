"""Broad phase: candidate pairs, elements whose boxes overlap at some instant of a step."""
