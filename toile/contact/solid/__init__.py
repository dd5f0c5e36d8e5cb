"""SolidContactArrays between cloth vertices and solids, as constraints."""
