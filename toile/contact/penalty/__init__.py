"""Damped penalty springs between cloths, an alternative to impulses."""
