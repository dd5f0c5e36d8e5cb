"""Where a cloth comes from: generated or read; one file each."""
