"""Benchmarks: times of scenes (scenes.py), of a suite at several sizes (suite.py), and of kernels (profile.py)."""

from toile.bench.scenes import GROWTH_FRAMES, STAGES, growth, measure

__all__ = ["GROWTH_FRAMES", "STAGES", "growth", "measure"]
