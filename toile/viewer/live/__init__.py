"""The live page, on which a scene runs while the user watches it, drags the cloth and changes parameters."""
