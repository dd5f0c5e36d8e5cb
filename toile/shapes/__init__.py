"""Sources of cloth meshes, generated or read from files; one file each."""
