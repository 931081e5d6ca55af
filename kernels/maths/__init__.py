"""Fields, curves and encodings as data and in Python's integers."""
