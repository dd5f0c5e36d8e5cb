"""How kernels are launched, shared by threads, recorded as CUDA graphs, and read back."""
