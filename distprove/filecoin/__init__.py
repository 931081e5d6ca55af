"""Filecoin's statements: a sector's vanilla proofs in, the proof bytes that the network reads out."""
