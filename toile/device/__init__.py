"""Kernel launches, threads of the CPU, CUDA graphs, append buffers, reductions and readbacks."""
