"""Solving A dv = b with exact constraints: modified conjugate gradients and its preconditioners."""
