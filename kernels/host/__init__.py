"""Memory, files and compilers of the host, for all backends."""
