"""What computes: one `Backend` interface, two backends (CUDA, CPU), and the C++ headers both are made of."""
