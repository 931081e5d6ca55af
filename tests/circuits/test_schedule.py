"""The order of a witness's steps: none runs before what it reads; what waits for nothing of each other runs at once."""

from __future__ import annotations

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import Linear
from distprove.circuits.program import Computed, Step
from distprove.circuits.schedule import scheduled
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254

SQUARE_PLUS = CircuitBuilder.record(BN254, 2, lambda b, wires: [b.multiply(wires[0], wires[0]) + wires[1]])


def chains(count: int, length: int, lanes: int) -> CircuitBuilder:
    """Chains of a template, each placed from its beginning to its end before the next, joined at the end."""
    b = CircuitBuilder(BN254)
    ends: list[Linear] = []
    for chain in range(count):
        x, y = b.private_input(f"x{chain}", lanes), b.private_input(f"y{chain}", lanes)
        for _ in range(length):
            x = b.settle(b.place(SQUARE_PLUS, [x, y])[0])
        ends.append(x)
    first, second = ends[:2]
    b.output("joined", b.place(SQUARE_PLUS, [first, second])[0])
    return b


def reads(step: Step | Computed) -> list[tuple[int, int]]:
    """The spans of wires that a step reads."""
    if isinstance(step, Step):
        return step.reads()
    first, stride = step.where.runs.reshape(-1, 2).T
    return list(zip(first.tolist(), (first + (step.where.lanes - 1) * stride).tolist(), strict=True))


def sets(step: Step | Computed) -> list[tuple[int, int]]:
    """The first wire of each run that a step sets, and how many."""
    if isinstance(step, Step):
        return step.sets()
    return [
        (first + lane * apart, step.program.own)
        for first, apart in step.where.own_runs.tolist()
        for lane in range(step.where.lanes)
    ]


def test_chains_run_side_by_side_and_in_order() -> None:
    b = chains(3, 4, 5)
    schedule = scheduled(b._steps, b.field, b._wires)
    steps, template = schedule.steps, SQUARE_PLUS.program
    groups = [step for step in steps if isinstance(step, Computed) and step.program is template]
    assert [len(group.where.own_runs) for group in groups] == [3, 3, 3, 3, 1]
    assert len(steps) == 2 * 5, "the wires that settle a template's outputs are one operation too"
    made = {wire for step in steps for first, count in sets(step) for wire in range(first, first + count)}
    there = set(range(b._wires)) - made
    for step in steps:
        for low, high in reads(step):
            assert {low, high} <= there
        for first, count in sets(step):
            there |= set(range(first, first + count))
    assert there == set(range(b._wires))


def test_the_order_changes_no_witness() -> None:
    circuit = chains(3, 4, 5).build()
    inputs = {f"{name}{chain}": [7 * chain + lane + 1 for lane in range(5)] for name in "xy" for chain in range(3)}
    with CpuBackend() as backend:
        witness = circuit.witness(inputs, backend)
    value = [list(inputs[f"x{chain}"]) for chain in range(3)]
    for chain in range(3):
        for _ in range(4):
            value[chain] = [x * x + y for x, y in zip(value[chain], inputs[f"y{chain}"], strict=True)]
    want = [(x * x + y) % BN254.fr.modulus for x, y in zip(value[0], value[1], strict=True)]
    got = [int.from_bytes(row.tobytes(), "little") for row in np.ascontiguousarray(witness[1:6])]
    assert got == want
