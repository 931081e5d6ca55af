"""An aggregate that bellperson made: our verifier accepts it, and our prover makes the same bytes of the same proofs.

data/bellperson.json says how it was made.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError
from distprove.groth16.aggregate.encoding import decode_point
from distprove.groth16.aggregate.proof import Aggregate
from distprove.groth16.aggregate.prover import aggregate
from distprove.groth16.aggregate.srs import Srs, VerifierSrs
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import HostArray
from kernels.maths.curves import BLS12_381 as CURVE
from kernels.maths.curves import Group
from kernels.maths.encoding import generator, scalars_from_ints

G1, G2 = Group.G1, Group.G2


def point(group: Group, encoded: str) -> Words:
    return decode_point(CURVE, group, bytes.fromhex(encoded), "bellperson.json")


@dataclass(frozen=True)
class Known:
    key: VerificationKey
    verifier: VerifierSrs
    included: bytes
    public: list[list[int]]
    aggregate: bytes
    record: dict[str, Any]
    threads: int = 1

    def holds(self, data: bytes, public: list[list[int]] | None = None, included: bytes | None = None) -> bool:
        try:
            read = Aggregate.from_bytes(CURVE, data, threads=self.threads)
        except FormatError:
            return False
        stated = public or self.public, included or self.included
        return verify(self.key, self.verifier, *stated, read, threads=self.threads)


@pytest.fixture(scope="module")
def known() -> Known:
    record = json.loads((Path(__file__).parent / "data" / "bellperson.json").read_text())
    key, srs = record["key"], record["srs"]
    return Known(
        VerificationKey(
            CURVE,
            point(G1, key["alpha1"]),
            *(point(G2, key[name]) for name in ("beta2", "gamma2", "delta2")),
            np.stack([point(G1, one) for one in key["ic"]]),
        ),
        VerifierSrs(CURVE, **{n: point(G1 if n[-1] == "1" else G2, p) for n, p in srs.items()}, insecure=True),
        bytes.fromhex(record["included"]),
        [[int(value, 16) for value in values] for values in record["public"]],
        bytes.fromhex(record["aggregate"]),
        record,
    )


several = pytest.mark.parametrize("threads", [1, 2, 3])


@several
def test_it_is_accepted(known: Known, threads: int) -> None:
    assert replace(known, threads=threads).holds(known.aggregate)
    assert Aggregate.from_bytes(CURVE, known.aggregate).for_bellperson() == known.aggregate


@several
def test_what_was_changed_is_refused(known: Known, threads: int) -> None:
    known = replace(known, threads=threads)
    assert not known.holds(known.aggregate, included=bytes(32))
    for i in range(len(known.public)):
        other = [list(values) for values in known.public]
        other[i][1] += 1
        assert not known.holds(known.aggregate, public=other)
    assert not known.holds(known.aggregate, public=[known.public[1], known.public[0], *known.public[2:]])
    rng = random.Random(7)
    for _ in range(60):
        changed = bytearray(known.aggregate)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        assert not known.holds(bytes(changed))


def test_our_prover_makes_the_same_bytes(known: Known) -> None:
    n, r = len(known.public), CURVE.fr.modulus
    alpha, beta = (int(value, 16) for value in known.record["secrets"])
    proofs = [Groth16Proof(CURVE, point(G1, a), point(G2, b), point(G1, c)) for a, b, c in known.record["proofs"]]
    with CpuBackend(threads=2) as cpu:

        def powers(group: Group, secret: int, count: int) -> HostArray:
            scalars = scalars_from_ints(CURVE.fr, [pow(secret, i, r) for i in range(count)])
            return cpu.to_host(cpu.groups.fixed_base(CURVE, group, generator(CURVE, group), scalars))

        g1 = powers(G1, alpha, 2 * n), powers(G1, beta, 2 * n)
        srs = Srs(CURVE, n, True, g1, (powers(G2, alpha, n), powers(G2, beta, n)))
        assert srs.verifier.digest == known.verifier.digest
        assert aggregate(srs, proofs, known.included, cpu).to_bytes() == known.aggregate
