"""The simulation: built from a scene, stepped through time, with its certificate."""
