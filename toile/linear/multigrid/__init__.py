"""The multigrid preconditioner: hierarchy, Galerkin products, smoothing and coarsest solve."""
