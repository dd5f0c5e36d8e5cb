"""Runs: simulating a scene into a folder, checkpoints, reading a finished run, comparing it with what was expected."""
