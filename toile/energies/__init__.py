"""Forces on the cloth: conditions with their stiffness and damping, and external forces; one file each."""
