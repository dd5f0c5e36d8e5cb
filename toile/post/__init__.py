"""Post-processes that change frames before they are written; one file each."""
