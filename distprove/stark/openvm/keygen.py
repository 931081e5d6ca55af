"""Keys from AIRs, as the key generation of stark-backend 2.0 makes them: the same AIRs give the same key and hash.

`GraphBuilder` makes an AIR's graph, `air_of` its entry in a key, `make_key` the key. AIRs with a preprocessed trace are
not made here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from distprove.stark.openvm.graph import Graph, Interaction, Kind
from distprove.stark.openvm.key import HeightConstraint, OpenVmAir, OpenVmKey, Widths
from distprove.stark.openvm.key_hash import key_hash
from distprove.stark.openvm.params import Proximity, SystemParams, WhirParams
from kernels.maths.babybear import Elements, P

APP_LOG_SKIP = 4
APP_LOG_FOLD = 4
APP_LOG_FINAL = 10
"""WHIR's rounds end once its polynomial has at most 2^10 coefficients."""
APP_QUERY_BITS = 80
"""Bits that the queries of a WHIR round must give: 100, less those of the work before them."""


def app_params(log_stacked_height: int) -> SystemParams:
    """Return the production parameters of the app layer for stacks of that height, above 2^10: 100 bits of security.

    They are `app_params_with_100_bits_security` of openvm-stark-sdk 2.0.
    """
    log_blowup = 1
    rounds = -(-(log_stacked_height - APP_LOG_FINAL) // APP_LOG_FOLD)
    rates = [log_blowup + i * (APP_LOG_FOLD - 1) for i in range(rounds)]
    return SystemParams(
        log_skip=APP_LOG_SKIP,
        n_stack=log_stacked_height - APP_LOG_SKIP,
        w_stack=2048,
        log_blowup=log_blowup,
        whir=WhirParams(
            log_fold=APP_LOG_FOLD,
            # Unique decoding: a query of a word too far from the code agrees with a share (1 + rate) / 2 of it.
            queries=tuple(math.ceil(APP_QUERY_BITS / -math.log2((1 + 2.0**-rate) / 2)) for rate in rates),
            mu_pow_bits=15,
            query_pow_bits=20,
            folding_pow_bits=5,
            proximity=Proximity("UniqueDecoding"),
        ),
        max_interactions=P,
        log_max_message_length=7,
        logup_pow_bits=18,
        max_constraint_degree=3,
    )


class GraphBuilder:
    """Makes the nodes of an AIR's graph. Equal nodes are one node. Expressions are not simplified."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, int, int], int] = {}
        self._degrees: list[int] = []

    def column(self, column: int, *, part: int = 0, offset: int = 0) -> int:
        """The node of a main column; `offset` 1 for its next row."""
        return self._node(Kind.MAIN, column, part, offset, degree=1)

    def constant(self, value: int) -> int:
        """The node of a field element."""
        return self._node(Kind.CONSTANT, value % P, 0, 0, degree=0)

    def mul(self, left: int, right: int) -> int:
        """The node of a product of two nodes."""
        degree = self._degrees[left] + self._degrees[right]
        return self._node(Kind.MUL, left, right, degree, degree=degree)

    def graph(self, constraints: Sequence[int], interactions: Sequence[Interaction]) -> Graph:
        """The graph with these nodes as constraints, each once, and these interactions."""
        nodes = np.array(list(self._numbers), dtype=np.uint32).reshape(-1, 4)
        return Graph(nodes, tuple(sorted(set(constraints))), tuple(interactions))

    def _node(self, kind: Kind, a: int, b: int, c: int, *, degree: int) -> int:
        found = self._numbers.setdefault((int(kind), a, b, c), len(self._numbers))
        if found == len(self._degrees):
            self._degrees.append(degree)
        return found


def air_of(name: str, widths: Widths, graph: Graph) -> OpenVmAir:
    """Return an AIR without preprocessed trace and public values, whose trace no proof must have."""
    needs_next = graph.reads_next
    return OpenVmAir(
        name=name,
        is_required=False,
        public_values=0,
        needs_next=needs_next,
        max_constraint_degree=graph.degree,
        widths=widths,
        preprocessed=None,
        graph=graph,
        unused_variables=_unused(widths, graph, needs_next),
    )


def make_key(params: SystemParams, airs: Sequence[OpenVmAir]) -> OpenVmKey:
    """Return the key of AIRs, whose degrees and messages fit the parameters."""
    key = OpenVmKey(params, tuple(airs), _height_constraints(params, airs), np.zeros(8, dtype=np.uint32))
    return OpenVmKey(params, key.airs, key.height_constraints, key_hash(key))


def _unused(widths: Widths, graph: Graph, needs_next: bool) -> Elements:
    """The main columns that no node reads, (columns, 4), in the order of parts, columns and rows."""
    read = {tuple(node) for node in graph.nodes[graph.nodes[:, 0] == Kind.MAIN].tolist()}
    every = (
        (int(Kind.MAIN), column, part, offset)
        for part, width in enumerate((*widths.cached, widths.common))
        for column in range(width)
        for offset in range(1 + needs_next)
    )
    return np.array([node for node in every if node not in read], dtype=np.uint32).reshape(-1, 4)


def _height_constraints(params: SystemParams, airs: Sequence[OpenVmAir]) -> tuple[HeightConstraint, ...]:
    """The bounds of heights: on each bus fewer messages than p by weight, and the number of all interactions. A bound
    that another one implies is left out."""
    by_bus = dict[int, list[int]]()
    for number, air in enumerate(airs):
        for each in air.graph.interactions:
            by_bus.setdefault(each.bus, [0] * len(airs))[number] += each.weight
    bounds = [HeightConstraint(tuple(by_bus[bus]), P) for bus in sorted(by_bus)]
    bounds.append(HeightConstraint(tuple(len(air.graph.interactions) for air in airs), params.max_interactions))
    kept = list[HeightConstraint]()
    for bound in bounds:
        if any(_implied(bound, other) for other in kept):
            continue
        kept = [other for other in kept if not _implied(other, bound)]
        kept.append(bound)
    return tuple(kept)


def _implied(bound: HeightConstraint, by: HeightConstraint) -> bool:
    smaller = all(a <= b for a, b in zip(bound.coefficients, by.coefficients, strict=True))
    return smaller and bound.threshold >= by.threshold
