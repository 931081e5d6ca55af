"""The interface of the multilinear engine's kernels, beside those of `kernels.interface.goldilocks`.

Elements and matrices (width, n) are those of that module. Vectors of F are (3, n), or (3, k, n) for k of them; on the
host an element is a tuple. A *run* is 2^k neighbouring elements of a column. A *point* has the lowest variable first.

A backend runs the steps of `include/multilinear_steps.h`, one text for all of them; what is written here are the
arguments of each. Arrays are in the backend's memory unless noted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.multilinear_rows import LAYOUTS, BoundRules, RowKernels, RuleProgram
from kernels.interface.steps import (
    COORDINATES,
    EXT,
    POINT,
    PRODUCTS,
    STATE,
    TRANSCRIPT,
    WORD,
    Layouts,
    Products,
    Words,
    point_words,
    struct,
)
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import TWO_ADICITY, Ext
from kernels.maths.goldilocks_extension import ext_of

SETS, SCOPES = 4, 2
"""Most sets of weights, which must equal that in multilinear_steps.cu, and most scopes, in multilinear_steps.h."""
MAX_LOG_RUN = 6
"""log2 of the longest run. multilinear_rules.cu has room for no longer one."""
ZERO: Ext = (0, 0, 0)
ONE: Ext = (1, 0, 0)

_ROWS, _SEGMENT = struct((WORD, "state eq sent scopes")), struct((WORD, "source n folded"))
_LAYER = struct((WORD, "source out n half"))
_LAYER_STATE = struct(
    (STATE, "transcript"),
    (WORD, "variables"),
    (EXT, "numerator denominator"),
    (POINT, "point"),
    (WORD, "sent round"),
    (EXT, "batch c"),
    (POINT, "drawn inverse rest"),
)
_PAIR_ROUND = struct((WORD, "source folded n fold"), (EXT, "r"))
_PAIR_STATE = struct(
    (STATE, "transcript"),
    (WORD, "round"),
    (POINT, "drawn"),
    (("u8", (COORDINATES, 2, 3)), "sent"),
)
_PAIR_DRAWN = TRANSCRIPT + 1
"""The word of a state of pairs at which what was drawn begins."""
_STEPS: Layouts = {
    **LAYOUTS,
    "make_products": struct((WORD, "out bits log_low eq"), (EXT, "scale"), (POINT, "point")),
    "tabulate": struct((PRODUCTS, "table"), (WORD, "out pitch add_to")),
    "leaves": struct((WORD, "found places out log_n uses total")),
    "layer": _LAYER,
    "small_layers": struct(((_LAYER, (COORDINATES, SCOPES)), "layers"), (WORD, "count scopes")),
    "layer_round": struct(
        (_ROWS, "rows"), (WORD, "fold"), ((_SEGMENT, (SCOPES,)), "segments"), (("u8", (SCOPES,)), "folded")
    ),
    "layers": struct(
        (_ROWS, "rows"),
        ((_SEGMENT, (COORDINATES, SCOPES)), "segments"),
        (WORD, "scratch count begun only_begin room"),
    ),
    "further_cells": struct((WORD, "tables count")),
    "fold": struct((WORD, "source out half pitch apart drawn")),
    "opened_weights": struct((PRODUCTS, "eq"), (WORD, "entries out log_rows total"), (EXT, "last")),
    "expand": struct((WORD, "high low out n count log_low")),
    "pair_rounds": struct((WORD, "state opening first"), ((_PAIR_ROUND, (SCOPES,)), "stacks")),
    "dot": struct((WORD, "values n"), (PRODUCTS, "weights")),
    "add_rows": struct((WORD, "target source log_count target_pitch stride source_pitch")),
    "scatter_powers": struct((WORD, "places begins exponents out pitch"), (EXT, "x")),
}
"""The structs of multilinear_steps.h and multilinear_rows.h."""
_CELL_WORDS = 6
"""WORDS of FurtherCells in multilinear_steps.h."""


@dataclass(frozen=True)
class LayerClaim:
    """A claim about the numerator and the denominator of a layer of fractions at a point."""

    transcript: Words = field(repr=False)
    """The state of the transcript that draws, (TRANSCRIPT,)."""
    numerator: Ext
    denominator: Ext
    point: tuple[Ext, ...]


@dataclass(frozen=True)
class PairRounds:
    """Rounds over coefficients and weights. The host waits for them when it first reads `sent` or `drawn`."""

    count: int
    over: list[Array] = field(repr=False)
    """What the last round was over, (2, 3, n) each: its variable is not bound yet."""
    had_rounds: list[bool]
    """Which of them there was a round over."""
    state: Array = field(repr=False)
    """What they have sent and drawn, in the backend's memory."""
    download: Callable[[Array], Words] = field(repr=False)

    @cached_property
    def _found(self) -> Any:
        return self.download(self.state).view(_PAIR_STATE)[0]

    @property
    def sent(self) -> Words:
        """h_1 and h_2 of each round, (rounds, 2, 3) on the host."""
        return np.array(self._found["sent"][: self.count])

    @property
    def drawn(self) -> list[Ext]:
        return [ext_of(words) for words in self._found["drawn"][: self.count]]

    @property
    def transcript(self) -> Words:
        return np.array(self._found["transcript"])


_Segment = tuple[int, int, int]
"""A scope's fractions: where they are, how many, and whether they are folded."""


@dataclass(frozen=True, eq=False)
class CellTable:
    """A table whose cells are to be written."""

    columns: Sequence[Array] = field(repr=False)
    next_columns: Sequence[int]
    """Numbers of the columns that are read at the next row."""
    selectors: bool
    """Whether first, last and transition are cells."""
    out: Array = field(repr=False)
    """(cells, n)"""


@dataclass(frozen=True, eq=False)
class LeafPlace:
    """Where the leaves of a use lie: from leaf `first` of fractions (3, 2, n) on."""

    fractions: Array = field(repr=False)
    first: int


@dataclass(frozen=True, eq=False)
class LeafTask:
    """The leaves of a table: its rules' outputs are the numerators of all uses, then their denominators."""

    rules: BoundRules = field(repr=False)
    cells: Array = field(repr=False)
    """(cells, n)"""
    places: Sequence[LeafPlace | None]
    """The place of each use."""


class MultilinearKernels(RowKernels):
    """The multilinear kernels of one device.

    The public methods check what they are given, once for every backend.
    """

    layouts: ClassVar[Layouts] = _STEPS
    single_block = 1 << 9
    """Most pairs of which one block makes all rounds of a layer that are left, or all layers above."""

    def prepare(self, rules: Iterable[RuleProgram] = (), tree_hash: TreeHash | None = None) -> None:
        """Begin slow preparation for proofs (compilation) in the background, and for `rules` and trees of `tree_hash`.
        Calling it is optional. A thread beside the one that computes may call."""

    def load(self, rules: Iterable[RuleProgram]) -> None:
        """Bring to the device what was prepared for `rules`, for which the first proof would wait. Calling it is
        optional. Only the thread that computes may call. Raises OutOfMemory."""

    # -- transforms and runs ----------------------------------------------------------------------------------------

    def encode(self, coefficients: Array, log_blowup: int) -> Array:
        """Return (w, B, n): the polynomials with coefficients (w, n) at w_{Bn}^k w_n^j for entry [c, k, j]."""
        _, n = _columns(coefficients)
        if log_blowup < 0 or n.bit_length() - 1 + log_blowup > TWO_ADICITY:
            raise SizeError(f"{n} coefficients with a blow-up of 2^{log_blowup}: there are 2^{TWO_ADICITY} roots of 1")
        return self._encode(coefficients, log_blowup)

    def codeword_leaves(
        self, coefficients: Array, log_blowup: int, log_arity: int, indices: NDArray[np.int64]
    ) -> Words | None:
        """The leaves at ascending `indices` of the tree over the codewords of coefficients (w, n), (k, 2^log_arity w)
        on the host as `TreeOpening.rows` has them; None where all codewords are encoded as quickly."""
        return None

    def interpolate_runs(self, columns: Array, log_run: int) -> None:
        """Interpolate each run of 2^log_run values of columns (w, n) over the powers of w(log_run), in place."""
        _, n = _columns(columns)
        if not 0 <= log_run <= MAX_LOG_RUN or n % (1 << log_run):
            raise SizeError(f"runs of 2^{log_run} of columns {columns.shape}")
        self._interpolate_runs(columns, log_run)

    def bind_runs(self, columns: Array, weights: Words, out: Array) -> None:
        """Write the sum of weight times element in each run of columns (w, n) to `out` (3, w n / 2^k), for weights
        (2^k, 3) on the host."""
        width, n = _matrix(columns)
        if weights.ndim != 2 or weights.shape[1] != 3 or n % len(weights):
            raise SizeError(f"weights {weights.shape} do not fit runs of columns {columns.shape}")
        _vector(out, width * n // len(weights))
        self._bind_runs(columns, weights, out)

    def sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        """Return, on the host, (s, size, 3): for each set of `weights` (s, 3, w n / size) the sum of weight times run
        over all runs of `size` elements of columns (w, n)."""
        width, n = _columns(columns)
        runs = width * n // size if size else 0
        if size < 1 or n % size or weights.ndim != 3 or weights.shape[1:] != (3, runs) or len(weights) > SETS:
            raise SizeError(f"weights {weights.shape} for runs of {size} of columns {columns.shape}")
        return self._sum_runs(columns, weights, size)

    # -- tables of a point ------------------------------------------------------------------------------------------

    def products(self, point: Sequence[Ext], scale: Ext = ONE, *, eq: bool) -> Products:
        """`scale` times the product of x at the set bits of an index, and with `eq` of 1 - x at the others."""
        if len(point) > COORDINATES:
            raise SizeError(f"a point of {len(point)} coordinates: there are {COORDINATES} at most")
        log_low = (len(point) + 1) // 2
        entries = (1 << log_low) + (1 << len(point) - log_low)
        made = Products(self._empty((entries, 3)), len(point))
        self._each(
            "make_products",
            entries,
            out=made.tables,
            bits=made.bits,
            log_low=log_low,
            eq=int(eq),
            scale=scale,
            point=point_words(point),
        )
        return made

    def tabulate(self, products: Products, out: Array | None = None, *, at: int = 0, add: bool = False) -> Array:
        """Write the vector to `out` (3, m) from element `at` on, or add it there."""
        n = 1 << products.bits
        out = self._empty((3, n)) if out is None else out
        if out.ndim != 2 or len(out) != 3 or at + n > out.shape[1]:
            raise SizeError(f"{n} elements from {at} on do not fit {out.shape}")
        pitch = int(out.shape[1])
        self._each("tabulate", n, table=products, out=(out, at), pitch=pitch, add_to=int(add))
        return out

    def dot(self, values: Array, weights: Products) -> Ext:
        """Return the sum of weight times value over values (3, n)."""
        n, out = _vector(values, 1 << weights.bits), self._empty((1, 3))
        self._sum("dot", n, 0, out, values=values, n=n, weights=weights)
        return ext_of(self._download(out)[0])

    # -- buses ------------------------------------------------------------------------------------------------------

    def fractions(self, leaves: int) -> Array:
        """Memory for the fractions of so many leaves, (3, 2, leaves): numerators and denominators."""
        return self._empty((3, 2, leaves))

    def leaves(self, tasks: Sequence[LeafTask]) -> None:
        """Write the leaves of all tables to their places."""
        for task in tasks:
            n = int(task.cells.shape[-1])
            if any(at is not None and at.first + n > at.fractions.shape[-1] for at in task.places):
                raise SizeError(f"leaves of {n} rows beyond their fractions")
        self._leaves([task for task in tasks if any(at is not None for at in task.places)])

    def sum_layers(self, fractions: Sequence[Array], depth: int) -> list[list[Array]]:
        """Return so many layers above those of some scopes, fractions (3, 2, n): of each (3, 2, (n + 1) / 2)."""
        lengths, layers = [_fractions(scope, 2) for scope in fractions], [list(fractions)]
        if len(fractions) > SCOPES or depth >= COORDINATES:
            raise SizeError(f"{depth} layers above {len(fractions)} scopes")
        while len(layers) <= depth and sum(lengths) > 2 * self.single_block:
            above = [self._empty((3, 2, (n + 1) // 2)) for n in lengths]
            for source, out, n in zip(layers[-1], above, lengths, strict=True):
                self._each("layer", (n + 1) // 2, source=source, out=out, n=n, half=(n + 1) // 2)
            layers.append(above)
            lengths = [(n + 1) // 2 for n in lengths]
        count = depth + 1 - len(layers)
        if count and fractions:
            given = np.zeros((), dtype=_STEPS["small_layers"])
            given["count"], given["scopes"] = count, len(fractions)
            sizes = [[-(-n >> i) for n in lengths] for i in range(1, count + 1)]
            room, at = self._empty((6 * sum(map(sum, sizes)),)), 0
            for own, halves in zip(given["layers"], sizes, strict=False):
                above = []
                for layer, source, n, half in zip(own, layers[-1], lengths, halves, strict=False):
                    above.append(room[at : at + 6 * half].reshape(3, 2, half))
                    layer["source"], layer["out"] = self._address(source), self._address(above[-1])
                    layer["n"], layer["half"] = n, half
                    at += 6 * half
                layers.append(above)
                lengths = halves
            self._run_block("small_layers", given)
        return layers

    def prove_layers(self, layers: list[list[Array]], claim: LayerClaim) -> tuple[Words, LayerClaim]:
        """Reduce a claim about a root, layer by layer, to one about the leaves. `layers` are fractions (3, 2, n) of
        one or two scopes, from the leaves up; each is dropped when it is proven. Returns what the layers send,
        (elements, 3) on the host: each round's coefficients at X and X^2, and at a layer's end p_0, p_1, q_0, q_1."""
        scopes, variables = len(layers[0]), len(claim.point)
        rows = variables + len(layers) - scopes
        if not 1 <= scopes <= SCOPES or rows + 1 > COORDINATES or any(len(layer) != scopes for layer in layers):
            raise SizeError(f"{len(layers)} layers of {scopes} scopes over {variables} variables")
        state = np.zeros((1,), dtype=_LAYER_STATE)
        state["transcript"], state["variables"] = claim.transcript, variables
        state["numerator"], state["denominator"] = claim.numerator, claim.denominator
        state["point"][0, :variables] = np.array(claim.point, dtype=np.uint64).reshape(-1, 3)
        held = self._upload(state.view(np.uint64))
        eq = self._empty(((1 << (rows + 1) // 2) + (scopes << rows // 2 + 1), 3))
        sent = self._empty((sum(2 * (variables + i) + 4 for i in range(len(layers))), 3))
        shared = self._address(held), self._address(eq), self._address(sent), scopes
        small: list[list[Array]] = []
        while layers:
            layer = layers.pop()
            if variables < 2 or _pairs(_segments(self, [layer])[0]) <= self.single_block:
                small.append(layer)
            else:
                self._small_layers(shared, _segments(self, small))
                small = []
                self._large_layer(shared, _segments(self, [layer])[0], variables - 1)
            variables += 1
        self._small_layers(shared, _segments(self, small))
        state = self._download(held).view(_LAYER_STATE)[0]
        point = tuple(map(ext_of, state["point"][:variables]))
        left = LayerClaim(state["transcript"], ext_of(state["numerator"]), ext_of(state["denominator"]), point)
        return self._download(sent), left

    def _large_layer(self, shared: tuple[int, ...], segments: list[_Segment], rounds: int) -> None:
        """Prove a layer by a launch a round while there are many pairs."""
        self._small_layers(shared, [segments], only_begin=True)
        lengths = [_length(segment) for segment in segments]
        folds = [[12 * -(-n // 4), 12 * -(-n // 2)] for n in lengths]  # of every other round
        memory = self._empty((sum(map(sum, folds)),))
        ends = np.cumsum(folds).reshape(-1, 2)
        places = self._address(memory) + 8 * (ends - np.array(folds))
        given = np.zeros((), dtype=_STEPS["layer_round"])
        given["rows"] = shared
        for i in range(rounds):
            folded = [((n + 1) // 2 if i else n) for n in lengths]
            pairs = sum((n + 1) // 2 for n in folded)
            if i and pairs <= self.single_block:
                break
            given["fold"], lengths = i > 0, folded
            given["segments"][: len(segments)], given["folded"][: len(segments)] = segments, places[:, i % 2]
            self._run_round("layer_round", pairs, given)
            if i:
                segments = [(int(at), n, 1) for at, n in zip(places[:, i % 2], folded, strict=True)]
        self._small_layers(shared, [segments], begun=True)

    def _small_layers(
        self, shared: tuple[int, ...], layers: list[list[_Segment]], *, begun: bool = False, only_begin: bool = False
    ) -> None:
        """Prove layers, or the rest of one, by one block."""
        if not layers:
            return
        given = np.zeros((), dtype=_STEPS["layers"])
        for own, segments in zip(given["segments"], layers, strict=False):
            own[: len(segments)] = segments
        room = 12 * ((max(_length(segment) for segments in layers for segment in segments) + 1) // 2)
        scratch = self._empty((0 if only_begin else 3 * SCOPES * room,))
        given["rows"], given["scratch"], given["count"], given["room"] = (
            shared,
            self._address(scratch),
            len(layers),
            room,
        )
        given["begun"], given["only_begin"] = begun, only_begin
        self._run_block("layers", given)

    # -- rows -------------------------------------------------------------------------------------------------------

    def cells(self, tables: Sequence[CellTable]) -> None:
        """Write the base cells of tables: all columns, those of `next_columns` moved by one row, and the selectors."""
        told: list[int] = []
        numbers: list[int] = []
        items = 0
        further = [table for table in tables if table.next_columns or table.selectors]
        for table in tables:
            width, n = sum(int(m.shape[0]) for m in table.columns), int(table.columns[0].shape[-1])
            more = len(table.next_columns) + 3 * table.selectors
            if tuple(table.out.shape) != (width + more, n):
                raise SizeError(f"{width + more} cells of {n} rows do not fit {table.out.shape}")
            self._join(table.columns, table.out[:width])
            if more:
                at = _CELL_WORDS * len(further) + len(numbers)
                sizes = n.bit_length() - 1, width, len(table.next_columns)
                told += [self._address(table.out), *sizes, at, items]
                numbers += table.next_columns
                items += more * n
        if items:
            held = self._upload(np.array([*told, *numbers], dtype=np.uint64))
            self._each("further_cells", items, tables=held, count=len(further))

    def vector(self, n: int) -> Array:
        """Memory for n base elements."""
        return self._empty((n,))

    # -- stacks -----------------------------------------------------------------------------------------------------

    def stack(self, matrices: Sequence[Array], width: int, n: int) -> Array:
        """Return (width, n): the elements of the matrices one after the other, then zeros."""
        out = self._empty((width, n))
        self._join(matrices, out)
        return out

    def kinds(self, count: int, n: int) -> Array:
        """Zeroed memory for vectors (count, 3, n) of weights."""
        return self._zeros((count, 3, n))

    def opened_weights(self, eq: Products, last: Ext, entries: Words, out: Array) -> None:
        """Write the weights of opened columns of one height to `out` (3 or more, 3, total): of the column itself, of
        the next column, and of its correction, that is eq(x - 1) - eq(x) times `last`. `entries` (k, 7), on the host:
        the column's first row, the factor of the column and that of its next column, zero without. Without any next
        column `out` may be (1, 3, total)."""
        rows, total = 1 << eq.bits, int(out.shape[-1])
        kinds = 3 if entries[:, 4:].any() else 1
        if entries.shape[1:] != (7,) or (len(entries) and int(entries[:, 0].max()) + rows > total) or len(out) < kinds:
            raise SizeError(f"columns of {rows} rows do not fit weights {out.shape}")
        told = self._upload(entries)
        given = {"log_rows": eq.bits, "total": total, "last": last}
        self._each("opened_weights", len(entries) * rows, eq=eq, entries=told, out=out, **given)

    def expand(self, high: Array, low: Words, out: Array) -> None:
        """Write to `out` (3, n 2^k) at place a + x 2^k the sum over kinds of high at x times low at a: `high` (kinds,
        3, n), and `low` (kinds, 2^k, 3) on the host."""
        count, _, n = map(int, high.shape)
        size = low.shape[1] if low.ndim == 3 else 0
        if len(low) != count or not size or size & (size - 1):
            raise SizeError(f"kinds {low.shape} for vectors {high.shape}")
        _vector(out, n * size)
        given = {"n": n, "count": count, "log_low": size.bit_length() - 1}
        self._each("expand", n * size, high=high, low=self._upload(low), out=out, **given)

    def pair(self, n: int) -> Array:
        """Memory for coefficients and weights (2, 3, n)."""
        return self._empty((2, 3, n))

    def pair_rounds(
        self, pairs: Sequence[Array], count: int, transcript: Words, *, opening: bool, starts: Sequence[int] = (0, 0)
    ) -> PairRounds:
        """So many rounds over coefficients and weights (2, 3, n) of one or two stacks, each from one of the rounds on.
        The transcript absorbs h_1 and h_2 of all of them as a round's polynomial of WHIR, or of the reduction."""
        if not 1 <= len(pairs) <= SCOPES or not 0 < count <= COORDINATES or starts[0]:
            raise SizeError(f"{count} rounds over {[pair.shape for pair in pairs]}")
        if any(start > count or n % (1 << count - start) for n, start in zip(_sizes(pairs), starts, strict=False)):
            raise SizeError(f"{count} rounds from {starts} over {[pair.shape for pair in pairs]}")
        state = np.zeros((1,), dtype=_PAIR_STATE)
        state["transcript"] = transcript
        held, over = self._upload(state.view(np.uint64)), list(pairs)
        given = np.zeros((), dtype=_STEPS["pair_rounds"])
        given["state"], given["opening"] = self._address(held), opening
        for i in range(count):
            items, before = [], list(over)  # whose memory is kept until the round is queued
            for s, (source, start) in enumerate(zip(before, starts, strict=False)):
                if i < start:
                    continue
                own, n = given["stacks"][s], int(source.shape[-1])
                own["source"], own["n"], own["fold"] = self._address(source), n, i > start
                if i > start:
                    over[s] = self._empty((2, 3, n // 2))
                    own["folded"] = self._address(over[s])
                items.append(int(over[s].shape[-1]) // 2)
            given["first"] = items[0]
            self._run_round("pair_rounds", sum(items), given)
        bound = [start < count for start in starts[: len(pairs)]]
        return PairRounds(count, over, bound, held, self._download)

    def fold_drawn(self, made: PairRounds) -> list[Array]:
        """Bind the variable that the last of these rounds was over to what it has drawn, in the backend's memory."""
        drawn, folded = (made.state, _PAIR_DRAWN + 3 * (made.count - 1)), []
        for pair, had_rounds in zip(made.over, made.had_rounds, strict=True):
            n, out = int(pair.shape[-1]), pair
            if had_rounds:
                out = self._empty((2, 3, n // 2))
                given = {"half": n // 2, "pitch": n, "apart": 3 * n, "drawn": drawn}
                self._each("fold", n, source=pair, out=out, **given)
            folded.append(out)
        return folded

    def add_to(self, target: Array, source: Array, *, step: int = 1) -> None:
        """Add to every `step`-th element of target (3, m) the elements of source (3, n), as many as there are."""
        pitch, given = int(target.shape[-1]), int(source.shape[-1])
        count = min(given, pitch // step)
        sizes = {"log_count": count.bit_length() - 1, "target_pitch": pitch, "stride": step, "source_pitch": given}
        self._each("add_rows", 3 * count, target=target, source=source, **sizes)

    def scattered_powers(self, places: Sequence[int], x: Ext, first: int, n: int) -> Array:
        """Return (3, n): at each place the sum of x^(first + j) over all j with that place, and zeros."""
        at = np.array(places, dtype=np.int64)
        if len(at) and not 0 <= at.min() <= at.max() < n:
            raise SizeError(f"a place beyond {n} elements")
        order = np.argsort(at, kind="stable")
        ordered = at[order]
        begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(at)])
        distinct = ordered[begins]  # np.unique imports numpy.ma
        parts = distinct, begins, [len(at)], order + first
        given = self._upload(np.concatenate(parts).astype(np.uint64))
        out, count = self._zeros((3, n)), len(distinct)
        lists = {"begins": (given, count), "exponents": (given, 2 * count + 1)}
        self._each("scatter_powers", count, places=given, **lists, out=out, pitch=n, x=x)
        return out

    # -- what a backend has -----------------------------------------------------------------------------------------

    @abstractmethod
    def _leaves(self, tasks: Sequence[LeafTask]) -> None: ...

    @abstractmethod
    def _encode(self, coefficients: Array, log_blowup: int) -> Array: ...

    @abstractmethod
    def _interpolate_runs(self, columns: Array, log_run: int) -> None: ...

    @abstractmethod
    def _bind_runs(self, columns: Array, weights: Words, out: Array) -> None: ...

    @abstractmethod
    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words: ...


def _matrix(array: Array) -> tuple[int, int]:
    if array.ndim != 2 or array.dtype != np.dtype(np.uint64) or not array.shape[0]:
        raise SizeError(f"columns (w, n) of uint64 were expected, not {array.shape} of {array.dtype}")
    return int(array.shape[0]), int(array.shape[1])


def _columns(array: Array) -> tuple[int, int]:
    width, n = _matrix(array)
    if n < 1 or n & (n - 1):
        raise SizeError(f"{n} rows are not a power of two")
    return width, n


def _vector(array: Array, n: int) -> int:
    if tuple(array.shape) != (3, n) or array.dtype != np.dtype(np.uint64):
        raise SizeError(f"a vector (3, {n}) of uint64 was expected, not {array.shape} of {array.dtype}")
    return n


def _fractions(array: Array, rows: int) -> int:
    if array.ndim != 3 or tuple(array.shape[:2]) != (3, rows) or array.dtype != np.dtype(np.uint64):
        raise SizeError(f"vectors (3, {rows}, n) of uint64 were expected, not {array.shape} of {array.dtype}")
    return int(array.shape[2])


def _segments(kernels: MultilinearKernels, layers: Sequence[Sequence[Array]]) -> list[list[_Segment]]:
    return [[(kernels._address(scope), _fractions(scope, 2), 0) for scope in layer] for layer in layers]


def _sizes(pairs: Sequence[Array]) -> list[int]:
    return [int(pair.shape[-1]) for pair in pairs]


def _length(segment: _Segment) -> int:
    _, n, folded = segment
    return n if folded else (n + 1) // 2


def _pairs(segments: Sequence[_Segment]) -> int:
    return sum((_length(segment) + 1) // 2 for segment in segments)
