"""The hash of a key, with which a transcript begins: the sponge over the bytes of the key in the encoding of postcard.

`tests/interop/openvm-judge/FORMAT.md` describes them, "The hash of a key".
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from distprove.stark.openvm.graph import Graph, Kind
from distprove.stark.openvm.key import OpenVmAir, OpenVmKey
from distprove.stark.openvm.params import Proximity, SystemParams
from distprove.stark.openvm.proof import CODEC_VERSION
from kernels.cpu.poseidon2_babybear import hash_rows
from kernels.maths.babybear import Elements, P

MONTGOMERY = 1 << 32
"""Postcard has elements as x 2^32 mod p."""


def key_hash(key: OpenVmKey) -> Elements:
    """Return the hash of everything in a key but that hash, names and preprocessed traces, (8,)."""
    data = encoded(key)
    framed = CODEC_VERSION.to_bytes(4, "little") + len(data).to_bytes(8, "little") + data
    digest: Elements = hash_rows(np.frombuffer(framed, dtype=np.uint8).astype(np.uint32)[None])[0]
    return digest


def encoded(key: OpenVmKey) -> bytes:
    """Return the bytes of a key that are hashed, without the version and the length before them."""
    out = _Postcard()
    _params(out, key.params)
    out.count(len(key.airs))
    for air in key.airs:
        _air(out, air)
    out.count(len(key.height_constraints))
    for constraint in key.height_constraints:
        out.counts(constraint.coefficients)
        out.count(constraint.threshold)
    return bytes(out.data)


class _Postcard:
    """Writes values: counts as varints of 7 bits a byte, the lowest first."""

    def __init__(self) -> None:
        self.data = bytearray()

    def count(self, value: int) -> None:
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def counts(self, values: Iterable[int]) -> None:
        """A list of counts behind its length."""
        listed = list(values)
        self.count(len(listed))
        for value in listed:
            self.count(value)

    def signed(self, value: int) -> None:
        self.count(2 * value if value >= 0 else -2 * value - 1)

    def flag(self, value: bool) -> None:
        self.data.append(value)

    def element(self, value: int) -> None:
        self.count(value * MONTGOMERY % P)

    def elements(self, values: Elements) -> None:
        for value in values.tolist():
            self.element(value)


def _params(out: _Postcard, params: SystemParams) -> None:
    whir = params.whir
    for size in (params.log_skip, params.n_stack, params.w_stack, params.log_blowup, whir.log_fold):
        out.count(size)
    out.counts(whir.queries)
    for bits in (whir.mu_pow_bits, whir.query_pow_bits, whir.folding_pow_bits):
        out.count(bits)
    _proximity(out, whir.proximity)
    for value in (params.max_interactions, params.log_max_message_length, params.logup_pow_bits):
        out.count(value)
    out.count(params.max_constraint_degree)


def _proximity(out: _Postcard, proximity: Proximity) -> None:
    variant = ("UniqueDecoding", "SplitUniqueList", "ListDecoding").index(proximity.regime)
    fields = ((), (proximity.multiplicity, proximity.list_start_round), (proximity.multiplicity,))[variant]
    for value in (variant, *fields):
        out.count(value)


def _air(out: _Postcard, air: OpenVmAir) -> None:
    fixed = air.preprocessed
    out.flag(fixed is not None)
    if fixed is not None:
        out.elements(fixed.root)
        out.signed(fixed.n)
        out.count(fixed.stacked_width)
    out.flag(air.widths.preprocessed is not None)
    if air.widths.preprocessed is not None:
        out.count(air.widths.preprocessed)
    out.counts(air.widths.cached)
    out.count(air.widths.common)
    out.count(air.public_values)
    out.flag(air.needs_next)
    _graph(out, air.graph)
    out.data.append(air.max_constraint_degree)
    out.flag(air.is_required)
    out.count(len(air.unused_variables))
    for kind, column, part, offset in air.unused_variables.tolist():
        _variable(out, kind, column, part, offset)


def _graph(out: _Postcard, graph: Graph) -> None:
    out.count(len(graph.nodes))
    for kind, a, b, c in graph.nodes.tolist():
        if kind <= Kind.PUBLIC:
            out.count(0)
            _variable(out, kind, a, b, c)
            continue
        out.count(kind - Kind.PUBLIC)
        if kind == Kind.CONSTANT:
            out.element(a)
        elif kind > Kind.CONSTANT:
            for field in (a, c) if kind == Kind.NEG else (a, b, c):
                out.count(field)
    out.counts(graph.constraints)
    out.count(len(graph.interactions))
    for interaction in graph.interactions:
        out.counts(interaction.message)
        for value in (interaction.count, interaction.bus, interaction.weight):
            out.count(value)


def _variable(out: _Postcard, kind: int, column: int, part: int, offset: int) -> None:
    """The entry is the number of its kind, and for columns part and row; the column comes behind it."""
    entry = {Kind.PREPROCESSED: (offset,), Kind.MAIN: (part, offset)}.get(Kind(kind), ())
    for value in (kind, *entry, column):
        out.count(value)
