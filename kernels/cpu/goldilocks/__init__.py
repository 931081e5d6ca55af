"""The Goldilocks kernels on the CPU, a file a family."""
