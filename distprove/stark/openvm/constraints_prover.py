"""The prover of the batched sumcheck of all constraints and all interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from distprove.stark.openvm.forms import SUMS, AirForms, BusWeights, SegmentForms
from distprove.stark.openvm.proof import ConstraintProof
from distprove.stark.openvm.tables import eq_table, lagrange
from distprove.stark.openvm.transcript import Transcript
from distprove.stark.openvm.univariate import evaluate as at_point
from distprove.stark.openvm.univariate import from_cosets, multiply, on_subgroup, padded
from distprove.steps import Steps
from kernels.cpu.babybear_caller import CALLER, ext_dot, ext_mul, ext_powers, intt
from kernels.interface.arrays import Array
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_rules import RuleTable, coset_shifts
from kernels.maths.babybear import (
    Elements,
    P,
    add,
    elements,
    mul,
    sub,
    total,
)
from kernels.maths.babybear_ntt import log2_of


@dataclass(frozen=True)
class ProverTrace:
    """The trace of one AIR."""

    forms: AirForms = field(repr=False)
    degree: int
    """Greatest degree of the AIR's constraints and interactions."""
    reads_next: bool
    parts: tuple[Array, ...] = field(repr=False)
    """Columns (width, height) of the cached mains, then of the common main, in the backend's memory."""
    preprocessed: Array | None = field(repr=False)
    """Columns (width, height) in the backend's memory."""
    public: tuple[int, ...]

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.parts[-1].shape[1])

    @property
    def cosets(self) -> int:
        """Number of cosets that determine its sums in round 0. Constraints are zero on D, so one coset less is enough
        for these."""
        return self.degree if self.forms.interactions else max(0, self.degree - 1)

    def table(self) -> RuleTable:
        """The trace as the kernels read it."""
        fixed = {} if self.preprocessed is None else {-1: self.preprocessed}
        return RuleTable(dict(enumerate(self.parts)) | fixed, self.height, self.public)


def bus_places(traces: Sequence[ProverTrace], log_skip: int) -> tuple[list[int], int]:
    """Where each trace's fractions begin, and the number of all.

    The interactions of a trace follow each other, each with max(height, 2^log_skip) fractions.
    """
    starts, end = [], 0
    for trace in traces:
        starts.append(end)
        end += trace.forms.interactions * max(trace.height, 1 << log_skip)
    return starts, end


def segment_forms(traces: Sequence[ProverTrace], log_skip: int) -> SegmentForms:
    """The forms of all traces. Numerators of a trace that repeats are divided by the number of repetitions."""
    starts, _ = bus_places(traces, log_skip)
    rows = [max(trace.height, 1 << log_skip) for trace in traces]
    shares = [pow(own // trace.height, -1, P) for own, trace in zip(rows, traces, strict=True)]
    return _segment(tuple(trace.forms for trace in traces), tuple(shares), tuple(starts), tuple(rows))


@lru_cache(maxsize=4)
def _segment(
    airs: tuple[AirForms, ...], shares: tuple[int, ...], starts: tuple[int, ...], rows: tuple[int, ...]
) -> SegmentForms:
    """A proof needs the same forms twice, and so do proofs of one shape."""
    return SegmentForms(airs, shares, starts, rows)


def fractions(
    kernels: OpenVmKernels, traces: Sequence[ProverTrace], log_skip: int, weights: BusWeights
) -> tuple[Array, Array] | None:
    """Return numerators (count,) and denominators (count, 4) of all interactions in all rows, in the backend's memory.

    A trace of fewer than 2^log_skip rows repeats, and its numerators are divided by the number of repetitions. Returns
    None if there are no interactions.
    """
    starts, count = bus_places(traces, log_skip)
    if not count:
        return None
    tables, forms = [trace.table() for trace in traces], segment_forms(traces, log_skip).fractions(weights)
    return kernels.rules.fractions(tables, forms, starts, count, log_skip)


def prove_constraints(
    kernels: OpenVmKernels,
    transcript: Transcript,
    traces: Sequence[ProverTrace],
    log_skip: int,
    max_degree: int,
    weights: BusWeights,
    bus_point: Sequence[Elements],
    steps: Steps,
) -> tuple[ConstraintProof, list[Elements]]:
    """Prove that all constraints hold, and reduce the claims about the buses' fractions to claims about columns.

    `traces` are in descending order of their heights. `bus_point` is the point of the buses' claims, empty without
    interactions. Returns the proof and the point of the claims about columns, its univariate coordinate first.
    """
    # 1. Complete the point, and draw the powers that combine an AIR's constraints.
    run = 1 << log_skip
    variables = max(0, log2_of(traces[0].height) - log_skip)
    point = list(bus_point)
    while len(point) < log_skip + variables:
        point.append(transcript.sample_array())
    powers = ext_powers(transcript.sample_array(), max(trace.forms.constraints for trace in traces))
    with steps("constraints.forms"):
        segment = segment_forms(traces, log_skip)
        forms = segment.sums(weights, powers, point, len(bus_point))

    # 2. The univariate polynomial of each trace's three sums, without the factor eq.
    cube = np.array(point[log_skip : log_skip + variables], dtype=np.uint32).reshape(-1, 4)
    with steps("constraints.round_0"):
        rounds = kernels.rules.rounds([trace.table() for trace in traces], log_skip, cube)
        on_cosets = rounds.coset_sums(forms, [trace.cosets for trace in traces])
    sums = first_polynomials(traces, on_cosets, max_degree, run)
    degree = (max_degree + 1) * (run - 1)
    eq_on_rows = eq_table(CALLER, point[:log_skip])
    eq_rows, eq_one = intt(eq_on_rows, -2), intt(lagrange(log_skip, point[0]), -2)

    # 3. Claim each trace's share in the numerator and the denominator of the buses: its sum over D.
    claims = ext_dot(on_subgroup(sums[:, 1:], run), eq_on_rows)
    transcript.observe_words(claims)

    # 4. Combine all, and send the univariate round.
    batch = ext_powers(transcript.sample_array(), SUMS * len(traces))
    scales = np.concatenate((batch[2 * len(traces) :, None], batch[: 2 * len(traces)].reshape(-1, 2, 4)), axis=1)
    of_constraints, of_numerators, of_denominators = total(ext_mul(sums, scales[:, :, None]), 0)
    of_buses = multiply(add(of_numerators, of_denominators), eq_rows, degree + 1)
    univariate = add(of_buses, multiply(of_constraints, eq_one, degree + 1))
    transcript.observe_words(univariate)
    drawn = transcript.sample_array()

    # 5. Bind Z: each trace is a table over the cube, and its three sums are one form of its cells.
    bus_scale, zero_scale = at_point(eq_rows, drawn), at_point(eq_one, drawn)
    with steps("constraints.bind"):
        combined = segment.combined(forms, ext_mul(scales, np.stack((zero_scale, bus_scale, bus_scale))))
        rounds.bind_univariate(lagrange(log_skip, drawn), combined)

    # 6. The multilinear rounds. A trace that has no variable left is a constant times the challenges of later rounds.
    with steps("constraints.rounds"):
        sent_rounds, challenges = rounds.prove(transcript, at_point(univariate, drawn), max_degree)

    # 7. Open the columns, and their next rows: the common mains first, then the other parts.
    with steps("constraints.openings"):
        found = rounds.openings([trace.reads_next for trace in traces])
    openings = [_in_order(trace, parts) for trace, parts in zip(traces, found, strict=True)]
    for which in (slice(0, 1), slice(1, None)):
        for parts in openings:
            for part in parts[which]:
                pairs = part if part.shape[1] == 2 else np.concatenate((part, np.zeros_like(part)), axis=1)
                transcript.observe_words(pairs)
    opened = tuple(tuple(part.reshape(-1, 4) for part in parts) for parts in openings)
    return ConstraintProof(claims[:, 0], claims[:, 1], univariate, sent_rounds, opened), [drawn, *challenges]


def first_polynomials(
    traces: Sequence[ProverTrace], on_cosets: Sequence[Elements], max_degree: int, run: int
) -> Elements:
    """The coefficients in Z, (traces, 3, max_degree * run, 4), of each trace's constraints, numerators and
    denominators, from their sums on cosets of D, (3, cosets, run, 4).

    The constraints vanish on D, so they are their values on one coset less, divided by Z^n - 1.
    """
    found = np.zeros((len(traces), SUMS, max_degree * run, 4), dtype=np.uint32)
    alike: dict[tuple[int, int], list[int]] = {}
    for number, trace in enumerate(traces):
        alike.setdefault((trace.degree, trace.cosets), []).append(number)
    for (degree, count), numbers in alike.items():
        if not count:
            continue
        sums = np.stack([on_cosets[number] for number in numbers])
        vanishing = elements([pow(pow(shift, run, P) - 1, -1, P) for shift in coset_shifts(count)])
        quotient = from_cosets(mul(sums[:, 0], vanishing[:, None, None])[:, : degree - 1])
        # times Z^n - 1
        size = quotient.shape[1]
        zeros = np.zeros((len(numbers), size + run, 4), dtype=np.uint32)
        zeros[:, run:] = quotient
        zeros[:, :size] = sub(zeros[:, :size], quotient)
        found[numbers, 0] = padded(zeros, max_degree * run)
        if count == degree:
            found[numbers, 1:] = padded(from_cosets(sums[:, 1:]), max_degree * run)
    return found


def _in_order(trace: ProverTrace, parts: dict[int, Elements]) -> list[Elements]:
    """The openings of a trace's parts in the order of a proof: common, preprocessed, cached."""
    last = len(trace.parts) - 1
    return [parts[part] for part in (last, *([-1] if -1 in parts else []), *range(last))]
