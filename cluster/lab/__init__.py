"""Measurements and models of whole jobs. Nothing else in `cluster` imports it."""
