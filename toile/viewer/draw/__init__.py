"""Drawing on a viser page, for the live page and playback: meshes, colors, plots, text."""
