"""The live page: a scene that runs while someone watches, drags and changes it."""
