"""The backend on the CPU; its C++ is in `src`."""
