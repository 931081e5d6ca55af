"""The linear forms of AIRs' nodes that the prover sums, and their coefficients for the challenges of a proof.

The coefficients of all traces are computed at once: a segment has dozens of traces with hundreds of terms each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.stark.openvm.graph import Graph
from kernels.cpu.babybear_caller import ext_mul
from kernels.interface.openvm_rules import BoundForms, GraphProgram
from kernels.maths.babybear import Elements, P, add, elements, ext, ext_one, mul, sub

Indices = NDArray[np.int64]
DIGITS = 4
"""Coordinates of a point that are looked up at once."""
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
        self.buses = np.array([each.bus + 1 for each in interactions], dtype=np.uint32)
        counts = np.array([each.count for each in interactions], dtype=np.int64)
        messages = np.array([node for each in interactions for node in each.message], dtype=np.int64)
        self.message_of = np.repeat(np.arange(len(interactions)), lengths)
        """The interaction of each element of a message."""
        self.message_power = np.array([i for each in interactions for i in range(len(each.message))], dtype=np.int64)
        """The power of beta of each element of a message."""

        constraints = np.array(graph.constraints, dtype=np.int64)
        distinct_counts, count_term = np.unique(counts, return_inverse=True)
        distinct_messages, message_term = np.unique(messages, return_inverse=True)
        self.count_term: Indices = len(constraints) + count_term.reshape(-1)
        """The term of `sums` of each interaction's multiplicity."""
        self.message_term: Indices = len(constraints) + len(distinct_counts) + message_term.reshape(-1)
        """The term of `sums` of each element of a message."""
        self.sums = GraphProgram(graph.nodes, (constraints, distinct_counts, distinct_messages))
        """The constraints, the numerators and the denominators, each summed up."""

        joined, combined_term = np.unique(np.concatenate(self.sums.forms), return_inverse=True)
        self.combined_term: Indices = combined_term.reshape(-1)
        """The term of `combined` of each term of `sums`."""
        self.combined = GraphProgram(graph.nodes, (joined,))
        """All of `sums` as one form."""

        forms, terms, ends = [], list[Indices](), 0
        for each in interactions:
            nodes, term = np.unique(np.array(each.message, dtype=np.int64), return_inverse=True)
            forms += [np.array([each.count], dtype=np.int64), nodes]
            terms.append(ends + 1 + term.reshape(-1))
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
        first = np.cumsum([0, *(air.interactions for air in airs)], dtype=np.int64)[:-1]
        own = np.arange(len(self._trace), dtype=np.int64) - first[self._trace]
        self._share = np.array(shares, dtype=np.uint32)[self._trace]
        self._log_rows: Indices = np.array([own.bit_length() - 1 for own in rows], dtype=np.int64)[self._trace]
        self._start: Indices = np.array(starts, dtype=np.int64)[self._trace] + (own << self._log_rows)
        """The place of each interaction's first fraction."""
        self._lengths = _joined([air.lengths for air in airs])
        self._buses = np.concatenate([air.buses for air in airs]) if airs else np.zeros(0, dtype=np.uint32)
        self._message_of = _joined([air.message_of + at for air, at in zip(airs, first.tolist(), strict=True)])
        self._message_power = _joined([air.message_power for air in airs])
        self._digits: dict[tuple[int, int], Indices] = {}

    def fractions(self, weights: BusWeights) -> list[BoundForms]:
        """The numerator and the denominator of each interaction of each trace."""
        sizes = [len(air.fractions.term_nodes) for air in self._airs]
        places = np.cumsum([0, *sizes], dtype=np.int64)
        counts = _joined([air.fraction_count_term + at for air, at in zip(self._airs, places, strict=False)])
        messages = _joined([air.fraction_message_term + at for air, at in zip(self._airs, places, strict=False)])
        values = np.concatenate((ext(self._share), weights.beta_powers[self._message_power]))
        terms = _summed(np.concatenate((counts, messages)), values, int(places[-1]))
        constants = np.zeros((len(self._trace), 2, 4), dtype=np.uint32)
        constants[:, 1] = add(mul(weights.beta_powers[self._lengths], self._buses[:, None]), weights.alpha)
        ends = np.cumsum([0, *(2 * air.interactions for air in self._airs)], dtype=np.int64)
        return [
            BoundForms(air.fractions, terms[a:b], constants.reshape(-1, 4)[c:d])
            for air, a, b, c, d in zip(self._airs, places, places[1:], ends, ends[1:], strict=False)
        ]

    def sums(self, weights: BusWeights, powers: Elements, point: Sequence[Elements], log_size: int) -> list[BoundForms]:
        """For each trace the sum of its constraints, times powers; that of its numerators, each times eq of its place
        at the point, whose first `log_size` coordinates are those of the buses; and that of its denominators, less
        alpha, weighted alike."""
        sizes = [len(air.sums.term_nodes) for air in self._airs]
        places = np.cumsum([0, *sizes], dtype=np.int64)
        constraints = _joined([np.arange(air.constraints) + at for air, at in zip(self._airs, places, strict=False)])
        of_powers = _joined([np.arange(air.constraints) for air in self._airs])
        counts = _joined([air.count_term + at for air, at in zip(self._airs, places, strict=False)])
        messages = _joined([air.message_term + at for air, at in zip(self._airs, places, strict=False)])
        eq = self._eq_of_places(point[:log_size])
        of_messages = ext_mul(eq[self._message_of], weights.beta_powers[self._message_power])
        values = np.concatenate((powers[of_powers], mul(eq, self._share[:, None]), of_messages))
        terms = _summed(np.concatenate((constraints, counts, messages)), values, int(places[-1]))
        buses = ext_mul(eq, mul(weights.beta_powers[self._lengths], self._buses[:, None]))
        constants = np.zeros((len(self._airs), SUMS, 4), dtype=np.uint32)
        constants[:, 2] = _summed(self._trace, buses, len(self._airs))
        return [
            BoundForms(air.sums, terms[a:b], constant)
            for air, a, b, constant in zip(self._airs, places, places[1:], constants, strict=False)
        ]

    def combined(self, sums: Sequence[BoundForms], scales: Elements) -> list[BoundForms]:
        """Each trace's `sums` times scales (traces, 3, 4), added up to one form."""
        sizes = [len(air.combined.term_nodes) for air in self._airs]
        places = np.cumsum([0, *sizes], dtype=np.int64)
        terms = _joined([air.combined_term + at for air, at in zip(self._airs, places, strict=False)])
        of_form = _joined([3 * i + np.array(air.sums.term_forms, dtype=np.int64) for i, air in enumerate(self._airs)])
        before = np.concatenate([bound.coefficients for bound in sums])
        values = _summed(terms, ext_mul(before, scales.reshape(-1, 4)[of_form]), int(places[-1]))
        constants = ext_mul(np.stack([bound.constants for bound in sums]), scales)
        joined = elements(constants.astype(np.int64).sum(axis=1, keepdims=True))
        return [
            BoundForms(air.combined, values[a:b], constant)
            for air, a, b, constant in zip(self._airs, places, places[1:], joined, strict=False)
        ]

    def _eq_of_places(self, point: Sequence[Elements]) -> Elements:
        """eq of each interaction's place and the coordinates of the point after those of its rows, (k, 4)."""
        found = np.broadcast_to(ext_one(), (len(self._trace), 4))
        for first in range(0, len(point), DIGITS):
            table = ext_one()[None]
            for coordinate in reversed(point[first : first + DIGITS]):
                choices = np.stack((ext_one(), sub(ext_one(), coordinate), coordinate))
                table = ext_mul(table[:, None], choices[None]).reshape(-1, 4)
            found = ext_mul(found, table[self._chosen(first, min(DIGITS, len(point) - first))])
        return found

    def _chosen(self, first: int, count: int) -> Indices:
        """A number of each interaction for `count` coordinates from `first` on. Its digits to the base 3, the last one
        for `first`, are 0 for a coordinate of its rows, 1 where the bit of its place is 0, and 2 where that is 1."""
        known = self._digits.get((first, count))
        if known is None:
            known = np.zeros(len(self._trace), dtype=np.int64)
            for bit in reversed(range(first, first + count)):
                known = 3 * known + np.where(bit < self._log_rows, 0, 1 + (self._start >> bit & 1))
            self._digits[first, count] = known
        return known


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _summed(places: Indices, values: Elements, size: int) -> Elements:
    """The sums of the values (n, 4) of each place, (size, 4)."""
    found = np.zeros(4 * size, dtype=np.uint64)
    np.add.at(found, (4 * places[:, None] + np.arange(4)).reshape(-1), values.astype(np.uint64).reshape(-1))
    return np.asarray(found % np.uint64(P)).astype(np.uint32).reshape(size, 4)
