"""The linear solver: A dv = b with exact constraints, by modified conjugate gradients and its preconditioners."""
