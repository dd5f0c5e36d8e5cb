"""Impulses with friction, persistent contacts, and the fail-safe."""
