"""The multilinear engine: LogUp-GKR, a batched zerocheck, stacked columns, WHIR. docs/multilinear-protocol.md."""
