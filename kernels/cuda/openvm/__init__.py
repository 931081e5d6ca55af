"""The heavy steps of OpenVM 2's prover on a GPU."""
