"""Groth16 over BN254 and BLS12-381, compatible with circom and snarkjs files."""
