"""What is done with a file by those that read it: everything in it is looked at."""

from __future__ import annotations

from contextlib import suppress

from distprove.groth16.elements import as_words
from distprove.groth16.inputs import flatten, read_input, signals
from distprove.groth16.ptau import Powers, read_ptau
from distprove.groth16.ptau_contributions import read_contributions
from distprove.groth16.zkey import read_zkey
from kernels.maths.curves import BN254, Group


def use_zkey(data: bytes) -> None:
    key = read_zkey(data)
    key.matrices()
    assert as_words(key.points.ic).shape == (key.n_public + 1, key.curve.point_limbs(Group.G1))


def use_ptau(data: bytes) -> None:
    ptau = read_ptau(data)
    for which in Powers:
        for log_n in range(ptau.power + 1):
            ptau.lagrange(which, log_n)
    contributions = read_contributions(ptau)
    assert len(ptau.contributions()) == len(contributions)
    for one in contributions:
        with suppress(ValueError):  # a state of a hash that is none
            one.response(ptau.curve)


def use_input(data: bytes) -> None:
    for signal, values, _ in signals(read_input(data)):
        assert sum(map(len, flatten(signal, values, BN254.fr))) == len(values) * BN254.fr.bytes
