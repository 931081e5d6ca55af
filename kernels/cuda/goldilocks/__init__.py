"""The Goldilocks kernels on one NVIDIA GPU, a file a family."""
