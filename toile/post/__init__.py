"""What is done to frames before they are written: one file each."""
