"""The interface of a STARK's kernels: Goldilocks columns, Merkle trees, row programs, openings, FRI.

The field is F_p with p = 2^64 - 2^32 + 1; its extension is F = F_p[x]/(x^3 - x - 1). Every element in an array is
canonical: below p, dtype uint64, never in Montgomery form.

* A base column has shape (n,), n a power of two; a matrix of columns (width, n).
* An extension vector is three base columns, (3, n): coordinates of 1, x, x^2. On the host a single extension element is
  a tuple of three ints, and a list of them has shape (k, 3).
* A low-degree extension has shape (width, B, n), B the blow-up: entry [c, k, j] is column c's polynomial at
  7 w_{Bn}^k w_n^j, where w_m is `root_of_unity(log2 m)`. Its index in the domain's natural order is i = j B + k: the
  point is 7 w_{Bn}^i. So each of the B cosets lies contiguous and in natural order, and "the next row" of [k, j] is
  [k, j + 1 mod n].

Every step to fewer elements maps index i to i mod m: parent i of a Merkle level with m nodes has children i, i + m, ..,
a fold by 2^a maps index i to i mod (B n / 2^a), and a shorter table answers query i with its row i mod (B n').
Positions in arrays follow by the formula above.

Implementations: `kernels.cpu.goldilocks.kernels`, `kernels.cuda.goldilocks.kernels`; reached as `Backend.goldilocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kernels.errors import CompilerMissing, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.row_program import RowProgram
from kernels.interface.row_source import RowSource
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import TWO_ADICITY, Ext, P

SEED_BYTES = 32
MAX_GRIND_BITS = {each: 64 if each is TreeHash.KECCAK else 40 for each in TreeHash}

Elementwise = Literal["add", "sub", "mul"]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class TreeOpening:
    """The opening of a tree at query indices, on the host, with each row and node once; see
    `kernels.maths.query_paths`."""

    rows: tuple[Words, ...]
    """Rows of each matrix, (k, arity * width): its leaves at the k distinct indices modulo their number, ascending.
    The elements are in the order in which they are hashed."""
    path: Bytes
    """The nodes of `QueryPaths.path_of`, (nodes, 32) bytes."""


class MerkleTree(Protocol):
    """A tree over the rows of matrices that stay in the backend. Made by `GoldilocksKernels.commit`."""

    @property
    def root(self) -> bytes:
        """The root digest, 32 bytes; waits for the device."""

    @property
    def log_leaves(self) -> int:
        """log2 of the number of leaves of the tallest matrix."""


class StoredTree(MerkleTree, Protocol):
    """A tree whose arrays may be dropped, moved and made again while its root stays."""

    @property
    def nodes(self) -> Array:
        """The digests of all levels, in the backend's memory."""

    def over(self, matrices: Sequence[Array], nodes: Array) -> StoredTree:
        """The same tree with other copies of its matrices and nodes. Without matrices it keeps its root; its nodes may
        then be elsewhere. If they are not, openings have the path alone."""


@dataclass(frozen=True)
class DeepPoint:
    """One opening point of one table height, for `GoldilocksKernels.deep`."""

    point: Ext
    matrices: tuple[Array, ...] = field(repr=False)
    """Low-degree extensions (w_i, B, n) opened at `point`, in order."""
    weights: Words
    """Weight of each column in the combination, (sum of w_i, 3)."""
    value: Ext
    """The sum over columns of weight * column(point), with `factor` included."""
    factor: Ext = (1, 0, 0)
    """Factor of every weight. Points that share the same `weights` and `matrices` objects, and differ in this alone,
    may cost what one point does."""


@dataclass(frozen=True)
class LdeJob:
    """One table of `GoldilocksKernels.lde_all`; the fields are the arguments of `lde`."""

    columns: Array = field(repr=False)
    coset: int = 1
    out: Array | None = field(default=None, repr=False)

    def check(self, log_blowup: int) -> None:
        """Raise SizeError unless these are columns that the field can extend by 2^log_blowup, and `out` fits."""
        _check_words("columns", self.columns)
        if self.columns.ndim != 2:
            raise SizeError(f"columns have shape (w, n), not {self.columns.shape}")
        width, n = self.columns.shape
        log_n = _log2("rows", n)
        if log_blowup < 0 or log_n + log_blowup > TWO_ADICITY:
            raise SizeError(f"2^{log_n} rows with a blow-up of 2^{log_blowup}: there are 2^{TWO_ADICITY} roots of 1")
        if self.coset % P == 0:
            raise SizeError("the coset 0 has no interpolation")
        if self.out is not None:
            preconditions.writable(self.out, (width, 1 << log_blowup, n))


@dataclass(frozen=True)
class RowJob:
    """One table of `GoldilocksKernels.evaluate_all`; the fields are the arguments of `evaluate`."""

    program: RowProgram
    inputs: Sequence[Array | None] = field(repr=False)
    scalars: Words
    log_cosets: int = 0
    coset_factors: Words | None = None

    def check(self) -> int:
        """Return the number of rows n. Raises SizeError unless inputs, scalars and factors fit the program."""
        program, cosets, n = self.program, 1 << self.log_cosets, 0
        if len(self.inputs) != len(program.widths):
            raise SizeError(f"a program over {len(program.widths)} matrices was given {len(self.inputs)}")
        for i, (width, matrix) in enumerate(zip(program.widths, self.inputs, strict=True)):
            if matrix is None:
                if width:
                    raise SizeError(f"no input for a matrix of {width} columns")
                continue
            _check_words(f"input {i}", matrix)
            shape = matrix.shape if matrix.ndim == 3 else (*matrix.shape[:1], 1, *matrix.shape[1:])
            if len(shape) != 3 or shape[0] != width or shape[1] % cosets or n not in (0, shape[2]):
                raise SizeError(
                    f"input {i} has shape {matrix.shape}, not ({width}, a multiple of {cosets}, {n or 'n'})"
                )
            n = int(shape[2])
            _check_points(int(shape[1]), n)
        if not n:
            raise SizeError("a program needs at least one matrix: it says how many rows there are")
        if self.scalars.shape != (program.scalars, 3):
            raise SizeError(f"a program with {program.scalars} scalars was given {self.scalars.shape}")
        if self.coset_factors is not None and self.coset_factors.shape != (cosets,):
            raise SizeError(f"{cosets} cosets need as many factors, not {self.coset_factors.shape}")
        return n


class GoldilocksKernels(ABC):
    """The Goldilocks kernels of one device. Not thread-safe. Arrays are in the backend's memory unless noted.

    The public methods check what they are given, once for every backend. Sizes that do not fit, or that the kernels do
    not handle, raise SizeError, and missing memory OutOfMemory, before anything is launched.
    """

    def prepare(  # noqa: B027 (one with nothing to prepare is silent)
        self, programs: Iterable[RowProgram] = (), sources: Iterable[RowSource] = ()
    ) -> None:
        """Begin slow preparation for proofs (compilation) in the background. Calling it is optional."""

    def load(self, programs: Iterable[RowProgram]) -> None:  # noqa: B027 (one with nothing to load is silent)
        """Bring the kernels of `programs` to the device, of those that are compiled. Calling it is optional. Only the
        thread that computes may call. Raises OutOfMemory."""

    # -- elementwise, for trace generators ----------------------------------------------------------------------------

    def add(self, a: Array, b: Array) -> Array:
        """Return a + b for base elements of equal shape, or for b of shape (1,), a scalar."""
        return self._apply("add", a, b)

    def sub(self, a: Array, b: Array) -> Array:
        return self._apply("sub", a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return self._apply("mul", a, b)

    def _apply(self, operation: Elementwise, a: Array, b: Array) -> Array:
        _check_words("a", a)
        _check_words("b", b)
        if a.shape != b.shape and b.shape != (1,):
            raise SizeError(f"operands of different shapes: {a.shape} and {b.shape}")
        return self._elementwise(operation, a, b)

    def generate(self, source: RowSource, inputs: Mapping[str, Array], rows: int, *, out: Array | None = None) -> Array:
        """Return (source.width, rows): what the C++ function of `source` writes for each row, given its input arrays.

        `out`: a contiguous array of this shape to write. Raises BackendError with the compiler's messages if the text
        does not compile, CompilerMissing if there is no compiler for it.
        """
        raise CompilerMissing(f"{source.name}: these kernels run no C++")

    # -- polynomials ------------------------------------------------------------------------------------------------

    def lde(self, columns: Array, log_blowup: int, *, coset: int = 1, out: Array | None = None) -> Array:
        """Extend columns (w, n), evaluations in natural order on coset * <w_n>, `coset` an int, to (w, B, n).

        `columns` does not change unless `out` is the same memory. `out`: a contiguous (w, B, n) array to write; with
        blow-up 1 it may be `columns` itself, reshaped: polynomials are then moved from one coset to another in place.
        """
        return self.lde_all([LdeJob(columns, coset, out)], log_blowup)[0]

    def lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Array]:
        """Return `lde` of each job. No job may read or write what another writes.

        On a device that one small table leaves idle, tables share launches, or run side by side.
        """
        for job in jobs:
            job.check(log_blowup)
        return self._lde_all(jobs, log_blowup)

    def selectors(self, log_n: int, log_blowup: int, log_cosets: int) -> Array:
        """Return (3, D, n): is_first, is_last, is_transition on the D = 2^log_cosets cosets with k mod B/D = 0.

        Their values at x are (x^n - 1)/(x - 1), (x^n - 1)/(x - w_n^-1) and x - w_n^-1.
        """
        if not (0 <= log_cosets <= log_blowup and 0 <= log_n <= TWO_ADICITY - log_blowup):
            raise SizeError(f"no selectors for 2^{log_n} rows, blow-up 2^{log_blowup}, 2^{log_cosets} cosets")
        return self._selectors(log_n, log_cosets)

    def evaluate(
        self,
        program: RowProgram,
        inputs: Sequence[Array | None],
        scalars: Words,
        *,
        log_cosets: int = 0,
        coset_factors: Words | None = None,
    ) -> Array:
        """Run `program` on every row; returns (program.output_columns, D, n), D = 2^log_cosets.

        `inputs`: one (width, n) or (width, C, n) array per matrix of the program, None for one without columns; output
        coset t reads coset t * C/D.
        `scalars`: (program.scalars, 3) on the host. `coset_factors`: (D,) base elements on the host; when given, the
        outputs of coset t are multiplied by element t (one over the vanishing polynomial, for a quotient).
        """
        return self.evaluate_all([RowJob(program, inputs, scalars, log_cosets, coset_factors)])[0]

    def evaluate_all(self, jobs: Sequence[RowJob]) -> list[Array]:
        """Return `evaluate` of each job. A device may run the jobs side by side."""
        return self._evaluate_all(jobs, [job.check() for job in jobs])

    def divide(self, numerators: Array, denominators: Array) -> Array:
        """Return the (3 m, n) quotients of two (3 m, n) arrays of extension vectors; zero for a zero denominator."""
        _check_vectors("numerators", numerators)
        _check_vectors("denominators", denominators)
        if numerators.shape != denominators.shape:
            raise SizeError(f"numerators {numerators.shape} and denominators {denominators.shape} differ in shape")
        return self._divide(numerators, denominators)

    def running_sum(self, terms: Array) -> tuple[Array, Ext]:
        """Return the cyclic running sum s (3, n) of (3 m, n) terms t_g, and T, the sum of all terms.

        s[0] = 0 and s[j+1] = s[j] + sum_g t_g[j] - T/n, so that s[n] would be s[0].
        """
        _check_vectors("terms", terms)
        return self._running_sum(terms)

    def count(self, rows: Array, times: Array, counts: Array) -> None:
        """Add times[i] to counts[rows[i]] for every i, as integers: a histogram of `rows`.

        `rows`, `times`: (n,). `counts`: (m,), changed in place. All are contiguous. Rows that `counts` does not have
        count nowhere. The sums are elements as long as they stay below p.
        """
        for what, array in (("rows", rows), ("times", times)):
            _check_words(what, array)
            preconditions.contiguous(array, what)
        if rows.ndim != 1 or times.shape != rows.shape or counts.ndim != 1:
            raise SizeError(f"rows {rows.shape} and times {times.shape} are not counted into {counts.shape}")
        preconditions.writable(counts, counts.shape)
        self._count(rows, times, counts)

    def evaluate_at(
        self, matrices: Sequence[Array], point: Ext, *, next_row: Sequence[Sequence[int]] | None = None
    ) -> list[Words]:
        """Open each extension (w_i, B, n_i) at `point`, and its columns next_row[i] at w_n * point too.

        Returns host arrays (w_i + len(next_row[i]), 3): the values of all columns, then those at the second point. The
        columns of each next_row[i] ascend; None means none. Uses the barycentric formula on coset 0, on which `point`
        must not lie.
        """
        result, opened = opened_columns(matrices, next_row)
        self._evaluate_at(opened, point)
        return result

    def combine(self, matrices: Sequence[Array], weights: Words, out: Array | None = None) -> Array:
        """Return (3, n), in `out` if it is given: the sum over all columns of weight * column, on coset 0.

        `matrices`: extensions (w_i, C_i, n), in order. `weights`: (sum of w_i, 3) on the host.
        """
        n = int(matrices[0].shape[-1]) if matrices else 0
        if not n or any(m.ndim != 3 or m.shape[2] != n or m.dtype != _WORD for m in matrices):
            raise SizeError(f"columns of one height were expected, not of shapes {[m.shape for m in matrices]}")
        _check_points(1, n)
        _check_weights(weights, matrices)
        if out is not None:
            preconditions.writable(out, (3, n))
        return self._combine(matrices, weights, out)

    def deep(self, points: Sequence[DeepPoint], *, polynomial: bool = False) -> Array:
        """Return (3, B, n): the sum over points of (combination(x) - value) / (x - point).

        Consecutive points that share the same `matrices` objects have them read once per row where possible; see
        `DeepPoint.factor`. `polynomial` says that the sum is a polynomial of degree below n, as it is when all values
        are those of the columns' polynomials: it may then be computed on one coset and extended.
        """
        rows = next((m.shape[1:] for p in points for m in p.matrices), ())
        if len(rows) != 2 or any(m.shape[1:] != rows or m.dtype != _WORD for p in points for m in p.matrices):
            shapes = [m.shape for p in points for m in p.matrices]
            raise SizeError(f"extensions of one height were expected, not of shapes {shapes}")
        _check_points(*rows)
        for p in points:
            _check_weights(p.weights, p.matrices)
        return self._deep_polynomial(points, (3, *rows)) if polynomial else self._deep(points, (3, *rows))

    def fold(self, codeword: Array, log_arity: int, beta: Ext, *, add: Array | None = None) -> Array:
        """Fold a FRI codeword (3, B, n) to (3, B, n / 2^log_arity).

        The codeword is f, and index i stands for h = w_{Bn}^i (the shift 7 is divided out once and for all). A fold by
        two is f'(h^2) = (f(h) + f(-h)) / 2 + beta (f(h) - f(-h)) / (2 h); a fold by 2^a is `a` of these, with beta
        squared each time. `add`, of the result's shape, is added times beta^(2^log_arity).
        """
        _check_words("codeword", codeword)
        if codeword.ndim != 3 or codeword.shape[0] != 3 or log_arity < 0 or codeword.shape[2] >> log_arity == 0:
            raise SizeError(f"a codeword {codeword.shape} cannot be folded by 2^{log_arity}")
        _, blowup, n = map(int, codeword.shape)
        _check_points(blowup, n)
        if add is not None and add.shape != (3, blowup, n >> log_arity):
            raise SizeError(f"what is added to a fold {(3, blowup, n >> log_arity)} has another shape: {add.shape}")
        return self._fold(codeword, log_arity, beta, add)

    # -- commitments ------------------------------------------------------------------------------------------------

    def commit(
        self, matrices: Sequence[Array], *, log_arity: int = 0, tree_hash: TreeHash = TreeHash.KECCAK
    ) -> StoredTree:
        """Make a tree over matrices (w_i, B, n_i) with one B.

        Leaf i of a matrix is its row i; with log_arity = a (one matrix only) leaf i < B n / 2^a holds the rows
        i + t B n / 2^a for t = 0 .. 2^a - 1, in this order, and counts as a matrix of width 2^a w. A leaf is
            H(u32[LEAF_TAG + 256 * count], u32 width of each, zero-padded to 8 bytes; elements as u64, all LE)
        over the `count` matrices that have this height, in the given order. The lowest level is the leaves of the
        tallest. The levels above have the sizes of `TreeHash.levels`; a node of a level of m nodes is
            node_i = N(NODE_TAG; child_i, child_{i + m}, ..)
        and where m is the height B n' of shorter matrices, node_i is replaced by
            N(INJECT_TAG; node_i, leaf_i of these).

        Keccak: H is Keccak-256 with the original padding, N(tag; a, b) = H(u64 tag, a, b).
        Poseidon2 (P, its permutation of 16 elements, digests of four): H over w words starts from zeros with 1 and w as
        elements 12 and 13; every 12 words, the last ones followed by zeros, replace elements 0 to 11 before P; elements
        0 to 3 are the digest. N of four is x + P(x) in elements 0 to 3, x the four digests one after the other; N of
        two is N of these, (tag, 0, 0, 0) and zeros.
        Poseidon2 over BN254 (P, its permutation of 3 elements, digests of one): H over w words starts from zeros with
        1 + 2^64 w as element 2; every 6 words, the last ones followed by zeros, replace elements 0 and 1 before P,
        three words an element; element 0 is the digest. N(tag; a, b) is element 0 of P(a, b, tag).
        """
        if not matrices:
            raise SizeError("a tree of no matrix")
        for matrix in matrices:
            _check_words("a tree's matrix", matrix)
            if matrix.ndim != 3 or 0 in matrix.shape:
                raise SizeError(f"a tree takes matrices (width, blow-up, n), not shape {matrix.shape}")
            _log2("blow-up", int(matrix.shape[1]))
            _log2("rows", int(matrix.shape[2]))
        if any(m.shape[1] != matrices[0].shape[1] for m in matrices):
            raise SizeError("the matrices of one tree have one blow-up")
        rows = int(matrices[0].shape[1] * matrices[0].shape[2])
        if log_arity < 0 or (log_arity and (len(matrices) > 1 or rows >> log_arity == 0)):
            raise SizeError(f"no tree over {len(matrices)} matrices, {rows} rows the first, has arity 2^{log_arity}")
        return self._commit(matrices, log_arity, tree_hash)

    def open(self, trees: Sequence[MerkleTree], indices: Sequence[int] | NDArray[np.int64]) -> list[TreeOpening]:
        """Open each tree at `indices`, natural numbers below 2^63 which may repeat: index i is leaf i mod 2^log_leaves
        of the tallest matrix, in natural order."""
        try:
            at = np.array(indices, dtype=np.int64)
        except OverflowError:
            at = np.array([-1])
        if len(at) and at.min() < 0:
            raise SizeError("an index of a query is a natural number below 2^63")
        return self._open_trees(trees, at)

    def grind(self, seed: bytes, bits: int, *, tree_hash: TreeHash = TreeHash.KECCAK) -> int:
        """Return the least nonce that does the work of `bits` bits for a seed of 32 bytes.

        Keccak: keccak256(u64 GRIND_TAG, seed, u64 nonce) has `bits` leading zero bits (first byte's high bits first).
        Poseidon2: the low `bits` bits of element 0 of P(seed, nonce, zeros, GRIND_TAG as element 12, zeros) are zero;
        the seed is four elements, and the nonce is one.
        Poseidon2 over BN254: the low `bits` bits of element 0 of P(seed, nonce, GRIND_TAG) are zero.
        """
        if len(seed) != SEED_BYTES or not 0 <= bits <= MAX_GRIND_BITS[tree_hash]:
            most = MAX_GRIND_BITS[tree_hash]
            raise SizeError(f"grinding takes {SEED_BYTES} bytes and 0 to {most} bits, not {len(seed)} and {bits}")
        return self._grind(seed, bits, tree_hash)

    # -- what a backend implements, on checked arguments ------------------------------------------------------------

    @abstractmethod
    def _elementwise(self, operation: Elementwise, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def _lde_all(self, jobs: Sequence[LdeJob], log_blowup: int) -> list[Array]: ...

    @abstractmethod
    def _selectors(self, log_n: int, log_cosets: int) -> Array: ...

    @abstractmethod
    def _evaluate_all(self, jobs: Sequence[RowJob], rows: Sequence[int]) -> list[Array]: ...

    @abstractmethod
    def _divide(self, numerators: Array, denominators: Array) -> Array: ...

    @abstractmethod
    def _running_sum(self, terms: Array) -> tuple[Array, Ext]: ...

    @abstractmethod
    def _count(self, rows: Array, times: Array, counts: Array) -> None: ...

    @abstractmethod
    def _evaluate_at(self, opened: OpenedRuns, point: Ext) -> None: ...

    @abstractmethod
    def _combine(self, matrices: Sequence[Array], weights: Words, out: Array | None) -> Array: ...

    @abstractmethod
    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Array: ...

    def _deep_polynomial(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Array:
        return self._deep(points, shape)

    @abstractmethod
    def _fold(self, codeword: Array, log_arity: int, beta: Ext, add: Array | None) -> Array: ...

    @abstractmethod
    def _commit(self, matrices: Sequence[Array], log_arity: int, tree_hash: TreeHash) -> StoredTree: ...

    @abstractmethod
    def _open_trees(self, trees: Sequence[MerkleTree], indices: NDArray[np.int64]) -> list[TreeOpening]: ...

    @abstractmethod
    def _grind(self, seed: bytes, bits: int, tree_hash: TreeHash) -> int: ...


_WORD = np.dtype(np.uint64)


def _check_words(what: str, array: Array) -> None:
    if array.dtype != _WORD:
        raise SizeError(f"{what}: Goldilocks elements are an array of uint64, not {array.dtype}")


def _check_vectors(what: str, array: Array) -> None:
    """Raise SizeError unless `array` holds extension vectors, (3 m, n)."""
    _check_words(what, array)
    if array.ndim != 2 or array.shape[0] % 3:
        raise SizeError(f"{what}: an array of shape {array.shape} does not hold extension vectors")
    _check_points(1, int(array.shape[1]))


def _check_points(cosets: int, n: int) -> None:
    """Raise SizeError unless both are powers of two and the field has as many points as there are rows altogether."""
    rows = cosets * n
    if rows < 1 or rows > 1 << TWO_ADICITY or rows & (rows - 1):
        raise SizeError(
            f"{n} rows on {cosets} cosets: each is a power of two, and there are 2^{TWO_ADICITY} roots of 1"
        )


def _check_weights(weights: Words, matrices: Sequence[Array]) -> None:
    width = sum([int(m.shape[0]) for m in matrices])
    if weights.shape != (width, 3):
        raise SizeError(f"{width} columns need as many weights, not {weights.shape}")


def _log2(what: str, size: int) -> int:
    if size < 1 or size & (size - 1):
        raise SizeError(f"{size} is not a power of two ({what})")
    return size.bit_length() - 1


def column_runs(width: int, chosen: Sequence[int]) -> list[tuple[range, bool]]:
    """Cut a matrix's columns into runs of neighbours that are all `chosen` or all not; returns each run and which."""
    flags = np.zeros(width, dtype=np.bool_)
    flags[list(chosen)] = True
    edges = [0, *(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), width]
    return [(range(begin, end), bool(flags[begin])) for begin, end in pairwise(edges) if begin < end]


@dataclass(frozen=True)
class OpenedColumns:
    """A run of neighbouring columns that `GoldilocksKernels.evaluate_at` opens at the same points."""

    columns: Array = field(repr=False)
    """Columns of an extension, (k, B, n)."""
    outs: tuple[Words, ...]
    """Arrays (k, 3), one for each point, to which the values are written."""

    def put(self, values: Words) -> None:
        """Write the values (k, points, 3) to `outs`."""
        for point, out in enumerate(self.outs):
            out[...] = values[:, point]


OpenedRuns = dict[tuple[int, int], list[OpenedColumns]]
"""Runs of columns by their rows n and the number of points, one or two, at which they are opened."""


def opened_columns(
    matrices: Sequence[Array], next_row: Sequence[Sequence[int]] | None
) -> tuple[list[Words], OpenedRuns]:
    """Return the result of `GoldilocksKernels.evaluate_at` as zeros, and the runs that fill it by (n, points).

    Raises SizeError if matrices or columns are not as `evaluate_at` takes them.
    """
    chosen = [()] * len(matrices) if next_row is None else next_row
    if len(chosen) != len(matrices) or any(m.ndim != 3 for m in matrices):
        raise SizeError(f"matrices of shapes {[m.shape for m in matrices]} and {len(chosen)} sets of columns")
    result = []
    runs: OpenedRuns = {}
    for matrix, columns in zip(matrices, chosen, strict=True):
        _check_words("a matrix", matrix)
        width, n, later = int(matrix.shape[0]), int(matrix.shape[2]), 0
        _check_points(int(matrix.shape[1]), n)
        if any(b <= a for a, b in pairwise((-1, *columns, width))):
            raise SizeError(f"columns {list(columns)} of {width} are not ascending ones of the matrix")
        values = np.zeros((width + len(columns), 3), dtype=np.uint64)
        result.append(values)
        for run, both in column_runs(width, columns):
            outs = [values[run.start : run.stop]]
            if both:
                outs.append(values[width + later :][: len(run)])
                later += len(run)
            opened = OpenedColumns(matrix[run.start : run.stop], tuple(outs))
            runs.setdefault((n, len(outs)), []).append(opened)
    return result, runs
