"""The multigrid hierarchy, its Galerkin products, smoothing and coarsest solve."""
