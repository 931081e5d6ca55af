"""Sweeps: one job under a grid of settings, measured, so that the best can be named. Start at `sweep.sweep`."""
