"""Runs: from a scene to a folder of results, its checkpoints, reading it back, and checking it."""
