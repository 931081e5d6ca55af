"""A forgery against a global bus, by a prover whose main roots do not fix its traces.

The program is a global lookup: every partition offers the numbers of a fixed table with multiplicities of its own
choice, and the statement looks up one public number, which is not in the table. So the false balance is

    1 / f(claimed) - sum over partitions i, rows r of used_i(r) / f(r) = 0,        f(t) = z + bus + beta t,

for a challenge (z, beta) that is drawn when every partition has committed to its column `used`. A cheat commits to a
word half-way between two columns instead: 0 on half of the points, 2^k d on the others, where the polynomial d of a
degree below n is zero on n - 1 points of the extension, so that the word is either column on (1 + rho) / 2 of them.
Three such d give sums over the table that are a basis of F over F_p, and 64 powers of two for each give every element
of F_p: once the challenge is known, 3 * 64 choices between two columns add up to whatever the balance asks for. What
each partition then needs is a nonce whose queries all fall where its word is the chosen column; all else is honest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from distprove.stark import prover
from distprove.stark.air import Air, Bus, Table
from distprove.stark.barrier import global_challenges, job_challenge
from distprove.stark.field import GENERATOR, Ext, P, Words, e_add, e_inv, e_pow, e_scale, e_sum, mul, powers, sub
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.statement import Boundary, PublicRef, Statement
from distprove.stark.verifying_key import VerifyingKey
from distprove.steps import Steps
from kernels.cpu.keccak import keccak256_rows
from kernels.interface.backend import Backend
from kernels.maths.goldilocks import root_of_unity
from tests.support.cheats import Job

WORD_BITS = 64
"""Powers of two that add up to any element of F_p."""
DIMENSION = 3
PARTITIONS = DIMENSION * WORD_BITS

NUMBERS = Bus("numbers", 1, "global")


@contextmanager
def without_anchors() -> Iterator[None]:
    """Keys made in here are of the protocol without anchors, to its prover and to its verifier."""
    with mock.patch.object(VerifyingKey, "anchored", new=False):
        yield


class NumbersAir(Air):
    """The numbers of a table, each as often as partitions and statement look it up."""

    preprocessed: ClassVar = {"number": 1}
    main: ClassVar = {"used": 1}
    public = ("claimed",)

    def define(self, t: Table) -> None:
        t.receive(NUMBERS, (t.fixed.number,), times=t.this.used)


class Lookup(Program):
    """The statement that a public number is one of 0 .. 2^log_rows - 1."""

    name = "test-lookup"

    def __init__(self, claimed: int, log_rows: int = 6) -> None:
        self.claimed, self.log_rows = claimed, log_rows

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"log_rows": self.log_rows}

    @property
    def tables(self) -> Sequence[Air]:
        return (NumbersAir(),)

    @property
    def buses(self) -> Sequence[Bus]:
        return (NUMBERS,)

    @property
    def statement(self) -> Statement:
        boundary = Boundary(NUMBERS.name, (PublicRef("claimed"),), 1, "first")
        return Statement(public=(("claimed", 1),), same=("claimed",), boundary=(boundary,))

    def preprocessed(self) -> Mapping[str, NDArray[np.uint64]]:
        return {"NumbersAir": np.arange(1 << self.log_rows, dtype=np.uint64)[None]}

    def slices(self, partitions: int) -> list[Slice]:
        """The first partition offers the claimed number, if its table has it."""
        return [Slice(f"part-{i}", {"offers": not i}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[np.uint64]]:
        used = np.zeros((1, 1 << self.log_rows), dtype=np.uint64)
        used[0, self.claimed :][:1] = source["offers"]
        return {"used": used}

    def trace(self, inputs: Mapping[str, Any], backend: Backend) -> Trace:
        return Trace([inputs["used"]], (self.claimed,))


@dataclass(frozen=True)
class Difference:
    """A polynomial d that is zero on n - 1 points of the extension, and a cut of the other points into halves."""

    column: Words
    """(n,): d on the trace domain."""
    agrees: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    """One for each place that a query may fall on, in natural order: where the half-way word is the column without d,
    and where it is the one with d."""

    @classmethod
    def make(cls, log_rows: int, log_blowup: int, rng: np.random.Generator) -> Difference:
        n, size = 1 << log_rows, 1 << (log_rows + log_blowup)
        order = rng.permutation(size)
        zeros, rest = order[: n - 1], order[n - 1 :]
        points = mul(powers(root_of_unity(log_rows + log_blowup), size), np.uint64(GENERATOR))
        rows = powers(root_of_unity(log_rows), n)
        column = np.ones(n, dtype=np.uint64)
        for zero in points[zeros]:
            column = mul(column, sub(rows, zero))
        agrees = np.zeros((2, size), dtype=np.bool_)
        agrees[:, zeros] = True
        agrees[0, rest[::2]] = agrees[1, rest[1::2]] = True
        return cls(column, (agrees[0], agrees[1]))


@dataclass(frozen=True)
class Halfway:
    """A partition whose main root is that of a word between two columns: 0 and 2^k d."""

    name: str
    columns: tuple[Words, Words]
    agrees: tuple[NDArray[np.bool_], NDArray[np.bool_]]

    @classmethod
    def number(cls, index: int, differences: Sequence[Difference]) -> Halfway:
        """Partition `index` of `PARTITIONS`: its power of two, and its part of the basis."""
        difference = differences[index // WORD_BITS]
        column = mul(difference.column, np.uint64(pow(2, index % WORD_BITS, P)))
        return cls(f"part-{index}", (np.zeros_like(column), column), difference.agrees)

    def mean(self) -> Words:
        """The column in the middle, of which the word agrees with nothing but what both columns share."""
        return mul(self.columns[1], np.uint64((P + 1) // 2))

    def word(self, both: Words) -> Words:
        """The half-way word (1, B, n), given the codewords (2, B, n) of both columns."""
        _, blowup, n = both.shape
        with_d = np.tile(~self.agrees[0], blowup * n // len(self.agrees[0]))
        chosen = with_d.reshape(n, blowup).T  # index i is row i // B of coset i % B
        return np.ascontiguousarray(np.where(chosen, both[1], both[0])[None])


@contextmanager
def committing_to(kernels: Any, word: Words) -> Iterator[None]:
    """The tree of a commitment holds `word`, whatever is committed to."""
    honest = kernels.commit

    def commit_word(matrices: Any, **options: int) -> Any:
        assert [m.shape for m in matrices] == [word.shape]
        return honest([word], **options)

    with mock.patch.object(kernels, "commit", commit_word):
        yield


class Forger:
    """Proves that `program.claimed` is in the table, which it is not. The methods before `choices` are FRI's."""

    def __init__(self, pk: Any, program: Lookup, seed: int = 1) -> None:
        assert program.claimed >= 1 << program.log_rows, "a true statement needs no forgery"
        assert pk.key.params.grinding_bits == 0, "the search for nonces looks at queries alone"
        self.pk, self.program = pk, program
        rng = np.random.default_rng(seed)
        self.differences = [self.difference(rng) for _ in range(DIMENSION)]
        self.partitions = [Halfway.number(i, self.differences) for i in range(PARTITIONS)]
        self.nonces = 0
        """How many have been tried so far, over all partitions."""

    def difference(self, rng: np.random.Generator) -> Difference:
        return Difference.make(self.program.log_rows, self.pk.key.params.log_blowup, rng)

    @property
    def queries(self) -> int:
        """Number of queries that fall on the commitment's word."""
        return int(self.pk.key.params.queries)

    def job_challenge(self, committed: Sequence[Any]) -> bytes:
        return job_challenge(self.pk.key.digest, [c.commitment for c in committed])

    def commit(self, part: Halfway, column: Words) -> Any:
        """As an honest prover of `column` commits, but for the tree, which holds the half-way word."""
        kernels, log_blowup = self.pk.backend.goldilocks, self.pk.key.params.log_blowup
        word = part.word(kernels.lde(np.stack(part.columns), log_blowup))
        with committing_to(kernels, word):
            return prover.commit(self.pk, part.name, {"used": column[None].copy()}, Steps())

    def opened(self, part: Halfway, column: Words, stated: Any) -> Any:
        """A commitment as `column`, with what `stated`, from before the challenge, has told of it."""
        opened = replace(self.commit(part, column), commitment=stated.commitment)
        if opened.anchor is not None and stated.anchor is not None:
            opened.anchor.values = stated.anchor.values
        return opened

    def prove_opened(self, opened: Any, challenge: bytes) -> Any:
        return prover.prove(self.pk, opened, challenge, Steps())

    global_challenges = staticmethod(global_challenges)

    def challenge(self, anchored: Sequence[Words]) -> tuple[list[Any], bytes]:
        """All commitments and the job's challenge. `anchored`: per partition the column that it commits as.

        The root is that of the half-way word whatever the column; what else a commitment holds is that column's.
        """
        committed = [self.commit(part, column) for part, column in zip(self.partitions, anchored, strict=True)]
        return committed, self.job_challenge(committed)

    def choices(self, challenge: bytes) -> list[int]:
        """Per partition which of its two columns makes the bus balance under this challenge."""
        z, beta = self.global_challenges(challenge)
        number = self.pk.key.bus_numbers[NUMBERS.name]
        basis = []
        for difference in self.differences:
            terms = [
                e_scale(e_inv(fingerprint(number, (row,), z, beta)), times)
                for row, times in enumerate(difference.column.tolist())
            ]
            basis.append(e_sum(terms))
        target = e_inv(fingerprint(number, (self.program.claimed,), z, beta))
        return [c >> k & 1 for c in coordinates(basis, target) for k in range(WORD_BITS)]

    def prove(self, index: int, choice: int, commitment: Any, challenge: bytes) -> Any:
        """Prove a partition with the column of its choice, under what it has committed to before the challenge.

        With other anchors it would be a part of another job, under another challenge.
        """
        part = self.partitions[index]
        opened = self.opened(part, part.columns[choice], commitment)
        with self.nonces_where(part.agrees[choice]):
            return self.prove_opened(opened, challenge)

    @contextmanager
    def nonces_where(self, agrees: NDArray[np.bool_]) -> Iterator[None]:
        """The proof of work is a nonce whose queries all fall where `agrees`."""

        def grind(seed: bytes, bits: int, **_: object) -> int:
            nonce = nonce_for(seed, agrees, self.queries)
            self.nonces += nonce + 1
            return nonce

        with mock.patch.object(self.pk.backend.goldilocks, "grind", grind):
            yield

    def forge(self) -> tuple[Any, list[int]]:
        """The job, and its choices. Commitments hold what the first columns give."""
        committed, challenge = self.challenge([part.columns[0] for part in self.partitions])
        choices = self.choices(challenge)
        proofs = [self.prove(i, choice, committed[i], challenge) for i, choice in enumerate(choices)]
        return self.job([c.commitment.public for c in committed], proofs), choices

    def job(self, publics: Sequence[tuple[int, ...]], proofs: Sequence[Any]) -> Any:
        return Job(self.pk.key, [part.name for part in self.partitions], list(publics), list(proofs))

    def net_multiplicities(self, choices: Sequence[int]) -> dict[int, int]:
        """How often each number is looked up more than it is offered, modulo p, by the columns that are proven."""
        net = dict.fromkeys(range(1 << self.program.log_rows), 0)
        net[self.program.claimed] = 1
        for part, choice in zip(self.partitions, choices, strict=True):
            for row, times in enumerate(part.columns[choice].tolist()):
                net[row] = (net[row] - times) % P
        return net


def coordinates(basis: Sequence[Ext], target: Ext) -> list[int]:
    """c_j in F_p with sum of c_j basis_j = target, by Cramer's rule."""
    inverse = pow(determinant(basis), -1, P)
    replaced = [[target if i == j else b for i, b in enumerate(basis)] for j in range(DIMENSION)]
    return [determinant(vectors) * inverse % P for vectors in replaced]


def determinant(vectors: Sequence[Ext]) -> int:
    (a, b, c), (d, e, f), (g, h, i) = vectors
    return (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) % P


def fingerprint(bus_number: int, values: Sequence[int], z: Ext, beta: Ext) -> Ext:
    """The fingerprint of a bus's tuple, as the specification says it."""
    total = e_add(z, (bus_number, 0, 0))
    for exponent, value in enumerate(values, 1):
        total = e_add(total, e_scale(e_pow(beta, exponent), value))
    return total


def imbalance(net: Mapping[int, int], bus_number: int, z: Ext, beta: Ext) -> Ext:
    """The sum of the bus whose tuples have these net multiplicities."""
    return e_sum([e_scale(e_inv(fingerprint(bus_number, (t,), z, beta)), m) for t, m in net.items()])


# -- the search for a nonce -------------------------------------------------------------------------------------------

_BATCH = 1 << 13
_WORDS = 4
"""Queries in one block of the transcript."""


def nonce_for(seed: bytes, agrees: NDArray[np.bool_], queries: int) -> int:
    """The least nonce whose queries all fall where `agrees`: section 5 of the protocol, many nonces at once."""
    mask = np.uint64(len(agrees) - 1)
    for start in count(0, _BATCH):
        nonces = np.arange(start, start + _BATCH, dtype="<u8").view(np.uint8).reshape(_BATCH, 8)
        states = hashed(b"\x10" + seed + b"\x05nonce" + (8).to_bytes(8, "little"), nonces)
        states = hashed(b"\x11", states, b"\x07queries")
        alive = np.arange(_BATCH)
        for block, first in enumerate(range(0, queries, _WORDS)):
            blocks = hashed(b"\x12", states[alive], block.to_bytes(8, "little"))
            indices = blocks.view("<u8")[:, : queries - first] & mask
            alive = alive[agrees[indices].all(axis=1)]
        if len(alive):
            return start + int(alive[0])
    raise AssertionError("there are 2^64 nonces")


def hashed(before: bytes, each: NDArray[np.uint8], after: bytes = b"") -> NDArray[np.uint8]:
    """(m, 32): the digests of `before`, a row of `each` (m, k), `after`."""
    rows = np.empty((len(each), len(before) + each.shape[1] + len(after)), dtype=np.uint8)
    rows[:, : len(before)] = np.frombuffer(before, dtype=np.uint8)
    rows[:, len(before) : len(before) + each.shape[1]] = each
    rows[:, len(before) + each.shape[1] :] = np.frombuffer(after, dtype=np.uint8)
    return keccak256_rows(rows)
