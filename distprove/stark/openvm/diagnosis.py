"""Finds what traces of OpenVM violate: a constraint and its row, or a message that does not balance on its bus.

A message of a row counts with the row's multiplicity. Over all traces those of equal messages must sum to zero mod p.
Texts name AIRs, constraints, interactions and rows, and no value: traces are secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.stark.field_operations import FieldOperations
from distprove.stark.openvm.graph import Graph, Interaction, PointValues, values
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.traces import AirTrace
from distprove.wanted import require_wanted
from kernels.maths.babybear import Elements, P, add, mul, sub

BLOCK_CELLS = 1 << 22
"""Values of nodes that are held at a time: 16 MiB."""
MOST_WORDS = 1 << 26
"""Words of the messages of one bus that are compared, 256 MiB; a bus with more is left out."""


class Rows(FieldOperations[Elements]):
    """Elements of BabyBear in many rows, (rows,) or (1,)."""

    zero = np.zeros(1, dtype=np.uint32)
    one = np.ones(1, dtype=np.uint32)

    def constant(self, value: int) -> Elements:
        return np.array([value % P], dtype=np.uint32)

    def add(self, a: Elements, b: Elements) -> Elements:
        return add(a, b)

    def sub(self, a: Elements, b: Elements) -> Elements:
        return sub(a, b)

    def mul(self, a: Elements, b: Elements) -> Elements:
        return mul(a, b)


@dataclass(frozen=True)
class _Sent:
    """The messages of an interaction in all rows that send any."""

    where: str
    rows: NDArray[np.int64]
    """Their rows, (messages,)."""
    words: Elements
    """(messages, words)"""
    counts: Elements
    """Multiplicities, (messages,)."""


def fault_of(key: OpenVmKey, traces: Sequence[AirTrace]) -> str | None:
    """The first violated constraint, or else the first unbalanced message, in words; None where nothing is violated.

    `traces` are those of a proof, of the key's shape. Buses of more than `MOST_WORDS` words are not compared. Raises
    CalledOff if the caller's job was cancelled.
    """
    sent: dict[tuple[int, int], list[_Sent]] = {}
    for trace in traces:
        air = key.airs[trace.air]
        where = f"AIR {trace.air}, {air.name}"
        graph, found = air.graph, _Found(air.graph)
        for start, nodes in _node_blocks(key, trace):
            found.take(start, nodes)
        if (violated := found.violated) is not None:
            place, row, more = violated
            also = f" and {more} more row{'s' * (more != 1)}" if more else ""
            return f"{where}: constraint {place} (node {graph.constraints[place]}) is not zero in row {row}{also}"
        for number, interaction in enumerate(graph.interactions):
            bus = sent.setdefault((interaction.bus, len(interaction.message)), [])
            bus.append(found.sent(number, f"{where}: interaction {number}"))
    for (number, _), messages in sorted(sent.items(), key=lambda item: item[0]):
        if (unbalanced := _unbalanced(messages)) is not None:
            return f"bus {number} does not balance: {unbalanced}"
    return None


class _Found:
    """What the rows of a trace show, block by block."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._first: dict[int, int] = {}
        self._bad: dict[int, int] = {}
        self._sent: list[list[tuple[NDArray[np.int64], Elements, Elements]]] = [[] for _ in graph.interactions]

    def take(self, start: int, nodes: Sequence[Elements]) -> None:
        """Look at the values of all nodes, (rows,) each, from a row on."""
        for place, node in enumerate(self._graph.constraints):
            rows = np.flatnonzero(nodes[node])
            if len(rows):
                self._first.setdefault(place, start + int(rows[0]))
                self._bad[place] = self._bad.get(place, 0) + len(rows)
        for interaction, parts in zip(self._graph.interactions, self._sent, strict=True):
            parts.append(_messages(interaction, start, nodes))

    @property
    def violated(self) -> tuple[int, int, int] | None:
        """The first violated constraint, its first row, and the number of its further rows."""
        place = min(self._first, default=None)
        return None if place is None else (place, self._first[place], self._bad[place] - 1)

    def sent(self, number: int, where: str) -> _Sent:
        """The messages of an interaction."""
        rows, words, counts = zip(*self._sent[number], strict=True)
        return _Sent(where, np.concatenate(rows), np.concatenate(words), np.concatenate(counts))


def _messages(
    interaction: Interaction, start: int, nodes: Sequence[Elements]
) -> tuple[NDArray[np.int64], Elements, Elements]:
    """Rows, messages and multiplicities of the rows of a block whose multiplicity is not zero."""
    counts = nodes[interaction.count]
    rows = np.flatnonzero(counts)
    words = np.stack([nodes[node][rows] for node in interaction.message], axis=1)
    return start + rows, words, counts[rows]


def _node_blocks(key: OpenVmKey, trace: AirTrace) -> Iterator[tuple[int, list[Elements]]]:
    """The first row of each block of rows, and the values of all nodes of the AIR in it, (rows,) each."""
    air, height = key.airs[trace.air], trace.height
    fixed = np.zeros((0, height), dtype=np.uint32) if air.preprocessed is None else air.preprocessed.trace
    parts = [fixed, *(each.columns for each in trace.cached), trace.common]
    size = max(1, BLOCK_CELLS // max(1, len(air.graph.nodes)))
    for start in range(0, height, size):
        require_wanted()
        rows = np.arange(start, min(height, start + size))
        after = (rows + 1) % height
        cells = [[(column[rows], column[after]) for column in part] for part in parts]
        is_first, is_last = ((rows == place).astype(np.uint32) for place in (0, height - 1))
        at = PointValues(cells, trace.public_values, is_first, is_last)
        yield start, [np.broadcast_to(value, rows.shape) for value in values(Rows(), air.graph, at)]


def _unbalanced(sent: Sequence[_Sent]) -> str | None:
    """The first message of a bus, all of one length, whose multiplicities do not sum to zero, in words."""
    if sum(each.words.size for each in sent) > MOST_WORDS:
        return None
    words = np.concatenate([each.words for each in sent])
    if not len(words):
        return None
    _, group, first = _groups(words)
    counts = np.concatenate([each.counts for each in sent]).astype(np.int64)
    sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(sums, group, counts)  # below 2^26 messages of less than 2^31 each
    bad = np.flatnonzero(sums % P)
    if not len(bad):
        return None
    place, more = int(first[bad].min()), len(bad) - 1
    for each in sent:
        if place < len(each.rows):
            also = f", and so are {more} other message{'s' * (more != 1)}" if more else ""
            return f"the message of {each.where} in row {each.rows[place]} is not received as often as sent{also}"
        place -= len(each.rows)
    raise AssertionError("a message is of an interaction")


def _groups(words: Elements) -> tuple[Elements, NDArray[np.int64], NDArray[np.int64]]:
    """The different rows of a matrix, for each row the number of its equals, and for each of these their first row."""
    different, first, group = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return different, group.reshape(-1), first
