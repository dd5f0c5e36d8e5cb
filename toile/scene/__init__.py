"""Scenes: the models that describe them, and reading them from YAML."""
