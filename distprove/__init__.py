"""distprove: a Ray-distributed multi-GPU partition prover."""
