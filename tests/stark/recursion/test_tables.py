"""The tables of circuits: an honest trace holds, each cell is bound, and an unsatisfied circuit has no trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from distprove.stark.air.check import Failure, check_trace
from distprove.stark.field import P, Words
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify
from distprove.stark.recursion.circuit import BITS, HALF
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import (
    KEY,
    NODE,
    NODE_CHALLENGE,
    Child,
    Proven,
    node_circuit,
    node_fields,
    node_trees,
    stated_by,
)
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.tables import FIRST_PUBLIC, POWER_BITS, USED_BITS, Decompositions
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from kernels.maths.poseidon2 import PERMUTATION
from tests.stark.recursion.test_parity import NODE_KEY, made
from tests.stark.test_multilinear_mutations import mutations
from tests.support import plain_poseidon2
from tests.support.circuit_operations import OpenedTree, operations_of, read_by, written_by


@dataclass(frozen=True)
class Case:
    program: NodeProgram
    proven: Proven

    def traces(self, record: Any | None = None) -> tuple[list[Words], tuple[int, ...], list[str]]:
        """The traces of the honest proof or of another one, the public values, and the circuit's faults."""
        own, children = self.proven, self.program.children
        if record is not None:
            proof, _ = MultilinearProof.from_record(record, children[0].shape.key, own.name)
            own = Proven(own.name, own.public, proof)
        stated = stated_by(children, [own], self.proven.proof.challenge, NODE_KEY)
        evaluated = evaluate(self.program.circuit, node_fields(children, [own], stated), node_trees(children, [own]))
        layout, fixed = self.program.layout, list(self.program.preprocessed().values())
        with CpuBackend() as backend:
            traces = layout.traces(layout.inputs(evaluated), fixed.__getitem__, backend)
        return traces, stated.scalars(), evaluated.faults

    def failures(self, traces: list[Words], public: tuple[int, ...]) -> list[Failure]:
        values, named = iter(public), {}
        for name, count in self.program.circuit.public:
            named[name] = [next(values) for _ in range(count)]
        fixed = [self.program.preprocessed().get(table.name) for table in self.program.tables]
        return check_trace(self.program.tables, traces, named, preprocessed=fixed)


@cache
def case(name: str) -> Case:
    own = made(name).proofs[1]
    proof, shape = MultilinearProof.from_record(own.data, made(name).key, own.name)
    children = [Child(shape, len(own.name))]
    frame = Layout.of(node_circuit(children)).frame
    return Case(NodeProgram(children, frame), Proven(own.name, tuple(own.public), proof))


@pytest.mark.parametrize("name", ["fibonacci", "range-check", "global", "sparse"])
def test_the_trace_of_a_proof_holds(name: str) -> None:
    traces, public, faults = case(name).traces()
    assert faults == []
    assert case(name).failures(traces, public) == []


def cells() -> Iterator[tuple[str, str, int, int]]:
    """Program, table, column, and a row in which the circuit uses this column."""
    fixed = case("sparse").program.preprocessed()
    times = fixed["joins"][7]  # of the fourth part, which others read
    whole = int(np.flatnonzero((times > 0) & (times < 10))[0])
    nodes, binary = fixed["poseidon2"][-2:]
    of_two, of_four = (int(np.flatnonzero(rows)[0]) for rows in (binary == 1, nodes - binary == 1))
    yield from (("sparse", "relations", column, 17) for column in range(12))
    yield from (("sparse", "joins", column, whole) for column in range(4))
    yield "sparse", "constants", 0, 3
    yield from (("sparse", "publics", 0, row) for row in (0, 5))
    yield from (("sparse", "bits", column, 2) for column in (0, 1, HALF, BITS - 1, BITS, BITS + 1, BITS + 2, -1))
    yield from (("sparse", "poseidon2", column, 4) for column in (0, 15, 16, 80, 165))
    yield from (
        ("sparse", "poseidon2", column, row) for row in (of_two, of_four) for column in (0, 15, 16, 165, 166, 167)
    )


@pytest.mark.parametrize("place", list(cells()), ids=str)
def test_every_cell_is_bound(place: tuple[str, str, int, int]) -> None:
    name, table, column, row = place
    traces, public, _ = case(name).traces()
    number = [air.name for air in case(name).program.tables].index(table)
    traces[number] = traces[number].copy()
    traces[number][column, row] = (int(traces[number][column, row]) + 1) % P
    assert case(name).failures(traces, public)


def test_a_public_value_is_bound() -> None:
    """But for the key of nodes, which a leaf only passes on."""
    traces, public, _ = case("fibonacci").traces()
    for place in range(len(public) - KEY):
        changed = [*public]
        changed[place] = (changed[place] + 1) % P
        assert case("fibonacci").failures(traces, tuple(changed))


def test_an_unsatisfied_circuit_has_no_trace() -> None:
    """Changes of a proof whose circuit finds a fault: the tables find it too."""
    own, tried = made("fibonacci").proofs[1], 0
    for what, record in mutations(own.data):
        if not what.endswith(("byte 0", "byte 8")) or what.startswith(("challenge", "heights", "nonces")):
            continue
        traces, public, faults = case("fibonacci").traces(record)
        assert faults, what
        assert case("fibonacci").failures(traces, public), what
        tried += 1
    assert tried > 15


@pytest.mark.parametrize("name", ["fibonacci", "range-check", "global", "sparse", "no skip"])
def test_each_wire_is_written_once(name: str) -> None:
    """On which the bus of wires rests: a second writer could give a reader another value."""
    circuit = case(name).program.circuit
    operations = [*operations_of(circuit)]
    given = [wire for o in operations if isinstance(o, OpenedTree) for row in o.rows for wire in row]
    written = [wire for operation in operations for wire in written_by(operation)]
    assert len(written) == len(set(written))
    assert set(given) <= set(written)
    reads = Counter(wire for operation in operations for wire in read_by(operation))
    assert {*reads} <= set(written)
    assert circuit.reads().tolist() == [reads[wire] for wire in range(circuit.wires)]


@pytest.mark.parametrize("name", ["range-check", "sparse"])
def test_the_multiplicities_of_each_wire_cancel(name: str) -> None:
    """In the preprocessed columns, for whatever the wires carry: one writer, and as many readers as it says."""
    program, sums = case(name).program, Counter[int]()
    fixed = program.preprocessed()
    read = P - 1
    for table, numbers, times in (
        ("relations", range(4), range(4, 8)),
        ("more relations", range(4), range(4, 8)),
        ("joins", (0, 1, 2, 3, 8), (4, 5, 6, 7, 9)),
        ("constants", (0,), (5,)),
        ("poseidon2", (34,), (35,)),
        ("more poseidon2", (34,), (35,)),
    ):
        for number, column in zip(numbers, times, strict=True) if table in fixed else ():
            for wire, count in zip(fixed[table][number].tolist(), fixed[table][column].tolist(), strict=True):
                sums[wire] += count if count != read else -1
    poseidon = np.concatenate([m for name, m in fixed.items() if name.endswith("poseidon2")], axis=1).tolist()
    for row in zip(*poseidon, strict=True):
        state, sponge, out, reads, child, bits, node, binary = (
            *(row[:16], row[16], row[17], row[18:34], row[36], row[37:39]),
            *row[39:],
        )
        sums.subtract(dict(Counter(state)) if sponge else {})
        for place, count in enumerate(reads):
            sums[out + place] += count
        sums.subtract([child, bits[0], *([] if binary else [bits[1]])] if node else [])
    for on, of, first, *rest in zip(*fixed["bits"].tolist(), strict=True):
        sums[of] -= on
        for place, count in enumerate(rest[: 2 + USED_BITS]):
            sums[first + place] += count
        power, count = rest[2 + USED_BITS : 4 + USED_BITS]
        sums[power] += count
    for place, counts in enumerate(fixed["publics"].tolist()):
        sums[FIRST_PUBLIC + place] += sum(counts)
    assert {wire: total for wire, total in sums.items() if total} == {}


@pytest.mark.parametrize("value", [0, 5, (1 << HALF) - 2])
def test_a_scalar_has_one_decomposition(value: int) -> None:
    """The bits of value + p would be another index for a query."""
    table = Decompositions()
    fixed = np.zeros((sum(table.preprocessed.values()), 16), dtype=np.uint64)

    def trace(number: int) -> Words:
        columns = np.zeros((sum(table.main.values()), 16), dtype=np.uint64)
        columns[-POWER_BITS:] = 1
        columns[BITS] = pow(-((1 << HALF) - 1), -1, P)
        columns[:BITS, 0] = [number >> i & 1 for i in range(BITS)]
        missing = ((number >> HALF) - ((1 << HALF) - 1)) % P
        columns[BITS, 0], columns[BITS + 1, 0] = pow(missing, -1, P) if missing else 0, not missing
        return columns

    def holds(number: int) -> bool:
        failures = check_trace([table], [trace(number)], preprocessed=[fixed])
        return not [failure for failure in failures if failure.table]

    assert holds(value)
    assert holds(P - 1)
    assert not holds(value + P)


def test_the_permutation_is_that_of_the_oracle() -> None:
    assert list(PERMUTATION.round_constants) == plain_poseidon2.CONSTANTS
    state = list(range(3, 19))
    found = PERMUTATION.rounds(state, lambda x, c: pow(x + c, 7, P), lambda a, b: (a + b) % P, lambda a, c: a * c % P)
    assert found == plain_poseidon2.permute(state)


def test_a_node_proves_at_full_parameters() -> None:
    own = case("global")
    params = choose_parameters(own.program, 1, grinding=4, hash="poseidon2")
    with CpuBackend() as backend:
        pk = make_key(own.program, params, backend)
        inputs = own.program.inputs_of([own.proven], own.proven.proof.challenge, NODE_KEY)
        committed = commit(pk, NODE, inputs, Steps())
        proven: MultilinearProof = prove(pk, committed, NODE_CHALLENGE, Steps())
    assert pk.key.params.security_bits == 128
    proof, shape = MultilinearProof.from_record(proven.to_record(), pk.key)
    assert shape == Shape(pk.key, tuple(pk.key.fixed_heights))
    verify(pk.key, NODE, committed.commitment.public, proof, shape)
