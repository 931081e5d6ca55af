"""The program whose proof says that a proof verifies: a circuit's tables, and their trace from a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.stark.air import Air, Bus
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import check_statement
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.leaf import leaf_circuit, leaf_fields, leaf_trees
from distprove.stark.recursion.tables import WIRE
from distprove.stark.statement import Statement
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

LEAST_HEIGHT = 4
"""log2 of the rows of the lowest table."""


class LeafProgram(Program):
    """Proves that a partition's proof under a key verifies, for one shape and one length of the partition's name.

    The public values are those of `leaf_circuit`: they take the place of the proof in its job. Nothing here is a
    program of the command line.
    """

    name = "leaf"

    def __init__(self, shape: Shape, name_length: int) -> None:
        self._shape = shape
        self.circuit = leaf_circuit(shape, name_length)
        self.layout = Layout(self.circuit, LEAST_HEIGHT)

    @property
    def arguments(self) -> dict[str, int | str]:
        return {}

    @property
    def tables(self) -> Sequence[Air]:
        return self.layout.tables

    @property
    def buses(self) -> Sequence[Bus]:
        return (WIRE,)

    @property
    def statement(self) -> Statement:
        return Statement(public=(("given", self.circuit.public_count),))

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return self.layout.log_heights

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return self.layout.preprocessed

    def slices(self, partitions: int) -> list[Slice]:
        raise NotImplementedError("a leaf proves a proof that is there: `leaf_inputs` makes its inputs")

    def leaf_inputs(self, name: str, public: Sequence[int], record: Any) -> dict[str, NDArray[Any]]:
        """The traces from a proof's record. Raises FormatError, and InvalidProof for one that does not verify."""
        key: MultilinearKey = self._shape.key
        proof, shape = MultilinearProof.from_record(record, key, name)
        if shape.log_heights != self._shape.log_heights:
            raise InvalidProof(f"{name}: a proof of other heights than the circuit's")
        check_statement(key, name, tuple(public), shape)
        fields = leaf_fields(name, public, proof)
        made = evaluate(self.circuit, fields, leaf_trees(shape, proof))
        if made.faults:
            raise InvalidProof(f"{name}: {made.faults[0]}")
        stated = np.concatenate([fields[field] for field, _ in self.circuit.public])
        traces = zip(self.layout.log_heights, self.layout.traces(made), strict=True)
        return {**dict(traces), "given": stated}

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return self.leaf_inputs(source["name"], source["public"], source["record"])

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        public = tuple(map(int, backend.to_host(inputs["given"])))
        return Trace([inputs[table] for table in self.layout.log_heights], public)
