"""The product of a sparse matrix and a vector of points on the device, by `cuda/src/sparse_points.cu`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import Device
from kernels.cuda.points import group_source, normalise, sum_limbs
from kernels.errors import SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Field, Group

BATCH = 1 << 20
"""Sums that are computed at a time. Bounds the XYZZ scratch at 128 to 384 MiB."""
SEGMENT = 16
"""Most entries that one thread adds up. The sums of a longer row's segments are entries of the next round."""
SKIP = 2**32 - 1
"""Code of an entry that adds nothing. Must equal SKIP in sparse_points.cu."""
UNIT_BITS = 2
"""Length of the triple of one, the only one of this length."""
_MOST_CODES = SKIP // 2

Indices = NDArray[np.uint32]


@dataclass(frozen=True)
class _Coefficients:
    """The distinct values of a matrix, each as a sign and the smaller one of k and r - k."""

    values: Indices
    """(distinct, 8) uint32."""
    triples: Indices
    """Three times `values`."""
    negative: NDArray[np.bool_]
    bits: NDArray[np.uint16]
    """Length of each of `triples`."""

    @classmethod
    def of(cls, field: Field, values: HostArray) -> _Coefficients:
        """From canonical integers, (distinct, limbs) uint64. Those of a scalar field leave room for the triple of the
        smaller half."""
        words = np.ascontiguousarray(values, dtype="<u8").view("<u4").astype(np.uint64)
        opposite = _minus(_words_of(field.modulus, words.shape[1]), words)
        negative = _less(opposite, words)
        small = np.where(negative[:, None], opposite, words)
        triple, carry = np.empty_like(small), np.zeros(len(small), np.uint64)
        for i in range(small.shape[1]):
            carry += np.uint64(3) * small[:, i]
            triple[:, i] = carry & np.uint64(0xFFFFFFFF)
            carry >>= np.uint64(32)
        bits = np.zeros(len(small), np.uint16)
        for i in range(small.shape[1]):
            _, length = np.frexp(triple[:, i].astype(np.float64))  # exact for 32 bits
            bits = np.where(triple[:, i] > 0, 32 * i + length, bits).astype(np.uint16)
        return cls(small.astype(np.uint32), triple.astype(np.uint32), negative, bits)


def sparse_product(device: Device, curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray) -> HostArray:
    """matrix @ points for checked arguments, (rows, point_limbs) uint64 on the host. Raises OutOfMemory, SizeError."""
    source = group_source("sparse_points", curve, group)
    device.prepare(source)
    device.prepare(group_source("point_batch", curve, group))
    if not matrix.rows:
        return np.empty((0, curve.point_limbs(group)), np.uint64)
    coefficients = _Coefficients.of(curve.fr, matrix.values)
    here = device.upload(points) if len(points) else device.empty((1, curve.point_limbs(group)))
    codes, others = _codes(matrix, coefficients)
    multiples = _multiples(device, curve, group, here, matrix, coefficients, others)
    return _row_sums(device, curve, group, (here, len(points), multiples), codes, matrix.row_ptr)


def _codes(matrix: CsrMatrix, coefficients: _Coefficients) -> tuple[Indices, NDArray[np.int64]]:
    """The code of each entry, and the entries whose multiples have to be computed, the longest coefficients first."""
    bits, which = coefficients.bits, matrix.value_index
    others = np.flatnonzero((bits > UNIT_BITS)[which])
    others = others[np.argsort(np.uint16(1 << 15) - bits[which[others]], kind="stable")]
    if matrix.cols + len(others) > _MOST_CODES:
        raise SizeError(f"{matrix.cols} points and {len(others)} multiples of them are more than {_MOST_CODES}")
    numbers = matrix.columns.copy()
    numbers[others] = np.uint32(matrix.cols) + np.arange(len(others), dtype=np.uint32)
    codes = (numbers << np.uint32(1)) | coefficients.negative[which].astype(np.uint32)
    codes[bits[which] == 0] = SKIP
    return codes, others


def _multiples(
    device: Device,
    curve: Curve,
    group: Group,
    points: Array,
    matrix: CsrMatrix,
    coefficients: _Coefficients,
    others: NDArray[np.int64],
) -> Array:
    """The points of the entries `others` times the smaller ones of their coefficients, on the device."""
    out = device.empty((max(1, len(others)), curve.point_limbs(group)))
    kernel = device.kernel(group_source("sparse_points", curve, group), "sparse_multiples")
    values, triples = device.upload(coefficients.values), device.upload(coefficients.triples)
    for first in range(0, len(others), BATCH):
        part = others[first : first + BATCH]
        columns, which = device.upload(matrix.columns[part]), device.upload(matrix.value_index[part])
        sums = device.empty((len(part), sum_limbs(curve, group)))
        kernel.launch_items(len(part), (points, columns, which, values, triples, np.uint32(len(part)), sums))
        normalise(device, curve, group, sums, out[first : first + len(part)])
    return out


def _row_sums(
    device: Device,
    curve: Curve,
    group: Group,
    vectors: tuple[Array, int, Array],
    codes: Indices,
    row_ptr: Indices,
) -> HostArray:
    """The sums of rows of codes, which name points of `vectors`: the points, how many they are, and the multiples."""
    points, count, multiples = vectors
    ends = row_ptr[1:].astype(np.int64)
    begins = row_ptr[:-1].astype(np.int64)
    segments = np.maximum(1, -(-(ends - begins) // SEGMENT))
    last = np.cumsum(segments)
    begin = np.repeat(begins - SEGMENT * (last - segments), segments) + SEGMENT * np.arange(last[-1])
    end = np.minimum(begin + SEGMENT, np.repeat(ends, segments))
    kernel = device.kernel(group_source("sparse_points", curve, group), "sparse_sums")
    here = device.upload(codes) if len(codes) else device.empty((1,), np.uint32)
    out = np.empty((len(begin), curve.point_limbs(group)), np.uint64)
    for first in range(0, len(begin), BATCH):
        bounds = [device.upload(each[first : first + BATCH].astype(np.uint32)) for each in (begin, end)]
        n = int(bounds[0].shape[0])
        sums, affine = device.empty((n, sum_limbs(curve, group))), device.empty((n, curve.point_limbs(group)))
        kernel.launch_items(n, (points, np.uint32(count), multiples, here, *bounds, np.uint32(n), sums))
        normalise(device, curve, group, sums, affine)
        out[first : first + n] = device.download(affine)
    rows: HostArray = out[last - segments]
    long = np.flatnonzero(segments > 1)
    if long.size:
        chosen = np.repeat(segments > 1, segments)
        partial = device.upload(out[chosen])
        inner = np.concatenate([[0], np.cumsum(segments[long])]).astype(np.uint32)
        codes = np.arange(inner[-1], dtype=np.uint32) << np.uint32(1)
        rows[long] = _row_sums(device, curve, group, (partial, len(codes), partial), codes, inner)
    return rows


def _words_of(value: int, words: int) -> NDArray[np.uint64]:
    return np.frombuffer(value.to_bytes(4 * words, "little"), dtype="<u4").astype(np.uint64)


def _minus(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """a - b for (n, words) `b` of 32-bit words, none more than `a`, (words,)."""
    out, borrow = np.empty_like(b), np.zeros(len(b), np.uint64)
    for i in range(b.shape[1]):
        difference = a[i] - b[:, i] - borrow  # modulo 2^64
        out[:, i] = difference & np.uint64(0xFFFFFFFF)
        borrow = difference >> np.uint64(63)
    return out


def _less(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows of `a` are less than those of `b`."""
    less, equal = np.zeros(len(a), np.bool_), np.ones(len(a), np.bool_)
    for i in reversed(range(a.shape[1])):
        less |= equal & (a[:, i] < b[:, i])
        equal &= a[:, i] == b[:, i]
    return less
