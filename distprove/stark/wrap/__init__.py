"""Groth16 proofs of jobs that end in one proof, for contracts."""
