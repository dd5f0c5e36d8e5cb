"""Data of cloth and solids: meshes and constants that do not change in a run, the state, and host copies of it."""
