"""The linear forms of AIRs' nodes that the prover sums, and their coefficients for the challenges of a proof.

The coefficients of all traces are computed at once: a segment has dozens of traces with hundreds of terms each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from distprove.stark.openvm.graph import Graph
from kernels.cpu.babybear_caller import ext_mul
from kernels.host.babybear import Indices, ProductTerms, eq_of_places
from kernels.interface.openvm_rules import BoundForms, GraphProgram
from kernels.maths.babybear import Elements, add, ext, ext_one, mul, total
from kernels.maths.distinct import distinct_with_places

SUMS = 3
"""Forms of `AirForms.sums`: constraints, numerators, denominators."""


@dataclass(frozen=True)
class BusWeights:
    """The challenges of the buses."""

    alpha: Elements
    """(4,), added to each denominator."""
    beta_powers: Elements
    """(n, 4), n the length of the longest message and one more."""


class AirForms:
    """The programs of an AIR, and where its constraints and messages stand in them."""

    def __init__(self, graph: Graph) -> None:
        interactions = graph.interactions
        self.constraints = len(graph.constraints)
        self.interactions = len(interactions)
        lengths = np.array([len(each.message) for each in interactions], dtype=np.int64)
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0))
        """Length of the longest message."""
        self.buses = np.array([each.bus + 1 for each in interactions], dtype=np.uint32)
        counts = np.array([each.count for each in interactions], dtype=np.int64)
        messages = np.array([node for each in interactions for node in each.message], dtype=np.int64)
        self.message_of = np.repeat(np.arange(len(interactions)), lengths)
        """The interaction of each element of a message."""
        self.message_power = np.array([i for each in interactions for i in range(len(each.message))], dtype=np.int64)
        """The power of beta of each element of a message."""

        degrees = graph.degrees()
        self.bus_degree = max((max(1, degrees[node]) for node in (*counts.tolist(), *messages.tolist())), default=0)
        """Greatest degree of a multiplicity or of an element of a message; 1 for constants, 0 without interactions."""

        constraints = np.array(graph.constraints, dtype=np.int64)
        distinct_counts, count_term = distinct_with_places(counts)
        distinct_messages, message_term = distinct_with_places(messages)
        self.count_term: Indices = len(constraints) + count_term
        """The term of `sums` of each interaction's multiplicity."""
        self.message_term: Indices = len(constraints) + len(distinct_counts) + message_term
        """The term of `sums` of each element of a message."""
        self.sums = GraphProgram(graph.nodes, (constraints, distinct_counts, distinct_messages))
        """The constraints, the numerators and the denominators, each summed up."""

        joined, combined_term = distinct_with_places(np.concatenate(self.sums.forms))
        self.combined_term: Indices = combined_term
        """The term of `combined` of each term of `sums`."""
        self.combined = GraphProgram(graph.nodes, (joined,))
        """All of `sums` as one form."""

        forms, terms, ends = [], list[Indices](), 0
        for each in interactions:
            nodes, term = distinct_with_places(np.array(each.message, dtype=np.int64))
            forms += [np.array([each.count], dtype=np.int64), nodes]
            terms.append(ends + 1 + term)
            ends += 1 + len(nodes)
        self.fractions = GraphProgram(graph.nodes, tuple(forms))
        """Numerator and denominator of each interaction."""
        self.fraction_message_term: Indices = _joined(terms)
        """The term of `fractions` of each element of a message."""
        self.fraction_count_term: Indices = np.cumsum([0, *map(len, forms)], dtype=np.int64)[:-1:2]
        """The term of `fractions` of each interaction's multiplicity."""


class SegmentForms:
    """The forms of all traces of a proof."""

    def __init__(
        self, airs: Sequence[AirForms], shares: Sequence[int], starts: Sequence[int], rows: Sequence[int]
    ) -> None:
        """`shares`: the factor of each trace's numerators; `starts`: the place of its first fraction; `rows`: its rows
        with repetitions."""
        self._airs = airs
        self._trace: Indices = np.repeat(np.arange(len(airs)), [air.interactions for air in airs])
        """The trace of each interaction."""
        self._first: Indices = np.cumsum([0, *(air.interactions for air in airs)], dtype=np.int64)
        """Where the interactions of each trace begin, and their number."""
        own = np.arange(len(self._trace), dtype=np.int64) - self._first[self._trace]
        self._shares = ext(np.array(shares, dtype=np.uint32))
        """The factor of each trace's numerators, (traces, 4)."""
        self._log_rows: Indices = np.array([own.bit_length() - 1 for own in rows], dtype=np.int64)[self._trace]
        self._start: Indices = np.array(starts, dtype=np.int64)[self._trace] + (own << self._log_rows)
        """The place of each interaction's first fraction."""
        self._lengths = _joined([air.lengths for air in airs])
        self._buses = np.concatenate([np.zeros(0, dtype=np.uint32), *(air.buses for air in airs)])[:, None]
        self._message_of = _joined([air.message_of for air in airs], self._first)
        self._message_power = _joined([air.message_power for air in airs])
        self._constraints = max((air.constraints for air in airs), default=0)
        """Most constraints of an AIR."""

    def fractions(self, weights: BusWeights) -> list[BoundForms]:
        """The numerator and the denominator of each interaction of each trace."""
        places, terms = self._fraction_terms
        found = terms.summed(ext_one()[None], np.concatenate((self._shares, weights.beta_powers)))
        constants = np.zeros((len(self._trace), 2, 4), dtype=np.uint32)
        constants[:, 1] = add(self._of_buses(weights), weights.alpha)
        ends = (2 * self._first).tolist()
        return [
            BoundForms(air.fractions, found[a:b], constants.reshape(-1, 4)[c:d])
            for air, a, b, c, d in zip(self._airs, places, places[1:], ends, ends[1:], strict=False)
        ]

    @cached_property
    def _fraction_terms(self) -> tuple[list[int], ProductTerms]:
        """Where each trace's terms of `fractions` begin, and what they add up: 1 times shares, then powers of beta."""
        places = _starts([len(air.fractions.term_nodes) for air in self._airs])
        to = (
            _joined([air.fraction_count_term for air in self._airs], places),
            _joined([air.fraction_message_term for air in self._airs], places),
        )
        factors = np.concatenate((self._trace, len(self._airs) + self._message_power))
        return places.tolist(), ProductTerms(np.zeros_like(factors), factors, np.concatenate(to), int(places[-1]))

    def sums(self, weights: BusWeights, powers: Elements, point: Sequence[Elements], log_size: int) -> list[BoundForms]:
        """For each trace the sum of its constraints, times powers; that of its numerators, each times eq of its place
        at the point, whose first `log_size` coordinates are those of the buses; and that of its denominators, less
        alpha, weighted alike."""
        coordinates = np.array(point[:log_size], dtype=np.uint32).reshape(-1, 4)
        eq = eq_of_places(coordinates, self._start, self._log_rows)
        places, terms = self._sum_terms
        factors = np.concatenate((ext_one()[None], self._shares, weights.beta_powers))
        found = terms.summed(np.concatenate((powers[: self._constraints], eq)), factors)
        constants = np.zeros((len(self._airs), SUMS, 4), dtype=np.uint32)
        own = np.arange(len(eq), dtype=np.int64)
        constants[:, 2] = ProductTerms(own, own, self._trace, len(self._airs)).summed(eq, self._of_buses(weights))
        return [
            BoundForms(air.sums, found[a:b], constant)
            for air, a, b, constant in zip(self._airs, places, places[1:], constants, strict=False)
        ]

    @cached_property
    def _sum_terms(self) -> tuple[list[int], ProductTerms]:
        """Where each trace's terms of `sums` begin, and what they add up: the powers of the constraints and eq of the
        interactions, times 1, shares and powers of beta."""
        places = _starts([len(air.sums.term_nodes) for air in self._airs])
        constraints = [np.arange(air.constraints, dtype=np.int64) for air in self._airs]
        to = (
            _joined(constraints, places),
            _joined([air.count_term for air in self._airs], places),
            _joined([air.message_term for air in self._airs], places),
        )
        interactions = self._constraints + np.arange(len(self._trace), dtype=np.int64)
        first = _joined(constraints), interactions, self._constraints + self._message_of
        others = np.zeros_like(first[0]), 1 + self._trace, 1 + len(self._airs) + self._message_power
        first_joined, others_joined, to_joined = (np.concatenate(each) for each in (first, others, to))
        return places.tolist(), ProductTerms(first_joined, others_joined, to_joined, int(places[-1]))

    def combined(self, sums: Sequence[BoundForms], scales: Elements) -> list[BoundForms]:
        """Each trace's `sums` times scales (traces, 3, 4), added up to one form."""
        places, terms = self._combined_terms
        found = terms.summed(np.concatenate([bound.coefficients for bound in sums]), scales.reshape(-1, 4))
        joined = total(ext_mul(np.stack([bound.constants for bound in sums]), scales), 1)[:, None]
        return [
            BoundForms(air.combined, found[a:b], constant)
            for air, a, b, constant in zip(self._airs, places, places[1:], joined, strict=False)
        ]

    @cached_property
    def _combined_terms(self) -> tuple[list[int], ProductTerms]:
        """Where each trace's terms of `combined` begin, and what they add up: the terms of `sums`, times scales."""
        places = _starts([len(air.combined.term_nodes) for air in self._airs])
        of_form = _joined(
            [np.array(air.sums.term_forms, dtype=np.int64) for air in self._airs], SUMS * np.arange(len(self._airs))
        )
        to = _joined([air.combined_term for air in self._airs], places)
        return places.tolist(), ProductTerms(np.arange(len(to), dtype=np.int64), of_form, to, int(places[-1]))

    def _of_buses(self, weights: BusWeights) -> Elements:
        """The part of each interaction's denominator that is the same in all rows, less alpha: (interactions, 4)."""
        return mul(weights.beta_powers[self._lengths], self._buses)


def _starts(sizes: Sequence[int]) -> Indices:
    """Where parts of these sizes begin one behind another, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _joined(parts: Sequence[Indices], moved: Indices | None = None) -> Indices:
    """The parts one behind another, all numbers of a part moved by as much as `moved` has for it."""
    found = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    return found if moved is None else found + np.repeat(moved[: len(parts)], [len(part) for part in parts])
