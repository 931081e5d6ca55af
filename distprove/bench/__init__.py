"""Benchmarks of the backends through their own interface. Results are checked, and times are compared with ceilings."""
