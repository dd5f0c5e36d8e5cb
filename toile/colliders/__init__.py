"""Solids that cloth collides with; one file each."""
