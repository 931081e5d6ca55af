"""Filecoin's hashes on integers: Poseidon of elements, one by one or many at once, and SHA-256 of elements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import WitnessProgram
from distprove.circuits.filecoin.gadgets import PACKED_BITS
from distprove.circuits.filecoin.poseidon import filecoin_poseidon, hash_elements
from distprove.circuits.kept import kept_witness_program
from distprove.circuits.program import Wires
from distprove.host.machine import usable_threads
from kernels.cpu.backend import CpuBackend
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import pack, unpack

FIELD = BLS12_381.fr
AT_ONCE, REST = 1024, 64
"""Hashes that are made at a time, for which the kernels' wires take 17 MiB; and as long as fewer than half as many are
left."""


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
    """The `hash_poseidon` of each node's children, of which all nodes have as many, by all processors that this process
    may use. The kernels' programs are in the user's cache (`circuits.kept`); Python takes 40 times as long for a hash,
    and as long as for 100 of them to derive the constants."""
    if not nodes:
        return []
    arity, hashes = len(nodes[0]), list[int]()
    # The programs' own wires are scratch: they are made once, and only those of the hashes are read.
    with CpuBackend(threads=usable_threads()) as backend:
        wires: dict[int, Wires] = {}
        while left := len(nodes) - len(hashes):
            lanes = AT_ONCE if 2 * left >= AT_ONCE else REST
            program = _hashing(arity, lanes)
            if lanes not in wires:
                wires[lanes] = program.schedule.on(backend, FIELD, 1)
            some = pack(chain.from_iterable(nodes[len(hashes) : len(hashes) + lanes]), FIELD.limbs)
            children = backend.vectors.to_montgomery(FIELD, backend.to_device(some)).reshape(-1, arity, FIELD.limbs)
            for number, signal in enumerate(program.inputs):
                wires[lanes].store(signal.first, children[:, number])
            # The last own wire of a lane's template is its hash; the lanes' templates follow their inputs.
            own = (program.n_wires - 1 - arity * lanes) // lanes
            made = program.schedule.run(wires[lanes])[arity * lanes + own :: own, 0][: len(children)]
            found = backend.vectors.from_montgomery(FIELD, np.ascontiguousarray(made))
            hashes += unpack(backend.to_host(found))
        return hashes


@lru_cache(maxsize=8)
def _hashing(arity: int, lanes: int) -> WitnessProgram:
    """The program of a circuit that hashes so many nodes."""
    return kept_witness_program(
        f"Filecoin's Poseidon of {arity}, {count_of(lanes, 'time')}", partial(_recorded, arity, lanes)
    )


def _recorded(arity: int, lanes: int) -> CircuitBuilder:
    b = CircuitBuilder(BLS12_381)
    hash_elements(b, [b.private_input(f"child {k}", lanes) for k in range(arity)])
    return b
