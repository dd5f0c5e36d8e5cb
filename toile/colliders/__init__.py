"""Solids that cloth meets: one file each."""
