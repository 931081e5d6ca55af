"""A small R1CS builder in Python with vectorised witness generation."""
