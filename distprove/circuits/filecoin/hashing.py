"""Filecoin's hashes on integers: Poseidon of elements, one by one or many at once, and SHA-256 of elements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import WitnessProgram
from distprove.circuits.filecoin.gadgets import PACKED_BITS
from distprove.circuits.filecoin.poseidon import filecoin_poseidon, hash_elements
from distprove.circuits.linear import Run
from distprove.host.machine import usable_threads
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import pack, unpack

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


def node_label(replica_id: int, layer: int, node: int, parents: Sequence[int]) -> int:
    """The label of a node in a layer, from those of its 37 parents, repetitions included. Layers count from 1."""
    head = replica_id.to_bytes(32, "little") + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    return digest_value(head + b"".join(parent.to_bytes(32, "little") for parent in parents))


def sha256_hashes(nodes: Sequence[Sequence[int]]) -> list[int]:
    """The `hash_sha256` of each node's children."""
    return [hash_sha256(children) for children in nodes]


def poseidon_hashes(nodes: Sequence[Sequence[int]]) -> list[int]:
    """The `hash_poseidon` of each node's children, of which all nodes have as many. Many hashes are computed by all
    processors that this process may use."""
    if len(nodes) < FEW:
        return [hash_poseidon(children) for children in nodes]
    arity = len(nodes[0])
    program, (first, step) = _hashing(arity)
    # The program's own wires are scratch: they are made once, and only those of the hashes are read.
    with CpuBackend(threads=usable_threads()) as backend:
        wires, hashes = program.schedule.on(backend, FIELD, 1), list[int]()
        for begin in range(0, len(nodes), AT_ONCE):
            some = pack([child for node in nodes[begin : begin + AT_ONCE] for child in node], FIELD.limbs)
            children = backend.vectors.to_montgomery(FIELD, backend.to_device(some)).reshape(-1, arity, FIELD.limbs)
            count = len(children)
            for number, signal in enumerate(program.inputs):
                wires.store(signal.first, children[:, number])
            made = np.ascontiguousarray(program.schedule.run(wires)[first::step, 0][:count])
            hashes += unpack(backend.to_host(backend.vectors.from_montgomery(FIELD, made)))
        return hashes


@lru_cache(maxsize=4)
def _hashing(arity: int) -> tuple[WitnessProgram, Run]:
    """A circuit that hashes AT_ONCE nodes, and the run of wires that are the hashes."""
    b = CircuitBuilder(BLS12_381)
    hashes = hash_elements(b, [b.private_input(f"child {k}", AT_ONCE) for k in range(arity)])
    (result,) = hashes.terms
    return b.witness_program(), result
