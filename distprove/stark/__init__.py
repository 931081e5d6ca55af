"""A STARK over Goldilocks: AIRs in Python, LogUp buses, Keccak-256 Merkle trees, DEEP, FRI."""
