"""How time advances: one scheme, one file."""
