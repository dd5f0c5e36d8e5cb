"""Candidate pairs: elements whose boxes overlap at some instant of a step."""
