"""Proofs of gnark's circuits with commitments to wires (`api.Commit`, range checks).

A commitment D = sum_j w_j B_j is a Pedersen commitment to wires of the circuit, and part of the proof. Its hash, with
the public values that are committed to beside it, is the value of a further wire, which the circuit takes for a
challenge (Belling, Soleimanian, Begassat: Recursion over public-coin interactive proof systems, eprint 2022/1072; gnark
names it BSB22). One proof of knowledge says that all D are sums of their own B_j. Keys, proofs and hashes are those of
gnark 0.14.
"""
