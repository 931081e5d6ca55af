"""Measurements: benchmarks of the backends, rates of whole jobs and services, simulators, and campaigns of faults.

Nothing else but the command line imports this package.
"""
