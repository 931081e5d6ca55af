"""Filecoin's hashes on integers: Poseidon of elements, one by one or many at once, and SHA-256 of elements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import WitnessProgram
from distprove.circuits.filecoin.gadgets import PACKED_BITS
from distprove.circuits.filecoin.poseidon import filecoin_poseidon, hash_elements
from distprove.circuits.linear import Run
from distprove.host.machine import usable_threads
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381

FIELD = BLS12_381.fr
FEW = 128
"""Hashes that are made one by one. A hash of eight elements takes 2.5 ms in Python and 0.16 ms of one thread of the
CPU's kernels, whose program takes 0.2 s to record."""
AT_ONCE = 1024
"""Hashes that are made at a time, for which the kernels' wires take 17 MiB."""


def hash_poseidon(children: Sequence[int]) -> int:
    """The Poseidon hash of a tree's node."""
    return filecoin_poseidon(FIELD, children)


def hash_sha256(elements: Sequence[int]) -> int:
    """SHA-256 of elements of 32 bytes, little-endian, without its two highest bits."""
    data = b"".join(element.to_bytes(32, "little") for element in elements)
    return digest_value(data)


def digest_value(data: bytes) -> int:
    """The SHA-256 digest of `data` as a little-endian integer, without its two highest bits."""
    return int.from_bytes(hashlib.sha256(data).digest(), "little") & ((1 << PACKED_BITS) - 1)


def sha256_hashes(nodes: Sequence[Sequence[int]]) -> list[int]:
    """The `hash_sha256` of each node's children."""
    return [hash_sha256(children) for children in nodes]


def poseidon_hashes(nodes: Sequence[Sequence[int]]) -> list[int]:
    """The `hash_poseidon` of each node's children, of which all nodes have as many. Many hashes are computed by all
    processors that this process may use."""
    if len(nodes) < FEW:
        return [hash_poseidon(children) for children in nodes]
    program, result = _hashing(len(nodes[0]))
    with CpuBackend(threads=usable_threads()) as backend:
        return [
            value
            for first in range(0, len(nodes), AT_ONCE)
            for value in _hashed(program, result, nodes[first : first + AT_ONCE], backend)
        ]


def _hashed(program: WitnessProgram, result: Run, nodes: Sequence[Sequence[int]], backend: Backend) -> list[int]:
    """The hashes of at most AT_ONCE nodes; the program's other lanes hash zeros."""
    padding = [0] * (AT_ONCE - len(nodes))
    lanes = zip(*nodes, strict=True)
    inputs = {signal.name: [*lane, *padding] for signal, lane in zip(program.inputs, lanes, strict=True)}
    first, step = result
    made = backend.to_host(program.witness_on(backend, inputs)[first::step])
    return [int.from_bytes(value.tobytes(), "little") for value in made[: len(nodes)]]


@lru_cache(maxsize=4)
def _hashing(arity: int) -> tuple[WitnessProgram, Run]:
    """A circuit that hashes AT_ONCE nodes, and the run of wires that are the hashes."""
    b = CircuitBuilder(BLS12_381)
    hashes = hash_elements(b, [b.private_input(f"child {k}", AT_ONCE) for k in range(arity)])
    (result,) = hashes.terms
    return b.witness_program(), result
