"""The compute kernels: one `Backend` interface, a CUDA and a CPU backend, and the C++ headers that both share."""
