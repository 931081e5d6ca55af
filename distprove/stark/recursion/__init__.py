"""Proofs that a verifier accepts: the multilinear verifier as a circuit, and the tables that prove such circuits."""
