"""Scenes: their models, how they are read from YAML and checked, presets and fabrics."""
