"""What the cloth is: meshes and constants that do not change in a run, the state that does, and host copies of it."""
