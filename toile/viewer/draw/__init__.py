"""Drawing on a viser page: meshes, colors, plots, text."""
