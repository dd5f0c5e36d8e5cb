"""Results of a run in files, one format per module."""
