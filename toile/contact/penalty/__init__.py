"""Damped springs between cloths, an alternative to impulses."""
