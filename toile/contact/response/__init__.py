"""Contact springs in the linear system, contact impulses with friction, and truncated paths as the fail-safe."""
