"""The prover of the batched sumcheck of all constraints and all interactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.openvm.graph import Graph
from distprove.stark.openvm.proof import ConstraintProof
from distprove.stark.openvm.rows import BaseRing, Cells, ExtensionRing, Form, Plan, evaluate
from distprove.stark.openvm.tables import eq_table, lagrange, weighted
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import evaluate as at_point
from distprove.stark.openvm.univariate import (
    from_cosets,
    interpolate,
    multiply,
    on_cosets,
    padded,
    shifts,
    times_line,
)
from kernels.interface.babybear import BabyBearKernels, line
from kernels.maths.babybear import (
    Elements,
    P,
    add,
    elements,
    ext,
    ext_inverse,
    ext_mul,
    ext_one,
    ext_powers,
    ext_scale,
    mul,
    sub,
    total,
)
from kernels.maths.babybear_ntt import intt, log2_of

BLOCK_CELLS = 1 << 24
"""Most cells, times cosets, that round 0 evaluates at a time."""


@dataclass(frozen=True)
class ProverTrace:
    """The trace of one AIR."""

    graph: Graph = field(repr=False)
    degree: int
    """Greatest degree of the AIR's constraints and interactions."""
    reads_next: bool
    parts: tuple[Elements, ...] = field(repr=False)
    """Columns (width, height) of the cached mains, then of the common main."""
    preprocessed: Elements | None = field(repr=False)
    """Columns (width, height)."""
    public: tuple[int, ...]

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.parts[-1].shape[1])

    def sources(self) -> dict[tuple[int, int], Elements]:
        """For (part, rotation), as `Cells` has them, the columns (width, height) that are read."""
        parts = dict(enumerate(self.parts)) | ({} if self.preprocessed is None else {-1: self.preprocessed})
        return {(part, rotation): parts[part] for part in sorted(parts) for rotation in range(1 + self.reads_next)}

    def blocks(self, log_skip: int, columns_at_once: int) -> Iterator[tuple[int, Cells]]:
        """Yield the cells of runs of 2^log_skip rows, (width, runs, 2^log_skip), and the number of the first run.

        Rows of a trace of fewer than 2^log_skip repeat.
        """
        run = 1 << log_skip
        runs, sources = max(1, self.height >> log_skip), self.sources()
        at_once = max(1, columns_at_once // (run * (3 + sum(len(columns) for columns in sources.values()))))
        for first in range(0, runs, at_once):
            rows = np.arange(first * run, min(first + at_once, runs) * run).reshape(-1, run) % self.height
            columns = {}
            for (part, rotation), source in sources.items():
                columns[part, rotation] = source[:, (rows + rotation) % self.height]
            is_last = rows == self.height - 1
            yield first, Cells(columns, np.stack((rows == 0, is_last, ~is_last)).astype(np.uint32), self.public)


@dataclass(frozen=True)
class BusWeights:
    """The challenges of the buses."""

    alpha: Elements
    """(4,), added to each denominator."""
    beta_powers: Elements
    """(n, 4), n the length of the longest message and one more."""

    def denominator(self, graph: Graph, number: int) -> Form:
        """The denominator of an interaction, less alpha: its message and its bus, combined by the powers of beta."""
        interaction = graph.interactions[number]
        length = len(interaction.message)
        form = Form(mul(self.beta_powers[length], np.uint32(interaction.bus + 1)))
        for node, power in zip(interaction.message, self.beta_powers, strict=False):
            form.plus(node, power)
        return form


def bus_places(traces: Sequence[ProverTrace], log_skip: int) -> tuple[list[int], int]:
    """Where each trace's fractions begin, and log2 of the number of all, or -1 if there are none.

    The interactions of a trace follow each other, each with max(height, 2^log_skip) fractions. One fraction at least
    is padding.
    """
    starts, end = [], 0
    for trace in traces:
        starts.append(end)
        end += len(trace.graph.interactions) * max(trace.height, 1 << log_skip)
    return starts, end.bit_length() if end else -1


def fractions(k: BabyBearKernels, traces: Sequence[ProverTrace], log_skip: int, weights: BusWeights) -> Elements | None:
    """Return the fractions of all interactions in all rows, (2, 2^n, 4); None if there are none.

    A trace of fewer than 2^log_skip rows repeats, and its numerators are divided by the number of repetitions. Padding
    is 0 over alpha.
    """
    starts, log_size = bus_places(traces, log_skip)
    if log_size < 0:
        return None
    found = np.zeros((2, 1 << log_size, 4), dtype=np.uint32)
    for trace, start in zip(traces, starts, strict=True):
        count = len(trace.graph.interactions)
        if not count:
            continue
        rows = max(trace.height, 1 << log_skip)
        share = _share(trace, log_skip)
        forms = []
        for number, interaction in enumerate(trace.graph.interactions):
            numerator = Form()
            numerator.plus(interaction.count, share)
            forms += [numerator, weights.denominator(trace.graph, number)]
        plan = _plan(trace.graph, forms)
        room = found[:, start : start + count * rows].reshape(2, count, rows, 4)
        for first, cells in trace.blocks(log_skip, BLOCK_CELLS):
            begin, end = first << log_skip, (first << log_skip) + cells.selectors[0].size
            for number, value in enumerate(evaluate(plan, cells, BaseRing(k), forms)):
                room[number % 2, number // 2, begin:end] = value.reshape(-1, 4)
    found[1] = add(found[1], weights.alpha)
    return found


def prove_constraints(
    k: BabyBearKernels,
    transcript: Transcript,
    traces: Sequence[ProverTrace],
    log_skip: int,
    max_degree: int,
    weights: BusWeights,
    bus_point: Sequence[Elements],
) -> tuple[ConstraintProof, list[Elements]]:
    """Prove that all constraints hold, and reduce the claims about the buses' fractions to claims about columns.

    `traces` are in descending order of their heights. `bus_point` is the point of the buses' claims, empty without
    interactions. Returns the proof and the point of the claims about columns, its univariate coordinate first.
    """
    # 1. Complete the point, and draw the powers that combine an AIR's constraints.
    variables = [max(0, log2_of(trace.height) - log_skip) for trace in traces]
    point = list(bus_point)
    while len(point) < log_skip + variables[0]:
        point.append(_drawn(transcript))
    powers = ext_powers(_drawn(transcript), max((len(trace.graph.constraints) for trace in traces), default=0))
    forms = [
        (constraint_form(trace.graph, powers), *bus_forms(trace, log_skip, weights, point, start, len(bus_point)))
        for trace, start in zip(traces, bus_places(traces, log_skip)[0], strict=True)
    ]

    # 2. The univariate polynomial of each trace's three sums, without the factor eq.
    eq_cubes = [eq_table(k, point[log_skip : log_skip + n]) for n in variables]
    sums = [
        first_round(k, trace, log_skip, eq_cube, of) for trace, eq_cube, of in zip(traces, eq_cubes, forms, strict=True)
    ]
    run = 1 << log_skip
    degree = (max_degree + 1) * (run - 1)
    eq_rows = intt(eq_table(k, point[:log_skip]), -2)
    eq_one = intt(lagrange(log_skip, point[0]), -2)

    # 3. Claim each trace's share in the numerator and the denominator of the buses: its sum over D.
    claims = []
    for _, numerator, denominator in sums:
        shares = [_sum_on_subgroup(multiply(part, eq_rows, degree + 1), run) for part in (numerator, denominator)]
        claims.append(np.stack(shares))
        transcript.observe_words(claims[-1])

    # 4. Combine all, and send the univariate round.
    batch = ext_powers(_drawn(transcript), 3 * len(traces))
    of_buses, of_constraints = (np.zeros((max_degree * run + 1, 4), dtype=np.uint32) for _ in range(2))
    for i, (zeros, numerator, denominator) in enumerate(sums):
        for scale, part in ((batch[2 * i], numerator), (batch[2 * i + 1], denominator)):
            of_buses = add(of_buses, ext_mul(padded(part, len(of_buses)), scale))
        scaled = ext_mul(padded(zeros, len(of_buses)), batch[2 * len(traces) + i])
        of_constraints = add(of_constraints, scaled)
    univariate = add(multiply(of_buses, eq_rows, degree + 1), multiply(of_constraints, eq_one, degree + 1))
    transcript.observe_words(univariate)
    drawn = [_drawn(transcript)]
    claim = at_point(univariate, drawn[0])

    # 5. Bind Z: each trace is a table over the cube, and its three sums are one form of its cells.
    bus_scale, zero_scale = at_point(eq_rows, drawn[0]), at_point(eq_one, drawn[0])
    folded = []
    for i, (trace, of) in enumerate(zip(traces, forms, strict=True)):
        combined = Form()
        combined.add_form(of[0], ext_mul(batch[2 * len(traces) + i], zero_scale))
        combined.add_form(of[1], ext_mul(batch[2 * i], bus_scale))
        combined.add_form(of[2], ext_mul(batch[2 * i + 1], bus_scale))
        folded.append(_Folded(k, trace, bind_univariate(k, trace, log_skip, drawn[0]), combined))

    # 6. The multilinear rounds. A trace that has no variable left is a constant times the challenges of later rounds.
    rounds, eq_drawn = [], ext_one()
    for number in range(variables[0]):
        coordinate = point[log_skip + number]
        heads = [np.zeros(4, dtype=np.uint32) for _ in range(max_degree)]
        tail = np.zeros(4, dtype=np.uint32)
        for each, n in zip(folded, variables, strict=True):
            if number < n:
                values = each.round(eq_table(k, point[log_skip + number + 1 : log_skip + n]), max_degree)
                heads = [add(head, ext_mul(value, eq_drawn)) for head, value in zip(heads, values, strict=True)]
            else:
                tail = add(tail, each.exhausted(eq_drawn, drawn[-1]))
        sent, rest = _round(claim, heads, tail, coordinate)
        rounds.append(sent)
        transcript.observe_words(sent)
        drawn.append(_drawn(transcript))
        claim = at_point(rest, drawn[-1])
        for each in folded:
            each.bind(drawn[-1])
        both = ext_mul(coordinate, drawn[-1])
        step = add(sub(sub(ext_one(), coordinate), drawn[-1]), add(both, both))
        eq_drawn = ext_mul(eq_drawn, step)

    # 7. Open the columns, and their next rows: the common mains first, then the other parts.
    openings = [each.openings() for each in folded]
    for which in (slice(0, 1), slice(1, None)):
        for trace, parts in zip(traces, openings, strict=True):
            for part in parts[which]:
                pairs = part.reshape(-1, 2, 4) if trace.reads_next else np.stack((part, np.zeros_like(part)), axis=1)
                transcript.observe_words(pairs)
    shares_of = np.stack(claims)
    sent_rounds = np.stack(rounds) if rounds else np.zeros((0, max_degree + 1, 4), dtype=np.uint32)
    proof = ConstraintProof(shares_of[:, 0], shares_of[:, 1], univariate, sent_rounds, tuple(map(tuple, openings)))
    return proof, drawn


def constraint_form(graph: Graph, powers: Elements) -> Form:
    """The sum of an AIR's constraints, each times a power."""
    form = Form()
    for node, power in zip(graph.constraints, powers, strict=False):
        form.plus(node, power)
    return form


def bus_forms(
    trace: ProverTrace, log_skip: int, weights: BusWeights, point: Sequence[Elements], start: int, log_size: int
) -> tuple[Form, Form]:
    """The sums of a trace's numerators and of its denominators, less alpha, each times eq of its place at the point."""
    numerators, denominators = Form(), Form()
    log_rows = max(log2_of(trace.height), log_skip)
    share = _share(trace, log_skip)
    for number, interaction in enumerate(trace.graph.interactions):
        place, eq = (start >> log_rows) + number, ext_one()
        for bit, coordinate in enumerate(point[log_rows:log_size]):
            eq = ext_mul(eq, coordinate if place >> bit & 1 else sub(ext_one(), coordinate))
        numerators.plus(interaction.count, ext_mul(eq, share))
        denominators.add_form(weights.denominator(trace.graph, number), eq)
    return numerators, denominators


def first_round(
    k: BabyBearKernels, trace: ProverTrace, log_skip: int, eq_cube: Elements, forms: tuple[Form, Form, Form]
) -> tuple[Elements, Elements, Elements]:
    """The coefficients in Z of a trace's sums over the cube: constraints, numerators and denominators, without eq_D.

    The constraints vanish on D, so they are evaluated on one coset less, divided by Z^n - 1.
    """
    run, degree = 1 << log_skip, trace.degree
    count = degree if trace.graph.interactions else degree - 1
    if count <= 0:
        nothing = np.zeros((0, 4), dtype=np.uint32)
        return nothing, nothing, nothing
    plan, sums = _plan(trace.graph, forms), np.zeros((3, count, run, 4), dtype=np.uint32)
    for first, cells in trace.blocks(log_skip, BLOCK_CELLS // count):
        further = cells.map(lambda columns: on_cosets(k, columns, count))
        eq = eq_cube[first : first + cells.selectors.shape[1], None, None]
        for number, value in enumerate(evaluate(plan, further, BaseRing(k), forms)):
            sums[number] = add(sums[number], total(k.ext_mul(value, eq), 0))
    vanishing = elements([pow(pow(shift, run, P) - 1, -1, P) for shift in shifts(count)])
    quotient = from_cosets(mul(sums[0], vanishing[:, None, None])[: degree - 1])
    # times Z^n - 1
    zero = np.zeros((run, 4), dtype=np.uint32)
    zeros = sub(np.concatenate((zero, quotient)), np.concatenate((quotient, zero)))
    if not trace.graph.interactions:
        return zeros, zero[:0], zero[:0]
    return zeros, from_cosets(sums[1]), from_cosets(sums[2])


def bind_univariate(k: BabyBearKernels, trace: ProverTrace, log_skip: int, at: Elements) -> Cells:
    """Bind Z in a trace's columns and selectors: values (width, 2^n, 4) over the cube."""
    weights = lagrange(log_skip, at)
    found = [
        cells.map(lambda columns: weighted(k, columns, weights)) for _, cells in trace.blocks(log_skip, BLOCK_CELLS)
    ]
    columns = {name: np.concatenate([cells.columns[name] for cells in found], axis=1) for name in found[0].columns}
    return Cells(columns, np.concatenate([cells.selectors for cells in found], axis=1), trace.public)


class _Folded:
    """A trace in the multilinear rounds."""

    def __init__(self, k: BabyBearKernels, trace: ProverTrace, cells: Cells, form: Form) -> None:
        self._k, self._trace, self._cells, self._form = k, trace, cells, form
        self._plan = _plan(trace.graph, [form])
        self._constant: Elements | None = None

    def round(self, eq: Elements, points: int) -> list[Elements]:
        """The sums over the cube, times eq, with the first variable at 1, 2, ... points."""
        at = self._cells.map(lambda table: np.stack(line(table, points), axis=1))
        [value] = evaluate(self._plan, at, ExtensionRing(self._k), [self._form])
        return list(total(self._k.ext_mul(value, eq), 1))

    def exhausted(self, eq_drawn: Elements, drawn: Elements) -> Elements:
        """The value at the point so far, in the first round without variables; later times each round's challenge."""
        if self._constant is None:
            [value] = evaluate(self._plan, self._cells, ExtensionRing(self._k), [self._form])
            self._constant = ext_mul(value.reshape(4), eq_drawn)
        else:
            self._constant = ext_mul(self._constant, drawn)
        return self._constant

    def bind(self, at: Elements) -> None:
        """Bind the first variable, if there is one left."""
        if self._cells.selectors.shape[1] > 1:
            self._cells = self._cells.map(lambda table: self._k.fold(table, at))

    def openings(self) -> list[Elements]:
        """The values of each part's columns, each with that of its next row if next rows are read: (values, 4)."""
        last = len(self._trace.parts) - 1
        order = [last, *([-1] if self._trace.preprocessed is not None else []), *range(last)]
        found = []
        for part in order:
            rotations = [self._cells.columns[part, rotation] for rotation in range(1 + self._trace.reads_next)]
            found.append(np.stack([columns[:, 0] for columns in rotations], axis=1).reshape(-1, 4))
        return found


def _round(claim: Elements, heads: list[Elements], tail: Elements, coordinate: Elements) -> tuple[Elements, Elements]:
    """The polynomial s(X) = eq(coordinate, X) h(X) + tail X of a round, from the values of h at 1, 2, ... and the claim
    s(0) + s(1). Returns the values that are sent, (values, 4), at 1, 2, ..., and the coefficients."""
    opposite = sub(ext_one(), coordinate)
    rest = sub(sub(claim, ext_mul(coordinate, heads[0])), tail)
    head = interpolate([ext_mul(rest, ext_inverse(opposite)), *heads])
    coefficients = times_line(head, opposite, sub(coordinate, opposite))
    coefficients[1] = add(coefficients[1], tail)
    values = [at_point(coefficients, ext(np.asarray(x, dtype=np.uint32))) for x in range(1, len(coefficients))]
    return np.stack(values), coefficients


def _plan(graph: Graph, forms: Sequence[Form]) -> Plan:
    nodes = [(kind, a, b, c) for kind, a, b, c in graph.nodes.tolist()]
    return Plan.of(nodes, {node for form in forms for node in form.coefficients})


def _share(trace: ProverTrace, log_skip: int) -> Elements:
    """The inverse of the number of times that a trace's rows repeat, (4,)."""
    repetitions = max(1, (1 << log_skip) // trace.height)
    return ext(np.asarray(pow(repetitions, -1, P), dtype=np.uint32))


def _sum_on_subgroup(coefficients: Elements, run: int) -> Elements:
    """The sum of a polynomial's values on the subgroup of `run` points."""
    return ext_scale(total(coefficients[::run], 0), np.asarray(run, dtype=np.uint32))


def _drawn(transcript: Transcript) -> Elements:
    return np.array(transcript.sample_ext(), dtype=np.uint32)
