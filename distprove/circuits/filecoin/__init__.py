"""Filecoin's proof circuits over BLS12-381: the rows of storage-proofs 19.1.0, in an order of our own."""
