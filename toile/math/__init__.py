"""Functions for kernels: types, dihedral angles, positive-definite blocks."""
