"""What acts on the cloth: conditions with their stiffness and damping, and outside forces; one file each."""
