"""The interface of the zerocheck's kernels: a univariate round over the rules of all tables, then a round for each row
variable. The transcript draws in the backend's memory, so that the host waits once, for what was sent.

Every table is summed over its own row variables, which are the first ones of the shared point: in rounds after its last
variable its share is constant. Each program is evaluated as often as its own degree asks for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.row_program import Op, RowProgram
from kernels.interface.steps import (
    COORDINATES,
    EXT,
    POINT,
    STATE,
    WORD,
    Layouts,
    StepKernels,
    Words,
    point_words,
    struct,
)
from kernels.maths.goldilocks import TWO_ADICITY, Ext, root_of_unity
from kernels.maths.goldilocks_extension import ext_inverse
from kernels.maths.goldilocks_runs import LOG_COSETS, coset_shift, from_cosets, from_integers

HALVES, POINTS = 6, 8
"""Words of a sum, and most points of a step of sums. Must equal those in multilinear_rows.h."""

LARGE = 1 << 14
"""Instructions of a program beyond which a device moves its table's cells to a coset in memory of its own."""
MIDDLING, MUCH_WORK = (1 << 8, 1 << 12), 1 << 29
"""The same is done for programs of more than 2^8 and up to 2^12 instructions whose product with the rows is `MUCH_WORK`
or more: one kernel of so many instructions is slower than several, and longer ones take seconds to compile."""
MOVED_BYTES = 9 << 29
"""Most bytes of cells that are moved at once, unless those of one run take more."""
TOGETHER_BYTES = 1 << 28
"""Most bytes of cells that are moved to several cosets at once. A program's kernels run once for all of these. With
each coset on its own the tables of a node's permutations took hundreds of launches, most too small to fill a device."""

_WEIGHTS = struct((WORD, "low high middle end"))
_STATE = struct((STATE, "transcript"), (WORD, "round"), (EXT, "nu"), (("u8", (COORDINATES + 1, 3)), "drawn"))
_RULE = struct((WORD, "variables degree constrains kind coset_sums sums matrix"), (EXT, "claim"))
_KIND = struct((WORD, "constrains first count at matrix"))
LAYOUTS: Layouts = {
    "eq_tables": struct((WORD, "out spans count"), (POINT, "point")),
    "skip_round": struct(
        (WORD, "state rules kinds matrices sums scratch quotient leaves weights rule_count kind_count cosets"),
        (WORD, "log_run quotient_length leaves_length root shift log_shift"),
        (STATE, "begun"),
    ),
    "row_round": struct((WORD, "state rules matrices tails sums coefficients sent rule_count degree sum_count")),
    "row_fold": struct((WORD, "state source out ended n kept pitch at")),
    "run_sums": struct((WORD, "values n log_run"), (_WEIGHTS, "eq")),
    "between": struct((WORD, "source out log_n points"), (("u8", (POINTS,)), "at")),
    "point_sums": struct((WORD, "values n points first"), (_WEIGHTS, "eq")),
}
"""The structs of multilinear_rows.h."""


def moves_apart(instructions: int, rows: int, large: int = LARGE) -> bool:
    """Whether a device moves the cells of a table to a coset in memory of its own, for a program of its rules."""
    few, many = MIDDLING
    return instructions > large or (few < instructions <= many and instructions * rows >= MUCH_WORK)


def moved_rows(cells: int, rows: int, least: int, most: int = MOVED_BYTES) -> int:
    """How many of a table's rows of so many cells, a power of two and at least `least`, are moved at once."""
    while rows > least and 8 * cells * rows > most:
        rows //= 2
    return rows


def moved_together(cells: int, rows: int, cosets: int, most: int = TOGETHER_BYTES) -> int:
    """To how many of so many cosets, at most, a table of these cells and rows is moved at once: a power of two."""
    together = 1
    while 2 * together <= cosets and 8 * cells * rows * 2 * together <= most:
        together *= 2
    return together


@dataclass(frozen=True, eq=False)
class RuleProgram:
    """A program of a table's rules. Its cells are numbered."""

    on_coset: RowProgram
    """The program over base cells; each matrix is a span of the cells, all of them of one row."""
    make_on_vectors: Callable[[], RowProgram] | None = field(repr=False)
    """Makes `on_vectors`, which takes seconds for long rules, and which not every backend runs."""
    spans: tuple[tuple[int, int], ...]
    """The first cell of each matrix, and the one after its last."""
    next_columns: tuple[int, ...]
    """The cells of which those of the last matrix are the next rows."""

    @cached_property
    def cells_read(self) -> tuple[int, ...]:
        """The numbers of the cells that the program on a coset reads, ascending."""
        op, matrix, column, _ = self.on_coset.code.T
        loads = op == Op.LOAD
        begins = np.array([begin for begin, _ in self.spans])
        return tuple(sorted(set((begins[matrix[loads]] + column[loads]).tolist())))

    @cached_property
    def on_vectors(self) -> RowProgram | None:
        """The same program over cells of F in one matrix (3 cells, n); the units x and x^2 are two more scalars. Leaves
        have none."""
        return None if self.make_on_vectors is None else self.make_on_vectors()


BoundRules = Any
"""A program with its scalars, as a backend keeps it. Made by `RowKernels.bind`."""


@dataclass(frozen=True, eq=False)
class TableRules:
    """The constraints or the interactions of a table, with their challenges."""

    rules: BoundRules = field(repr=False)
    first: int
    """The first element of the table's cells (cells, rows) among those of all tables."""
    cells: int
    log_rows: int
    degree: int
    constrains: bool
    """Whether they are constraints, whose sum is zero on the univariate round's domain itself."""

    @property
    def cosets(self) -> range:
        """The cosets on which they are evaluated in the univariate round."""
        return range(1, self.degree) if self.constrains else range(max(1, self.degree))

    @property
    def points(self) -> tuple[int, ...]:
        """The integers at which they are evaluated in a multilinear round; the value at 1 follows from the claim."""
        return (0, *range(2, self.degree + 1))


@dataclass(frozen=True)
class RowClaim:
    """What the rounds begin from. The first coordinates of the point belong to runs."""

    transcript: Words = field(repr=False)
    point: Sequence[Ext]
    log_run: int
    quotient: int
    """Number of coefficients of the constraints' quotient in the univariate round."""
    leaves: int
    """Number of coefficients of the interactions' polynomial there."""
    degree: int
    """Degree of the polynomials of the multilinear rounds."""


@dataclass(frozen=True)
class RowsProved:
    """What the rounds have sent and drawn, on the host."""

    quotient: Words
    leaves: Words
    rounds: Words
    """Coefficients from that of X on, (rounds, degree, 3)."""
    drawn: list[Ext]
    cells: Words = field(repr=False)
    """The cells of all tables, in their order, at the point, (3, cells)."""
    transcript: Words = field(repr=False)


@dataclass(frozen=True, eq=False)
class RowRounds:
    """Rounds under way. Sums of rules lie one after the other: in the univariate round a rule has 2^log_run for each of
    its cosets, in another one a sum for each of its points."""

    rules: Sequence[TableRules]
    claim: RowClaim
    weights: dict[int, Words]
    """`struct RowWeights` for each number of row variables of a table."""
    coset_sums: list[int]
    """The first coset of each rule among those of all."""
    point_sums: list[int]
    """The first sum of each rule in a multilinear round."""
    sums: Array = field(repr=False)
    """Of the univariate round, then of a multilinear one, (sums, HALVES)."""
    held: Array = field(repr=False)
    """What the steps read."""
    places: dict[str, int] = field(repr=False)
    """Where in `held` each part begins."""
    tables: Array = field(repr=False)
    """The tables of the weights."""
    result: Array = field(repr=False)
    """State, quotient, leaves and what rounds send, then the cells."""
    binding: Array = field(repr=False)
    """The weights (2^log_run, 3) that bind runs."""

    @property
    def log_run(self) -> int:
        return self.claim.log_run

    @cached_property
    def variables(self) -> list[int]:
        """Number of row variables of each rule's table."""
        return [rule.log_rows - self.log_run for rule in self.rules]

    @property
    def rounds(self) -> int:
        return len(self.claim.point) - self.log_run

    @property
    def row_sums(self) -> Array:
        """The sums of a multilinear round."""
        return self.sums[sum(len(rule.cosets) for rule in self.rules) << self.log_run :]

    @cached_property
    def parts(self) -> dict[str, int]:
        """Where in `result` each part begins."""
        state, claim = _STATE.itemsize // 8, self.claim
        sent = 3 * self.rounds * claim.degree
        begins = np.cumsum([0, state, 3 * claim.quotient, 3 * claim.leaves, sent]).tolist()
        return dict(zip(("state", "quotient", "leaves", "sent", "cells"), begins, strict=True))


class RowKernels(StepKernels):
    """The kernels of the zerocheck."""

    @abstractmethod
    def bind(self, rules: Sequence[tuple[RuleProgram, Words]]) -> list[BoundRules]:
        """Bind rules to their scalars, which lie on the host."""

    def skip_round(self, base: Array, rules: Sequence[TableRules], claim: RowClaim) -> RowRounds:
        """Make the univariate round of rules over base cells (n,), the tallest table first. Every table has a rule."""
        log_run, rounds = claim.log_run, len(claim.point) - claim.log_run
        if not 0 <= rounds <= COORDINATES or log_run + LOG_COSETS > TWO_ADICITY:
            raise SizeError(f"runs of 2^{log_run} and {rounds} rounds")
        for rule in rules:
            within = rule.first + (rule.cells << rule.log_rows) <= int(base.shape[-1])
            if not within or not 0 <= rule.log_rows - log_run <= rounds or rule.degree > claim.degree:
                raise SizeError(f"{rule.cells} cells of 2^{rule.log_rows} rows of degree {rule.degree}")
        made = self._begin(rules, claim)
        self._coset_sums(base, made)
        kinds, cosets = _kinds(rules)
        at = {name: (made.held, place) for name, place in made.places.items()}
        parts = {name: (made.result, place) for name, place in made.parts.items()}
        self._block(
            "skip_round",
            state=parts["state"],
            rules=at["rules"],
            kinds=at["kinds"],
            matrices=at["matrices"],
            sums=made.sums,
            scratch=self._empty((6 * (cosets << log_run) + 1,)),
            quotient=parts["quotient"],
            leaves=parts["leaves"],
            weights=made.binding,
            rule_count=len(rules),
            kind_count=len(kinds),
            cosets=cosets,
            log_run=log_run,
            quotient_length=claim.quotient,
            leaves_length=claim.leaves,
            root=root_of_unity(log_run),
            shift=coset_shift(log_run, 1),
            log_shift=log_run + LOG_COSETS,
            begun=claim.transcript,
        )
        return made

    def bind_rows(self, base: Array, made: RowRounds) -> Array:
        """Bind the runs of base cells (n,) to the point of the univariate round: vectors (3, n / 2^log_run)."""
        return self._bind_rows(base.reshape(1, -1), made.binding).reshape(3, -1)

    def row_rounds(self, vectors: Array, made: RowRounds) -> RowsProved:
        """Make the multilinear rounds over vectors (3, n), which is not used any more."""
        claim, rules = made.claim, made.rules
        ends = _ends(made)
        pitch = sum(ends.values())
        ended = made.result[made.parts["cells"] :].reshape(3, pitch)
        done = sum(count << variables for variables, count in ends.items() if variables)
        if ends.get(0):  # tables of one run only
            for row, target in zip(vectors, ended, strict=True):
                self._join([row[done : done + ends[0]]], target[pitch - ends[0] :])
        run = self._round_sums(made)
        coefficients = self._empty((len(rules) * (claim.degree + 1) * 3 + 1,))
        state, sent = (made.result, made.parts["state"]), (made.result, made.parts["sent"])
        at = {name: (made.held, place) for name, place in made.places.items()}
        n, left = done, pitch - ends.get(0, 0)
        for number in range(made.rounds):
            run(number, vectors)
            self._block(
                "row_round",
                state=state,
                rules=at["rules"],
                matrices=at["matrices"],
                tails=at["tails"],
                sums=made.row_sums,
                coefficients=coefficients,
                sent=sent,
                rule_count=len(rules),
                degree=claim.degree,
                sum_count=sum(len(rule.points) for rule in rules),
            )
            over = ends.get(number + 1, 0)
            kept, left = n // 2 - over, left - over
            out = self._empty((3, kept))
            given = {"n": int(vectors.shape[1]), "kept": kept, "pitch": pitch, "at": left}
            self._each("row_fold", n // 2, state=state, source=vectors, out=out, ended=ended, **given)
            vectors, n = out, kept
        return self._proved(made)

    # -- what the steps read ------------------------------------------------------------------------------------------

    def _begin(self, rules: Sequence[TableRules], claim: RowClaim) -> RowRounds:
        log_run, tails = claim.log_run, claim.point[claim.log_run :]
        coset_sums = np.cumsum([0, *(len(rule.cosets) for rule in rules)]).tolist()
        point_sums = np.cumsum([0, *(len(rule.points) for rule in rules)]).tolist()
        kinds, _ = _kinds(rules)
        matrices: list[Words] = []
        places: dict[tuple[int, ...], int] = {}
        at = 0
        for key in [(degree,) for degree in sorted({r.degree for r in rules})] + [(f, c) for _, f, c in kinds]:
            if key not in places:
                matrices.append(from_integers(*key) if len(key) == 1 else from_cosets(log_run, *key))
                places[key] = at
                at += matrices[-1].size
        numbers = {kind: number for number, kind in enumerate(kinds)}
        words = [
            [rule.log_rows - log_run, rule.degree, rule.constrains, numbers.get(_kind(rule), len(kinds)), own, sums]
            for rule, own, sums in zip(rules, coset_sums, point_sums, strict=False)
        ]
        rows = np.zeros((len(rules), _RULE.itemsize // 8), dtype=np.uint64)
        rows[:, :7] = [[*own, places[(rule.degree,)]] for own, rule in zip(words, rules, strict=True)]
        told = np.zeros((len(kinds) + 1,), dtype=_KIND)
        before = 0
        for row, (constrains, first, count) in zip(told, kinds, strict=False):
            row["constrains"], row["first"], row["count"], row["at"] = constrains, first, count, before
            row["matrix"] = places[(first, count)]
            before += count
        spans, middles = _spans(sorted({rule.log_rows - log_run for rule in rules}))
        both = [word for x in tails for e in (x, ext_inverse(x)) for word in e]
        parts = {
            "rules": rows.reshape(-1),
            "kinds": told.view(np.uint64),
            "matrices": np.concatenate([m.reshape(-1) for m in matrices]),
            "tails": np.array(both, dtype=np.uint64),
            "spans": np.array(spans, dtype=np.uint64).reshape(-1),
        }
        held = self._upload(np.concatenate(list(parts.values())))
        begins = np.cumsum([0, *(part.size for part in parts.values())]).tolist()
        places_of = dict(zip(parts, begins, strict=False))
        entries = spans[-1][0] + (2 << spans[-1][2] - spans[-1][1]) if spans else 0
        tables = self._empty((entries, 3))
        given = {"out": tables, "spans": (held, places_of["spans"]), "count": len(spans), "point": point_words(tails)}
        self._each("eq_tables", entries, **given)
        weights = {}
        for end, (low, high, middle) in middles.items():
            record, begin = np.zeros((), dtype=_WEIGHTS), self._address(tables)
            record["low"], record["high"] = begin + 24 * spans[low][0], begin + 24 * spans[high][0]
            record["middle"], record["end"] = middle, end
            weights[end] = record
        cells = sum({rule.first: rule.cells for rule in rules}.values())
        sent = 3 * (claim.quotient + claim.leaves + len(tails) * claim.degree + cells)
        return RowRounds(
            rules,
            claim,
            weights,
            coset_sums[:-1],
            point_sums[:-1],
            self._zeros(((coset_sums[-1] << log_run) + point_sums[-1] + 1, HALVES)),
            held,
            places_of,
            tables,
            self._empty((_STATE.itemsize // 8 + sent,)),
            self._empty((1 << log_run, 3)),
        )

    def _proved(self, made: RowRounds) -> RowsProved:
        words, parts, claim = self._download(made.result), made.parts, made.claim
        state = words[: parts["quotient"]].view(_STATE)[0]
        return RowsProved(
            words[parts["quotient"] : parts["leaves"]].reshape(-1, 3).copy(),
            words[parts["leaves"] : parts["sent"]].reshape(-1, 3).copy(),
            words[parts["sent"] : parts["cells"]].reshape(made.rounds, claim.degree, 3).copy(),
            [(a, b, c) for a, b, c in state["drawn"][: 1 + made.rounds].tolist()],
            words[parts["cells"] :].reshape(3, -1).copy(),
            state["transcript"].copy(),
        )

    # -- what a backend has -------------------------------------------------------------------------------------------

    @abstractmethod
    def _bind_rows(self, columns: Array, weights: Array) -> Array:
        """`bind_runs` with weights in the backend's memory."""

    @abstractmethod
    def _coset_sums(self, base: Array, made: RowRounds) -> None:
        """Add eq times the folded outputs of each rule to its sums on each of its cosets."""

    @abstractmethod
    def _round_sums(self, made: RowRounds) -> Callable[[int, Array], None]:
        """Return a function of a round's number and the vectors. For each rule that has variables left it adds eq times
        the folded outputs to the sums at each of its points."""


def _ends(made: RowRounds) -> dict[int, int]:
    """The number of cells of all tables of so many row variables."""
    tables = {rule.first: (rule.cells, rule.log_rows - made.log_run) for rule in made.rules}
    found: dict[int, int] = {}
    for cells, variables in tables.values():
        found[variables] = found.get(variables, 0) + cells
    return found


def _kind(rule: TableRules) -> tuple[bool, int, int]:
    return rule.constrains, rule.cosets.start, len(rule.cosets)


def _kinds(rules: Sequence[TableRules]) -> tuple[list[tuple[bool, int, int]], int]:
    """What is interpolated alike, and the number of cosets of all of it."""
    kinds = list(dict.fromkeys(_kind(rule) for rule in rules if rule.cosets))
    return kinds, sum(count for _, _, count in kinds)


def _spans(ends: Sequence[int]) -> tuple[list[tuple[int, int, int]], dict[int, tuple[int, int, int]]]:
    """The spans of variables of the tables of RowWeights, with each one's first element. And for each number of
    variables the numbers of both its tables, and where they meet."""
    numbers: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int, int]] = []
    middles, at = {}, 0
    for end in ends:
        middle = (end + 1) // 2
        for span in ((0, middle), (middle, end)):
            if span not in numbers:
                numbers[span] = len(found)
                found.append((at, *span))
                at += 2 << span[1] - span[0]
        middles[end] = (numbers[(0, middle)], numbers[(middle, end)], middle)
    return found, middles
