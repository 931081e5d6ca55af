"""Benchmarks of the backends through their own interface: results are checked, times stand beside their ceilings."""
