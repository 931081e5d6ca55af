"""Building blocks of a Groth16 circuit over BN254 that verifies a proof over Goldilocks under Poseidon2 over BN254."""
