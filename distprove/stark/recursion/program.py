"""The programs of circuits: their tables, one partition, and a trace from the proofs that a circuit verifies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.stark.air import Air, Bus, trace_air
from distprove.stark.air.definition import Definition
from distprove.stark.multilinear.air import Rules, compile_rules
from distprove.stark.multilinear.verifier import check_statement
from distprove.stark.program import Program, Trace
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.circuit_cache import kept_circuit, kept_layout, name_of
from distprove.stark.recursion.columns import ROWS
from distprove.stark.recursion.evaluation import Evaluation, evaluate
from distprove.stark.recursion.frame import KINDS, MORE, Frame
from distprove.stark.recursion.layout import Layout, node_tables
from distprove.stark.recursion.node import (
    STATED,
    Child,
    Identity,
    Proven,
    node_fields,
    node_trees,
    stated_by,
)
from distprove.stark.recursion.tables import WIRE
from distprove.stark.statement import Statement
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

Public = tuple[tuple[str, int], ...]
"""Names and numbers of scalars of public values."""


class CircuitProgram(Program):
    """Proves that a circuit is satisfied. Its rules are those of the frame and of the public values, whatever the
    circuit."""

    row_functions = ROWS
    stated: Public
    """The public values."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @property
    @abstractmethod
    def circuit(self) -> Circuit:
        """The circuit, recorded."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The circuit's places in the frame. Raises UsageError where the circuit is too large for the frame."""

    @property
    @abstractmethod
    def circuit_name(self) -> str:
        """A digest of all that the circuit depends on, as hexadecimal digits."""

    @cached_property
    def definitions(self) -> list[Definition]:
        return [_definition(name, self.stated) for name in self.frame.log_heights]

    @cached_property
    def _rules(self) -> tuple[Rules, ...]:
        return tuple(_rules_of(name, self.stated) for name in self.frame.log_heights)

    @property
    def tables(self) -> Sequence[Air]:
        return node_tables(self.stated, self.frame.log_heights)

    @property
    def buses(self) -> Sequence[Bus]:
        return (WIRE,)

    @property
    def statement(self) -> Statement:
        return Statement(public=self.stated)

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return self.frame.log_heights

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return self.layout.preprocessed

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        fixed = [backend.to_device(columns) for columns in self.preprocessed().values()]
        return self.trace_beside(inputs, fixed.__getitem__, backend)

    def trace_beside(
        self, inputs: Mapping[str, Array], fixed: Callable[[int], Array | None], backend: Backend
    ) -> Trace:
        public = tuple(map(int, backend.to_host(inputs["stated"])))
        return Trace(self.layout.traces(inputs, fixed, backend), public)


class NodeProgram(CircuitProgram):
    """Proves that the proofs of some children verify."""

    name = "node"
    stated = STATED

    def __init__(self, children: Sequence[Child], frame: Frame, threads: int = 1) -> None:
        """`children`: one for each place, all alike but for segments of other heights. Without any there are rules and
        no circuit. Traces are made on `threads` threads of the host."""
        super().__init__(frame)
        self.children = tuple(children)
        self._threads = threads
        self._evaluated: Evaluation | None = None
        """The last evaluation, beside a device, to which its values were copied before there is another one."""

    @cached_property
    def circuit(self) -> Circuit:
        return kept_circuit(self.children)

    @cached_property
    def layout(self) -> Layout:
        return kept_layout(self.children, self.frame, lambda: self.circuit)

    @property
    def circuit_name(self) -> str:
        return name_of(self.children)

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """`inputs_of` of a source with its arguments."""
        return self.inputs_of(**source)

    def inputs_of(self, proven: Sequence[Proven], challenge: bytes, node_key: Identity) -> dict[str, NDArray[Any]]:
        """What `trace` takes, from the children's proofs, in a job of this challenge, in a tree with this key of nodes.

        Raises InvalidProof where a child does not verify, or is none of this circuit's.
        """
        if not 1 <= len(proven) <= len(self.children):
            raise InvalidProof(f"{count_of(len(proven), 'proof')} for a node of at most {len(self.children)} children")
        for child, own in zip(self.children, proven, strict=False):
            if (own.key is None) != (child.name_length is not None):
                raise InvalidProof(f"{own.name}: a segment in place of a node, or a node in place of a segment")
            if own.proof.log_heights != child.shape.log_heights:
                raise InvalidProof(f"{own.name}: a proof of other heights than the circuit's")
            check_statement(child.shape.key, own.name, own.public, child.shape)
        stated = stated_by(self.children, proven, challenge, node_key)
        fields = node_fields(self.children, proven, stated)
        over, self._evaluated = self._evaluated, None  # a fault would leave other words in it
        made = evaluate(self.circuit, fields, node_trees(self.children, proven), self._threads, over)
        made.check()
        self._evaluated = made if self._threads > 1 else None
        return {**self.layout.inputs(made), "stated": np.array(stated.scalars(), dtype=np.uint64)}


def node_rules(stated: Public = STATED) -> list[Rules]:
    """The rules of every table that a frame can have, for circuits with these public values."""
    return [_rules_of(name, stated) for name in (*KINDS, *MORE.values())]


@cache
def _definition(name: str, stated: Public) -> Definition:
    """The traced table of this name, which is the same in all frames: a process traces and compiles it once. A second
    table of a kind is that of the first."""
    for kind, more in MORE.items():
        if name == more:
            return replace(_definition(kind, stated), name=more)
    (table,) = node_tables(stated, [name])
    return trace_air(table, Statement(public=stated).layout())


@cache
def _rules_of(name: str, stated: Public) -> Rules:
    """The compiled table of this name. A second table of a kind has the rules of the first."""
    for kind, more in MORE.items():
        if name == more:
            return replace(_rules_of(kind, stated), name=more)
    return compile_rules(_definition(name, stated), {WIRE.name: 1})
