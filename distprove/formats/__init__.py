"""Converts values to bytes, text and files, and back from files that nobody vouches for."""
