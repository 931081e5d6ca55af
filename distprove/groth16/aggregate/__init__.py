"""Aggregation of Groth16 proofs under one key into one proof of logarithmic size.

Gailly, Maller, Nitulescu: SnarkPack: Practical SNARK Aggregation (eprint 2021/529), in the second version of its
transcript, as bellperson has it. docs/aggregation.md says what it states, why that holds, and how the bytes lie.
"""
