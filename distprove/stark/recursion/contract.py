"""What a contract reads of a job: its program, exit code and output, as the public values of one proof.

The *program* is the digest of a record of all that decides what was run and how it was verified: the circuit of the
proof, the segments' key, their heights, the key of the leaves over them, and the constants of the statement (the entry
point of a guest). Whoever relies on a contract computes it. docs/recursion.md, "What a contract reads", describes the
proof; `recursion.contract_circuit` has its circuit. No prover is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from distprove.errors import InvalidProof, UsageError
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Scalars
from distprove.stark.heights import LogHeights, encode_heights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.places import output_words
from distprove.stark.multilinear.shape import heights_fit
from distprove.stark.multilinear.verifier import RULES
from distprove.stark.recursion.node import Identity
from distprove.stark.statement import PublicRef, Statement
from distprove.stark.whole_job import check_multiplicities
from kernels.cpu.poseidon2 import DIGEST
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash

EXIT_CODE, INPUTS, STATED = "exit_code", "inputs", "stated"
"""Public values of a segment: what a contract reads of the last one; the number of words of public input, of which
there are none, since a contract would not know them; and the words."""
PLACES = 32
"""Segments that a job for a contract may have."""


@dataclass(frozen=True)
class ProgramRecord:
    """What the program's digest is of."""

    circuit: bytes
    """The digest of the circuit's form (`recursion.contract_form`), which is a constant there."""
    key: bytes
    """The digest of the segments' key."""
    log_heights: LogHeights
    """Of every segment."""
    leaf: Identity
    """The key of every leaf over them."""
    constants: tuple[int, ...]
    """The values of the statement's constants, in their order."""

    @classmethod
    def of(
        cls, circuit: bytes, key: MultilinearKey, log_heights: Sequence[int | None], leaf: Identity
    ) -> ProgramRecord:
        return cls(circuit, key.digest, tuple(log_heights), leaf, constants_of(key.statement))

    def digest(self) -> tuple[int, ...]:
        """(DIGEST,) numbers below p."""
        heights, leaf = encode_heights(self.log_heights), _words(self.leaf.scalars())
        return tuple(map(int, program_words(NUMBERS, self.circuit, self.key, heights, leaf, _words(self.constants))))


@dataclass(frozen=True)
class Read:
    """What a contract reads of a job."""

    program: tuple[int, ...]
    exit_code: int
    output: bytes

    def scalars(self) -> tuple[int, ...]:
        """The public values `places.READ`. Raises InvalidProof for an output that no contract reads."""
        length, *words = map(int, output_words(self.output))
        return (*self.program, self.exit_code, length, *words)


def program_words(
    f: Arithmetic[E], circuit: Any, key: Any, heights: Any, leaf: Scalars, constants: Scalars
) -> list[Any]:
    """The digest of a program's record: of the digests of its circuit's form and of its key, its encoded heights, the
    scalars of its leaves' key and its constants. (DIGEST,) scalars."""
    t = f.transcript(b"multilinear program", TreeHash.POSEIDON2)
    t.absorb(b"circuit", circuit)
    t.absorb(b"key", key)
    t.absorb(b"heights", heights)
    t.absorb_words(b"leaf", leaf)
    t.absorb_words(b"constants", constants)
    return list(f.drawn_scalars(t, b"program", DIGEST))


def constants_of(statement: Statement) -> tuple[int, ...]:
    """The values of a statement's constants, in their order."""
    return tuple(value for constant in statement.constants for value in constant.values)


def without_values(statement: Statement) -> Statement:
    """The statement with zeros as its constants: what a circuit depends on."""
    zeros = (replace(constant, values=(0,) * len(constant.values)) for constant in statement.constants)
    return replace(statement, constants=tuple(zeros))


def check_readable(key: MultilinearKey) -> None:
    """Raise UsageError unless a contract can read the jobs of a key: they have places, an exit code and an output, and
    state nothing else that a contract would have to know. A chain begins at a constant."""
    statement = key.statement
    lengths = dict(statement.public)
    if key.params.places is None or statement.output is None or lengths.get(EXIT_CODE) != 1:
        raise UsageError(f"program {key.program}: a contract reads jobs that state an exit code and an output alone")
    known = {EXIT_CODE, statement.output.length, statement.output.digest}
    begun = {constant.name for constant in statement.constants if constant.where in ("first", "every")}
    if free := [start for _, start in statement.chain if start not in begun]:
        raise UsageError(
            f"program {key.program}: {free[0]} of a job's first segment is no constant, which a contract would not read"
        )
    known |= {name for pair in statement.chain for name in pair} | {constant.name for constant in statement.constants}
    known |= {name for name in (statement.index, statement.count) if name is not None}
    if lengths.get(INPUTS) == 1:
        known |= {INPUTS}
        if _is_received(statement, STATED):  # words of public input, of which there are none
            known |= {STATED}
    unread = [name for name in lengths if name not in known]
    if unread:
        raise UsageError(f"program {key.program}: its jobs state {unread[0]}, which a contract would not read")


def _is_received(statement: Statement, name: str) -> bool:
    """Whether the boundary has each element of a public value, of every segment."""
    sent = {
        (value.name, value.index)
        for boundary in statement.boundary
        for value in boundary.values
        if boundary.where == "every" and isinstance(value, PublicRef)
    }
    return all((name, index) in sent for index in range(dict(statement.public).get(name, 0)))


def check_program(key: MultilinearKey, log_heights: Sequence[int | None], places: int = PLACES) -> None:
    """Raise InvalidProof unless the key has these places, and every job of segments of these heights has the bits that
    it asks for, and multiplicities that do not wrap, up to all places: what no circuit checks. Raises UsageError as
    `check_readable`."""
    check_readable(key)
    if key.params.places != places:
        raise InvalidProof(
            f"a key of {count_of(key.params.places or 0, 'place')}; the circuit that a contract reads has {places}"
        )
    heights = tuple(log_heights)
    if not heights_fit(key, heights):
        raise InvalidProof("not the heights of a segment under this key")
    every = [heights] * places
    check_multiplicities(key.tables, every, key.stated(len(every)), key.output_bus)
    reached = RULES.security(key, every)
    if reached.bits < key.params.security_bits:
        raise InvalidProof(
            f"{reached.bits:.1f} bits of security over {count_of(len(every), 'segment')}; the key asks for "
            f"{key.params.security_bits}"
        )


def _words(values: Sequence[int]) -> Scalars:
    return np.array(values, dtype=np.uint64)
