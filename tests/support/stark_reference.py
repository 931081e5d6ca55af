"""The definition of `GoldilocksKernels`, executable: NumPy, a plain Keccak library and Poseidon2 in Python
integers, nothing of ours native.

Slow and simple: every method follows the interface's text, one formula at a time. The real backends are compared with
it, and the proof system can be run on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
from Crypto.Hash import keccak

from distprove.stark import field
from distprove.stark.field import P
from distprove.stark.merkle import TreeClaim, TreeShape, openings_hold
from kernels.cpu.backend import CpuBackend
from kernels.errors import SizeError
from kernels.interface.goldilocks import (
    Bytes,
    DeepPoint,
    Elementwise,
    GoldilocksKernels,
    LdeJob,
    MerkleTree,
    OpenedRuns,
    RowJob,
    TreeOpening,
    Words,
)
from kernels.interface.row_program import Op
from kernels.interface.tree_hash import GRIND_TAG, INJECT_TAG, LEAF_TAG, NODE_TAG, TreeHash
from kernels.maths.goldilocks import GENERATOR, Ext, root_of_unity
from kernels.maths.query_paths import QueryPaths
from tests.support import plain_poseidon2, plain_poseidon2_bn254


def keccak256(data: bytes) -> bytes:
    return keccak.new(data=data, digest_bits=256).digest()


def elements(data: bytes) -> list[int]:
    """The little-endian 64-bit words of `data`."""
    return [int(word) for word in np.frombuffer(data, dtype="<u8")]


def to_bytes(words: Sequence[int]) -> bytes:
    return np.array(words, dtype="<u8").tobytes()


def opening_holds(shape: TreeShape, root: bytes, indices: Sequence[int], rows: Sequence[Words], path: Bytes) -> bool:
    """The verifier's check of a single tree."""
    return openings_hold(
        [TreeClaim(shape, root, TreeOpening(tuple(rows), path))], QueryPaths(indices, shape.log_leaves)
    )


def log2(n: int) -> int:
    log = n.bit_length() - 1
    if n != 1 << log:
        raise SizeError(f"{n} is not a power of two")
    return log


def power(a: Words, exponent: int) -> Words:
    """a^exponent, elementwise, for an exponent of at least 0."""
    result = np.ones_like(a)
    for bit in f"{exponent:b}":
        result = field.mul(result, result)
        if bit == "1":
            result = field.mul(result, a)
    return result


def ntt(columns: Words, root: int) -> Words:
    """out[..., i] = sum_j columns[..., j] root^(i j), by halves."""
    n = columns.shape[-1]
    if n == 1:
        return columns.copy()
    even, odd = ntt(columns[..., ::2], root * root % P), ntt(columns[..., 1::2], root * root % P)
    odd = field.mul(odd, field.powers(root, n // 2))
    return np.concatenate((field.add(even, odd), field.sub(even, odd)), axis=-1)


def interpolate(columns: Words, shift: int = 1) -> Words:
    """Coefficients of the polynomials with these values on shift * <w_n>."""
    n = columns.shape[-1]
    scale = field.mul(field.powers(pow(shift, -1, P), n), np.uint64(pow(n, -1, P)))
    return field.mul(ntt(columns, pow(root_of_unity(log2(n)), -1, P)), scale)


def domain(log_n: int, log_blowup: int) -> Words:
    """(B, n): the points of the extension's domain."""
    cosets = [GENERATOR * pow(root_of_unity(log_n + log_blowup), k, P) % P for k in range(1 << log_blowup)]
    row = field.powers(root_of_unity(log_n), 1 << log_n)
    return np.stack([field.mul(row, np.uint64(c)) for c in cosets])


def vector(ext: Ext) -> Words:
    return np.array(ext, dtype=np.uint64)


def _to_32_bytes(number: int) -> bytes:
    return number.to_bytes(32, "little")


class ReferenceTree:
    def __init__(self, matrices: Sequence[Words], log_arity: int, tree_hash: TreeHash = TreeHash.KECCAK) -> None:
        self._hash = tree_hash
        # In natural order: i = j B + k.
        self.rows = [self._leaves(m, log_arity) for m in matrices]
        sizes = [len(r) for r in self.rows]
        stops = {*sizes, int(matrices[0].shape[1]), 1}
        size = max(sizes)
        self.levels = [self._hash_rows(size)]
        while size > 1:
            binary = tree_hash is not TreeHash.POSEIDON2 or size == 2 or size // 2 in stops
            size //= 2 if binary else 4
            below = self.levels[-1]
            level = [self._node(below[i::size]) for i in range(size)]
            if size in sizes:
                leaves = self._hash_rows(size)
                level = [self._node(each, INJECT_TAG) for each in zip(level, leaves, strict=True)]
            self.levels.append(level)

    def _node(self, children: Sequence[bytes], tag: int = NODE_TAG) -> bytes:
        if self._hash is TreeHash.KECCAK:
            return keccak256(tag.to_bytes(8, "little") + b"".join(children))
        if self._hash is TreeHash.POSEIDON2_BN254:
            return _to_32_bytes(plain_poseidon2_bn254.node([int.from_bytes(c, "little") for c in children], tag))
        return to_bytes(plain_poseidon2.node([elements(child) for child in children], tag))

    @staticmethod
    def _leaves(matrix: Words, log_arity: int) -> Words:
        natural = matrix.transpose(2, 1, 0).reshape(-1, matrix.shape[0])
        count = len(natural) >> log_arity
        return natural.reshape(1 << log_arity, count, -1).transpose(1, 0, 2).reshape(count, -1)

    def _hash_rows(self, size: int) -> list[bytes]:
        here = [r for r in self.rows if len(r) == size]
        header = [LEAF_TAG + 256 * len(here), *(r.shape[1] for r in here)]
        header += [0] * (len(header) % 2)
        head = np.array(header, dtype="<u4").tobytes()
        messages = [head + b"".join(r[i].astype("<u8").tobytes() for r in here) for i in range(size)]
        if self._hash is TreeHash.KECCAK:
            return [keccak256(message) for message in messages]
        if self._hash is TreeHash.POSEIDON2_BN254:
            return [_to_32_bytes(plain_poseidon2_bn254.sponge(elements(message))) for message in messages]
        return [to_bytes(plain_poseidon2.sponge(elements(message))) for message in messages]

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    @property
    def log_leaves(self) -> int:
        return log2(len(self.levels[0]))

    def open(self, indices: Sequence[int]) -> TreeOpening:
        rows = tuple(r[sorted({i % len(r) for i in indices})] for r in self.rows)
        nodes = []
        for level, above in pairwise(self.levels):
            known = {i % len(level) for i in indices}
            children = {i % len(above) + t for i in known for t in range(0, len(level), len(above))}
            nodes += [level[i] for i in sorted(children - known)]
        return TreeOpening(rows, np.frombuffer(b"".join(nodes), dtype=np.uint8).reshape(-1, 32))


class ReferenceKernels(GoldilocksKernels):
    def _open_trees(self, trees: Sequence[MerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
        ours = cast("Sequence[ReferenceTree]", trees)
        return [tree.open([i & ((1 << tree.log_leaves) - 1) for i in indices]) for tree in ours]

    def _elementwise(self, operation: Elementwise, a: Words, b: Words) -> Words:
        return {"add": field.add, "sub": field.sub, "mul": field.mul}[operation](a, b)

    def _lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Words]:
        return [self._lde(job, log_blowup) for job in jobs]

    def _lde(self, job: LdeJob, log_blowup: int) -> Words:
        n, coefficients = job.columns.shape[1], interpolate(job.columns, job.coset)
        result = np.empty((len(job.columns), 1 << log_blowup, n), dtype=np.uint64) if job.out is None else job.out
        for k in range(1 << log_blowup):
            shift = GENERATOR * pow(root_of_unity(log2(n) + log_blowup), k, P) % P
            result[:, k] = ntt(field.mul(coefficients, field.powers(shift, n)), root_of_unity(log2(n)))
        return result

    def _selectors(self, log_n: int, log_cosets: int) -> Words:
        x = domain(log_n, log_cosets)
        one, last = np.uint64(1), np.uint64(pow(root_of_unity(log_n), -1, P))
        vanishing = field.sub(power(x, 1 << log_n), one)
        before_last = field.sub(x, last)
        first = field.mul(vanishing, field.inverse(field.sub(x, one)))
        return np.stack((first, field.mul(vanishing, field.inverse(before_last)), before_last))

    def _evaluate_all(self, jobs: Sequence[RowJob], rows: Sequence[int]) -> list[Words]:
        return [self._evaluate(job) for job in jobs]

    def _evaluate(self, job: RowJob) -> Words:
        program, scalars = job.program, job.scalars
        cubes = [None if m is None else m[:, None] if m.ndim == 2 else m for m in job.inputs]
        cosets = [None if m is None else m[:, :: m.shape[1] >> job.log_cosets] for m in cubes]
        shape = next(m.shape[1:] for m in cosets if m is not None)
        values: list[Words] = []
        for op, a, b, c in program.code.tolist():
            if op == Op.LOAD:
                values.append(np.roll(cosets[a][b], -c, axis=-1))  # type: ignore[index]
            elif op == Op.CONST:
                values.append(np.full(shape, program.constants[a], dtype=np.uint64))
            elif op == Op.SCALAR:
                values.append(np.broadcast_to(scalars[a], (*shape, 3)))
            elif op == Op.BASE_SCALAR:
                values.append(np.full(shape, scalars[a][0], dtype=np.uint64))
            else:
                values.append(_arithmetic(Op(op), values[a], values[b]))
        if program.fold is not None:
            total = np.zeros((*shape, 3), dtype=np.uint64)
            for w, v in zip(scalars[program.fold :], program.outputs, strict=False):
                total = field.add(total, _arithmetic(Op.MUL, np.broadcast_to(w, total.shape), values[v]))
            columns = list(np.moveaxis(total, -1, 0))
        else:
            columns = []
            for v in program.outputs:
                columns += list(np.moveaxis(values[v], -1, 0)) if values[v].ndim == 3 else [values[v]]
        out = np.stack(columns)
        return out if job.coset_factors is None else field.mul(out, job.coset_factors[None, :, None])

    def _divide(self, numerators: Words, denominators: Words) -> Words:
        n = numerators.shape[-1]
        a, b = (np.moveaxis(v.reshape(-1, 3, n), 1, -1) for v in (numerators, denominators))
        return np.moveaxis(field.ext_mul(a, field.ext_inverse(b)), -1, 1).reshape(-1, n)

    def _running_sum(self, terms: Words) -> tuple[Words, Ext]:
        n = terms.shape[-1]
        per_row = [field.e_sum([tuple(map(int, t)) for t in row.reshape(-1, 3)]) for row in terms.T]
        whole = field.e_sum(per_row)
        share = field.e_scale(whole, pow(n, -1, P))
        sums = [field.ZERO]
        for term in per_row[:-1]:
            sums.append(field.e_sub(field.e_add(sums[-1], term), share))
        return np.array(sums, dtype=np.uint64).T.copy(), whole

    def _count(self, rows: Words, times: Words, counts: Words) -> None:
        for row, often in zip(rows.tolist(), times.tolist(), strict=True):
            if row < len(counts):
                counts[row] += np.uint64(often)

    def evaluate_at(
        self, matrices: Sequence[Words], point: Ext, *, next_row: Sequence[Sequence[int]] | None = None
    ) -> list[Words]:
        out = []
        for m, later in zip(matrices, next_row or [()] * len(matrices), strict=True):
            n = m.shape[2]
            here, after = (
                np.array(field.e_powers(x, n), dtype=np.uint64)
                for x in (point, field.e_scale(point, root_of_unity(log2(n))))
            )
            coefficients = interpolate(np.ascontiguousarray(m[:, 0]), GENERATOR)
            asked = [(here, c) for c in coefficients] + [(after, coefficients[c]) for c in later]
            values = [field.total(field.ext_scale(powers, c)) for powers, c in asked]
            out.append(np.array(values, dtype=np.uint64).reshape(-1, 3))
        return out

    def _evaluate_at(self, opened: OpenedRuns, point: Ext) -> None:
        raise AssertionError("not reached: `evaluate_at` is computed here column by column, not in runs")

    def _combine(self, matrices: Sequence[Words], weights: Words, out: Words | None) -> Words:
        assert out is None, "a reference gives what it has made"
        columns = np.concatenate([m[:, 0] for m in matrices])
        total = np.zeros((columns.shape[1], 3), dtype=np.uint64)
        for w, column in zip(weights, columns, strict=True):
            total = field.add(total, field.mul(column[:, None], w))
        return np.ascontiguousarray(total.T)

    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Words:
        x = field.embed(domain(log2(shape[2]), log2(shape[1])))
        result = np.zeros(shape, dtype=np.uint64)
        for p in points:
            columns = np.concatenate(p.matrices)
            total = np.zeros_like(x)
            for w, column in zip(field.ext_mul(p.weights, vector(p.factor)), columns, strict=True):
                total = field.add(total, field.mul(column[..., None], w))
            quotient = field.ext_mul(
                field.sub(total, vector(p.value)), field.ext_inverse(field.sub(x, vector(p.point)))
            )
            result[...] = field.add(result, np.moveaxis(quotient, -1, 0))
        return result

    def _fold(self, codeword: Words, log_arity: int, beta: Ext, add: Words | None) -> Words:
        f = np.moveaxis(codeword, 0, -1)  # (B, n, 3)
        for _ in range(log_arity):
            blowup, n, _ = f.shape
            inverse_points = field.inverse(field.mul(domain(log2(n), log2(blowup)), np.uint64(pow(GENERATOR, -1, P))))[
                :, : n // 2
            ]
            half = np.uint64(pow(2, -1, P))
            a, b = f[:, : n // 2], f[:, n // 2 :]
            even = field.mul(field.add(a, b), half)
            odd = field.ext_scale(field.mul(field.sub(a, b), half), inverse_points)
            f = field.add(even, field.ext_mul(odd, vector(beta)))
            beta = field.e_mul(beta, beta)
        if add is not None:
            f = field.add(f, field.ext_mul(np.moveaxis(add, 0, -1), vector(beta)))
        return np.ascontiguousarray(np.moveaxis(f, -1, 0))

    def _commit(self, matrices: Sequence[Words], log_arity: int, tree_hash: TreeHash) -> ReferenceTree:
        return ReferenceTree(matrices, log_arity, tree_hash)

    def _grind(self, seed: bytes, bits: int, tree_hash: TreeHash) -> int:
        head = GRIND_TAG.to_bytes(8, "little") + seed
        nonce = 0
        if tree_hash is TreeHash.POSEIDON2_BN254:
            number = int.from_bytes(seed, "little")
            while not plain_poseidon2_bn254.works(number, nonce, bits, GRIND_TAG):
                nonce += 1
            return nonce
        if tree_hash is not TreeHash.KECCAK:
            while not plain_poseidon2.works(elements(seed), nonce, bits, GRIND_TAG):
                nonce += 1
            return nonce
        while int.from_bytes(keccak256(head + nonce.to_bytes(8, "little"))[:8], "big") >> (64 - bits):
            nonce += 1
        return nonce


def _arithmetic(op: Op, a: Words, b: Words) -> Words:
    """ADD, SUB or MUL of values (B, n) or (B, n, 3), the base one embedded when they differ."""
    if a.ndim == b.ndim == 2:
        return {Op.ADD: field.add, Op.SUB: field.sub, Op.MUL: field.mul}[op](a, b)
    a, b = (field.embed(v) if v.ndim == 2 else v for v in (a, b))
    return {Op.ADD: field.add, Op.SUB: field.sub, Op.MUL: field.ext_mul}[op](a, b)


class ReferenceBackend(CpuBackend):
    """The CPU's memory with the reference's kernels."""

    def __init__(self, threads: int = 1) -> None:
        super().__init__(threads)
        self._reference = ReferenceKernels()
        # Row functions are C++ by nature: traces are made by it, whoever proves them.
        self._reference.generate = super().goldilocks.generate  # type: ignore[method-assign]

    @property
    def goldilocks(self) -> ReferenceKernels:
        return self._reference
