"""What a run leaves behind: one format, one file."""
