"""Contact impulses with friction, persistent contacts in the linear system, and impact zones as the fail-safe."""
