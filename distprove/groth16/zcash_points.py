"""Compressed points in the encoding of zcash's BLS12-381 library, which bellperson and Filecoin use.

A coordinate is big-endian, in G2 c1 before c0. The three highest bits of the first byte are flags: compressed,
infinity, and in compressed form whether y is the larger of its two possible values.
"""

from __future__ import annotations

from distprove.groth16.compressed_points import ZCASH

CURVE = ZCASH.curve
COMPRESSED, INFINITY = 0x80, 0x40
FLAGS = ZCASH.mask
compress, decompress = ZCASH.compress, ZCASH.decompress
