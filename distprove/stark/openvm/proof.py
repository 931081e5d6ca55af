"""A proof of stark-backend 2.0 as arrays, and its encoding, byte for byte as `codec.rs` there writes it, version 3.

Integers are 4 bytes, little-endian; so are elements, which must be canonical. An element of the extension is 4 of them,
a digest 8. Most lengths are stated; others follow from those. Nothing in an encoding can be changed without changing
what it decodes to: padding bits are zero, trailing bytes are refused, and so is a depth of no path.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from distprove.errors import FormatError
from kernels.host.units import count_of
from kernels.maths.babybear import DEGREE, Elements, P
from kernels.maths.poseidon2_babybear import DIGEST

CODEC_VERSION = 3
BEGINS = CODEC_VERSION.to_bytes(4, "little")
"""First bytes of a proof."""
MAX_BYTES = 1 << 28
"""Most bytes of a proof."""
MAX_LOG_FOLD = 30
MAX_ITEMS = 1 << 16
"""Most AIRs of a proof, parts of an AIR and commitments."""
MAX_ARRAYS = 1 << 18
"""Most arrays of a proof. An array takes some hundred bytes, and its encoding may have four."""
MAX_EMPTY = 1 << 20
"""Greatest length of an axis of an array that has no elements, which an encoding's size does not bound."""

Digest = Elements
"""A digest: 8 elements."""


@dataclass(frozen=True)
class TraceShape:
    """The shape of a trace that is present: `TraceVData`."""

    log_height: int
    cached_roots: Elements
    """Commitments to the cached parts of the main trace, (parts, 8)."""


@dataclass(frozen=True)
class BusProof:
    """LogUp-GKR: `GkrProof`."""

    pow_witness: int
    root_denominator: Elements
    """Denominator of the sum of all fractions, (4,). The numerator is zero."""
    layers: Elements
    """p_0, p_1, q_0, q_1 of each layer, (layers, 4, 4)."""
    rounds: tuple[Elements, ...]
    """For layer j > 0 the values at 1, 2, 3 of its j rounds, (j, 3, 4)."""


@dataclass(frozen=True)
class ConstraintProof:
    """The batched sumcheck of constraints and interactions: `BatchConstraintProof`. Traces are in descending order of
    heights, and of AIRs for equal ones."""

    numerators: Elements
    """The share of each trace in the claimed numerator of the buses, (traces, 4)."""
    denominators: Elements
    """The same of the denominator, less that of the padding, (traces, 4)."""
    univariate: Elements
    """Coefficients of the univariate round, (coefficients, 4)."""
    rounds: Elements
    """Values of the multilinear rounds at 1, 2, ..., (rounds, values, 4)."""
    openings: tuple[tuple[Elements, ...], ...]
    """For each trace and part the values of its columns, (values, 4), each followed by that of the column's next row
    if the AIR reads next rows. Parts: common main, preprocessed, cached."""


@dataclass(frozen=True)
class StackingProof:
    """The reduction to stacked columns: `StackingProof`."""

    univariate: Elements
    """Coefficients of the univariate round, (coefficients, 4)."""
    rounds: Elements
    """Values of the multilinear rounds at 1 and 2, (rounds, 2, 4)."""
    openings: tuple[Elements, ...]
    """For each commitment the values of its stacked columns, (columns, 4)."""


@dataclass(frozen=True)
class WhirProof:
    """The opening of the stacked columns: `WhirProof`."""

    mu_pow_witness: int
    rounds: Elements
    """Values of all sumcheck rounds at 1 and 2, (rounds, 2, 4)."""
    roots: Elements
    """Roots of the codewords after each WHIR round but the last, (WHIR rounds - 1, 8)."""
    samples: Elements
    """Out-of-domain values of these codewords, (WHIR rounds - 1, 4)."""
    folding_pow_witnesses: Elements
    """One for each sumcheck round."""
    query_pow_witnesses: Elements
    """One for each WHIR round."""
    rows: tuple[Elements, ...]
    """For each commitment the opened rows, (queries, 2^k, columns)."""
    row_paths: tuple[Elements, ...]
    """For each commitment the Merkle paths, from the leaf on, (queries, depth, 8)."""
    words: tuple[Elements, ...]
    """For each later WHIR round the opened elements of its codeword, (queries, 2^k, 4)."""
    word_paths: tuple[Elements, ...]
    """For each later WHIR round the Merkle paths, (queries, depth, 8), one node shorter each round."""
    final: Elements
    """Coefficients of the final polynomial, (coefficients, 4)."""


@dataclass(frozen=True)
class OpenVmProof:
    """A proof. Arrays are canonical uint32; those of the extension have a last axis of 4."""

    main_root: Elements
    """Commitment to the common main parts of all traces, (8,)."""
    traces: tuple[TraceShape | None, ...]
    """For each AIR of the key; None if its trace is absent."""
    public_values: tuple[Elements, ...]
    """For each AIR of the key, (values,)."""
    buses: BusProof
    constraints: ConstraintProof
    stacking: StackingProof
    whir: WhirProof

    def to_bytes(self) -> bytes:
        """Encode the proof. Raises ValueError for arrays whose shapes have no encoding."""
        out = _Writer()
        out.count(CODEC_VERSION)
        out.words(self.main_root, (DIGEST,))
        out.count(len(self.traces))
        for i in range(0, len(self.traces), 8):
            out.byte(sum((trace is not None) << k for k, trace in enumerate(self.traces[i : i + 8])))
        for trace in self.traces:
            if trace is not None:
                out.count(trace.log_height)
                out.listed(trace.cached_roots, DIGEST)
        out.count(len(self.public_values))
        for values in self.public_values:
            out.listed(values)
        _write_buses(out, self.buses)
        _write_constraints(out, self.constraints)
        _write_stacking(out, self.stacking)
        _write_whir(out, self.whir)
        return bytes(out.data)

    @classmethod
    def from_bytes(cls, data: bytes, what: str = "proof") -> OpenVmProof:
        """Decode a proof. Raises FormatError for anything but the encoding of one, trailing bytes too.

        Only lengths that the encoding itself ties together are checked; `Shape` checks the others against a key.
        """
        read = _Reader(data, what)
        if (version := read.count()) != CODEC_VERSION:
            raise FormatError(f"{what}: version {version} of the encoding, not {CODEC_VERSION}")
        main_root = read.words(DIGEST)
        airs = read.items()
        bits = [read.byte() for _ in range(-(-airs // 8))]
        if airs % 8 and bits[-1] >> airs % 8:
            raise FormatError(f"{what}: bits of AIRs beyond the last one")
        traces = tuple(
            TraceShape(read.count(), read.listed(DIGEST)) if bits[i // 8] >> i % 8 & 1 else None for i in range(airs)
        )
        public_values = tuple(read.listed() for _ in range(read.items()))
        proof = cls(
            main_root,
            traces,
            public_values,
            _read_buses(read),
            _read_constraints(read),
            _read_stacking(read),
            _read_whir(read),
        )
        read.end()
        return proof


def _write_buses(out: _Writer, part: BusProof) -> None:
    out.word(part.pow_witness)
    out.words(part.root_denominator, (DEGREE,))
    out.listed(part.layers, 4, DEGREE)
    if len(part.rounds) != max(0, len(part.layers) - 1):
        raise ValueError("rounds of another number of layers")
    for j, rounds in enumerate(part.rounds, 1):
        out.words(rounds, (j, 3, DEGREE))


def _read_buses(read: _Reader) -> BusProof:
    witness, root, layers = read.word(), read.words(DEGREE), read.listed(4, DEGREE)
    return BusProof(witness, root, layers, tuple(read.words(j, 3, DEGREE) for j in range(1, len(layers))))


def _write_constraints(out: _Writer, part: ConstraintProof) -> None:
    traces = len(part.numerators)
    if len(part.openings) != traces:
        raise ValueError("openings of another number of traces")
    out.listed(part.numerators, DEGREE)
    out.words(part.denominators, (traces, DEGREE))
    out.listed(part.univariate, DEGREE)
    rounds, values = part.rounds.shape[:2]
    out.count(rounds)
    if rounds:
        out.count(values)
    out.words(part.rounds, (rounds, values, DEGREE))
    for parts in part.openings:
        out.count(len(parts))
        for openings in parts:
            out.listed(openings, DEGREE)


def _read_constraints(read: _Reader) -> ConstraintProof:
    numerators = read.listed(DEGREE)
    denominators, univariate = read.words(len(numerators), DEGREE), read.listed(DEGREE)
    rounds = read.count()
    values = read.count() if rounds else 0
    return ConstraintProof(
        numerators,
        denominators,
        univariate,
        read.words(rounds, values, DEGREE),
        tuple(tuple(read.listed(DEGREE) for _ in range(read.items())) for _ in range(len(numerators))),
    )


def _write_stacking(out: _Writer, part: StackingProof) -> None:
    out.listed(part.univariate, DEGREE)
    out.listed(part.rounds, 2, DEGREE)
    out.count(len(part.openings))
    for openings in part.openings:
        out.listed(openings, DEGREE)


def _read_stacking(read: _Reader) -> StackingProof:
    univariate, rounds = read.listed(DEGREE), read.listed(2, DEGREE)
    return StackingProof(univariate, rounds, tuple(read.listed(DEGREE) for _ in range(read.items())))


def _write_whir(out: _Writer, part: WhirProof) -> None:
    folds, rounds = len(part.rounds), len(part.roots) + 1
    if folds % rounds:
        raise ValueError(f"{count_of(folds, 'sumcheck round')} in {count_of(rounds, 'round')} of WHIR")
    size, commitments, queries = 1 << folds // rounds, len(part.rows), len(part.rows[0]) if part.rows else 0
    if not commitments or len(part.row_paths) != commitments:
        raise ValueError("no commitments, or paths of another number of them")
    if {len(part.words), len(part.word_paths)} != {rounds - 1}:
        raise ValueError("codewords of another number of rounds")
    out.word(part.mu_pow_witness)
    out.listed(part.rounds, 2, DEGREE)
    out.listed(part.roots, DIGEST)
    out.words(part.samples, (rounds - 1, DEGREE))
    out.words(part.folding_pow_witnesses, (folds,))
    out.words(part.query_pow_witnesses, (rounds,))
    out.count(commitments)
    out.count(queries)
    widths, depth = [rows.shape[-1] for rows in part.rows], part.row_paths[0].shape[1]
    if queries:
        out.count(depth)
        for width in widths:
            out.count(width)
    for rows, width in zip(part.rows, widths, strict=True):
        out.words(rows, (queries, size, width))
    for paths in part.row_paths:
        out.words(paths, (queries, depth, DIGEST))
    for word in part.words:
        out.count(len(word))
        out.words(word, (len(word), size, DEGREE))
    depth = part.word_paths[0].shape[1] if part.word_paths else 0
    out.count(depth)
    for i, (word, paths) in enumerate(zip(part.words, part.word_paths, strict=True)):
        out.words(paths, (len(word), depth - i, DIGEST))
    out.listed(part.final, DEGREE)


def _read_whir(read: _Reader) -> WhirProof:
    witness, sums, roots = read.word(), read.listed(2, DEGREE), read.listed(DIGEST)
    folds, rounds = len(sums), len(roots) + 1
    log_fold = folds // rounds
    if folds % rounds or log_fold > MAX_LOG_FOLD:
        raise FormatError(f"{read.what}: {count_of(folds, 'sumcheck round')} in {count_of(rounds, 'round')} of WHIR")
    size = 1 << log_fold
    samples, folding, query = read.words(rounds - 1, DEGREE), read.words(folds), read.words(rounds)
    commitments = read.items()
    if not commitments:
        raise FormatError(f"{read.what}: no commitment is opened")
    queries = read.count()
    depth = read.count() if queries else 0
    widths = [read.count() if queries else 0 for _ in range(commitments)]
    rows = tuple(read.words(queries, size, width) for width in widths)
    row_paths = tuple(read.words(queries, depth, DIGEST) for _ in range(commitments))
    words = tuple(read.listed(size, DEGREE) for _ in range(rounds - 1))
    depth = read.count()
    if depth < rounds - 2 or (depth and rounds == 1):
        raise FormatError(
            f"{read.what}: Merkle paths of {count_of(depth, 'node')} in {count_of(rounds, 'round')} of WHIR"
        )
    word_paths = tuple(read.words(len(word), depth - i, DIGEST) for i, word in enumerate(words))
    final = read.listed(DEGREE)
    return WhirProof(witness, sums, roots, samples, folding, query, rows, row_paths, words, word_paths, final)


class _Writer:
    """Writes an encoding."""

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        self.data.append(value)

    def count(self, value: int) -> None:
        if not 0 <= value < 1 << 32:
            raise ValueError(f"{value} has no 32 bits")
        self.data += struct.pack("<I", value)

    def word(self, value: int) -> None:
        """An element of the base field."""
        if not 0 <= value < P:
            raise ValueError(f"{value} is no canonical element")
        self.count(value)

    def words(self, array: Elements, shape: tuple[int, ...]) -> None:
        """Elements whose number the reader knows."""
        if array.shape != shape:
            raise ValueError(f"an array of the shape {array.shape}, not {shape}")
        if array.size and int(array.max()) >= P:
            raise ValueError("an element that is not canonical")
        self.data += np.ascontiguousarray(array).astype("<u4").tobytes()

    def listed(self, array: Elements, *each: int) -> None:
        """The length of the first axis, and the elements, each item of the shape `each`."""
        self.count(len(array))
        self.words(array, (len(array), *each))


class _Reader:
    """Reads an encoding. Every length is compared with the bytes that are left before anything is made of it."""

    def __init__(self, data: bytes, what: str) -> None:
        self.what = what
        self._data, self._at, self._arrays = memoryview(data), 0, 0

    def byte(self) -> int:
        return self._take(1)[0]

    def count(self) -> int:
        return int(struct.unpack("<I", self._take(4))[0])

    def word(self) -> int:
        if (value := self.count()) >= P:
            raise FormatError(f"{self.what}: an element that is not below {P}")
        return value

    def words(self, *shape: int) -> Elements:
        """Elements in an array of this shape."""
        size = math.prod(shape)
        self._arrays += 1
        if self._arrays > MAX_ARRAYS:
            raise FormatError(f"{self.what}: more than {MAX_ARRAYS} lists")
        if not size and max(shape) > MAX_EMPTY:
            raise FormatError(f"{self.what}: a list of {count_of(max(shape), 'item')} without content")
        words = np.frombuffer(self._take(4 * size), dtype="<u4").astype(np.uint32).reshape(shape)
        if size and int(words.max()) >= P:
            raise FormatError(f"{self.what}: an element that is not below {P}")
        return words

    def listed(self, *each: int) -> Elements:
        """The length of the first axis, and items of the shape `each`."""
        return self.words(self.count(), *each)

    def items(self) -> int:
        """A number of items that are read one by one."""
        if (count := self.count()) > MAX_ITEMS:
            raise FormatError(f"{self.what}: a list of {count_of(count, 'item')}, above {MAX_ITEMS}")
        return count

    def end(self) -> None:
        if self._at != len(self._data):
            raise FormatError(f"{self.what}: {count_of(len(self._data) - self._at, 'byte')} after its end")

    def _take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise FormatError(f"{self.what}: ends early")
        self._at += size
        return self._data[self._at - size : self._at]
