"""The backend on one NVIDIA GPU; its kernels are in `src`."""
