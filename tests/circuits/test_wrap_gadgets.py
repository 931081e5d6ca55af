"""The gadgets of the wrap: each equals plain integers at edges, and refuses every other witness that was tried."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Circuit
from distprove.circuits.linear import Linear
from distprove.circuits.wrap import poseidon2
from distprove.circuits.wrap.arithmetic import WrapArithmetic
from distprove.circuits.wrap.drawn import challenge, element_bits
from distprove.circuits.wrap.goldilocks import Extension, canonical, multiply, reduced
from distprove.circuits.wrap.integers import Bounded, assert_below, decomposed
from distprove.errors import UnsatisfiedWitness, UsageError
from distprove.stark.transcript import Bn254Transcript
from kernels.interface.backend import Backend
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BN254
from kernels.maths.encoding import field_to_ints, unpack
from kernels.maths.goldilocks import P
from kernels.maths.poseidon2_bn254 import R
from tests.circuits.test_builder import rows, solve, unsatisfied
from tests.support import plain_poseidon2_bn254 as plain
from tests.support.second_verifier import mul

RNG = random.Random(11)
EDGES = [0, 1, P - 1, P - 2, 2**32 - 1, 2**32, 2**63, P // 2]
M = R // P**3
FIELD_EDGES = [0, 1, M * P**3 - 1, P, P**2, P**3, P - 1, 2**192, 2**192 - 1, 2**253]


def built(gadget: Callable[[CircuitBuilder, list[Linear]], Sequence[Linear]], inputs: int, lanes: int = 1) -> Circuit:
    """A circuit of a gadget: inputs in0, in1, .. and outputs out0, out1, .. of as many lanes."""
    b = CircuitBuilder(BN254)
    given = [b.private_input(f"in{i}", lanes) for i in range(inputs)]
    for i, value in enumerate(gadget(b, given)):
        b.output(f"out{i}", value)
    return b.build()


def cost(gadget: Callable[[CircuitBuilder, list[Linear]], object], inputs: int) -> int:
    """The constraints of a gadget on one lane."""
    b = CircuitBuilder(BN254)
    gadget(b, [b.private_input(f"in{i}") for i in range(inputs)])
    return b.shape().constraints


def outputs(circuit: Circuit, backend: Backend, columns: Sequence[Sequence[int]]) -> list[list[int]]:
    """The outputs by lane, for the inputs by lane, of a witness that satisfies the circuit."""
    inputs = {f"in{i}": [str(x) for x in column] for i, column in enumerate(zip(*columns, strict=True))}
    witness, lanes = solve(circuit, backend, **inputs), len(columns)
    return [witness[1 + lane : 1 + circuit.r1cs.n_outputs : lanes] for lane in range(lanes)]


def forced(circuit: Circuit, backend: Backend, *inputs: int) -> list[int]:
    """The wires that the witness program makes of inputs that violate the circuit."""
    unchecked = replace(circuit, schedule=replace(circuit.schedule, checks=()))
    return unpack(unchecked.witness({f"in{i}": str(x) for i, x in enumerate(inputs)}, backend))


def assert_every_wire_counts(circuit: Circuit, witness: list[int]) -> None:
    """No wire but the inputs can be another alone. The constant one and inputs stay."""
    inputs = {signal.first for signal in circuit.inputs}
    order = list(range(len(witness))) if circuit.order is None else circuit.order.tolist()
    r1cs = circuit.r1cs
    sides = [(rows(r1cs, m, witness), entries_of_wires(m)) for m in (r1cs.a, r1cs.b, r1cs.c)]
    for wire in range(1, len(witness)):
        if order[wire] in inputs:
            continue
        touched = {row for _, entries in sides for row in entries.get(wire, {})}
        for change in (1, -1, P):
            changed = [
                [(sums[row] + change * entries.get(wire, {}).get(row, 0)) % R for sums, entries in sides]
                for row in touched
            ]
            assert any((a * b - c) % R for a, b, c in changed), f"wire {wire} is free"


def entries_of_wires(matrix: CsrMatrix) -> dict[int, dict[int, int]]:
    """The coefficients of each wire by row."""
    values, found = field_to_ints(BN254.fr, matrix.values), defaultdict[int, dict[int, int]](dict)
    for row in range(matrix.rows):
        for k in range(int(matrix.row_ptr[row]), int(matrix.row_ptr[row + 1])):
            found[int(matrix.columns[k])][row] = values[matrix.value_index[k]]
    return found


def extensions(values: Sequence[Linear], bound: int = P - 1) -> list[Extension]:
    parts = [Bounded(value, 0, bound) for value in values]
    return [(parts[i], parts[i + 1], parts[i + 2]) for i in range(0, len(parts), 3)]


# -- Poseidon2 ----------------------------------------------------------------------------------------------------


def test_a_permutation() -> None:
    assert cost(poseidon2.permuted, 3) == 240


def test_a_permutation_is_the_references(backend: Backend) -> None:
    states = [[0, 1, 2], [R - 1, 0, R - 2], *([RNG.randrange(R) for _ in range(3)] for _ in range(3))]
    circuit = built(poseidon2.permuted, 3, len(states))
    assert outputs(circuit, backend, states) == [plain.permute(state) for state in states]
    one = built(poseidon2.permuted, 3)
    assert_every_wire_counts(one, solve(one, backend, in0="1", in1="2", in2="3"))


def test_nodes_and_leaves_are_those_of_trees(backend: Backend) -> None:
    circuit = built(lambda b, x: [poseidon2.node(b, 2, *x)], 2, 2)
    pairs = [[5, R - 1], [RNG.randrange(R), 0]]
    assert outputs(circuit, backend, pairs) == [[plain.node(pair, 2)] for pair in pairs]
    for count in (1, 3, 6, 7, 13):
        words = [RNG.choice((0, P - 1, RNG.randrange(P))) for _ in range(count)]
        circuit = built(lambda b, x: [WrapArithmetic(b).sponge(x)], count)
        assert outputs(circuit, backend, [words]) == [[plain.sponge(words)]]


# -- integers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 6, 8, 9, 11, 13, 16])
def test_a_bound_refuses_what_reaches_it(bound: int, backend: Backend) -> None:
    def gadget(b: CircuitBuilder, x: list[Linear]) -> list[Linear]:
        assert_below(b, decomposed(b, x[0], 4), bound, "below")
        return []

    b = CircuitBuilder(BN254)
    gadget(b, [b.private_input("in0")])
    circuit = b.build()
    for value in range(16):
        if value < bound:
            solve(circuit, backend, in0=str(value))
            continue
        with pytest.raises(UnsatisfiedWitness, match="below"):
            circuit.witness({"in0": str(value)}, backend)
        made = forced(circuit, backend, value)
        broken = unsatisfied(circuit.r1cs, made)
        assert broken
        for wire in range(2, len(made)):  # neither the bits nor the ratios can mend it alone
            for to in (0, 1, R - 1):
                assert unsatisfied(circuit.r1cs, [*made[:wire], to, *made[wire + 1 :]])


def test_canonical_elements(backend: Backend) -> None:
    assert cost(lambda b, x: canonical(b, x[0]), 1) == 65
    circuit = built(lambda b, x: [canonical(b, x[0]).value], 1, len(EDGES))
    assert outputs(circuit, backend, [[x] for x in EDGES]) == [[x] for x in EDGES]
    one = built(lambda b, x: [canonical(b, x[0]).value], 1)
    assert_every_wire_counts(one, solve(one, backend, in0="7"))
    for value in (P, P + 1, 2**64 - 1, 2**64, R - 1):
        with pytest.raises(UnsatisfiedWitness):
            one.witness({"in0": str(value)}, backend)
    made = forced(one, backend, P + 5)  # its bits are right
    assert len(unsatisfied(one.r1cs, made)) == 1


RANGES = [(0, P**2), (-(P**2), P**2), (-5, 3), (0, 2**200), (-(2**240), 0), (0, P - 1)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_reductions(low: int, high: int, backend: Backend) -> None:
    values = [low, high, 0, *(RNG.randint(low, high) for _ in range(4))]
    circuit = built(lambda b, x: [reduced(b, Bounded(x[0], low, high)).value], 1, len(values))
    found = outputs(circuit, backend, [[x % R] for x in values])
    assert found == [[x % P] for x in values]
    bits = (high - low).bit_length()
    assert cost(lambda b, x: reduced(b, Bounded(x[0], low, high)), 1) <= max(65, bits + 2)


def test_a_reduction_of_too_many_bits_is_refused() -> None:
    """Beyond this a quotient and a remainder could stand for the integer plus the field's order."""
    for high in (R - 1, 2**253):
        with pytest.raises(UsageError, match="cannot be reduced"):
            cost(lambda b, x: reduced(b, Bounded(x[0], 0, high)), 1)  # noqa: B023
    assert cost(lambda b, x: reduced(b, Bounded(x[0], 0, 2**252)), 1) <= 253 + 1


# -- the extension ------------------------------------------------------------------------------------------------


def product(b: CircuitBuilder, x: Extension, y: Extension) -> Extension:
    """The product, reduced."""
    first, second, third = multiply(b, x, y)
    return reduced(b, first), reduced(b, second), reduced(b, third)


def test_products_of_the_extension(backend: Backend) -> None:
    assert cost(lambda b, x: product(b, *extensions(x)), 6) <= 400
    assert cost(lambda b, x: multiply(b, *extensions(x)), 6) == 5
    lanes = [[RNG.choice((*EDGES, RNG.randrange(P))) for _ in range(6)] for _ in range(12)]
    lanes += [[P - 1] * 6, [0] * 6]
    circuit = built(lambda b, x: [part.value for part in product(b, *extensions(x))], 6, len(lanes))
    for given, found in zip(lanes, outputs(circuit, backend, lanes), strict=True):
        assert found == list(mul((given[0], given[1], given[2]), (given[3], given[4], given[5])))


def test_a_product_counts_every_wire(backend: Backend) -> None:
    circuit = built(lambda b, x: [part.value for part in product(b, *extensions(x))], 6)
    assert_every_wire_counts(circuit, solve(circuit, backend, **{f"in{i}": str(P - 1 - i) for i in range(6)}))


def test_sums_of_products_take_one_reduction(backend: Backend) -> None:
    def gadget(b: CircuitBuilder, x: list[Linear]) -> Extension:
        *pairs, last = extensions(x)
        parts = [last[0].times(-1), last[1].times(-3), last[2]]
        for pair in zip(pairs[0::2], pairs[1::2], strict=True):
            parts = [own + more for own, more in zip(parts, multiply(b, *pair), strict=True)]
        first, second, third = (reduced(b, part) for part in parts)
        return first, second, third

    assert cost(gadget, 27) <= 5 * 4 + 3 * (64 + 70)
    lanes = [[RNG.choice((0, P - 1, RNG.randrange(P))) for _ in range(27)] for _ in range(3)]
    circuit = built(lambda b, x: [part.value for part in gadget(b, x)], 27, len(lanes))
    for given, found in zip(lanes, outputs(circuit, backend, lanes), strict=True):
        elements = [tuple(given[i : i + 3]) for i in range(0, 27, 3)]
        total = [-elements[8][0], -3 * elements[8][1], elements[8][2]]
        for x, y in zip(elements[0:8:2], elements[1:8:2], strict=True):
            total = [s + v for s, v in zip(total, mul(x, y), strict=True)]  # type: ignore[arg-type]
        assert found == [value % P for value in total]


def test_a_chain_of_two_products_takes_one_reduction(backend: Backend) -> None:
    """The bits of three factors fit, those of four do not."""

    def gadget(b: CircuitBuilder, x: list[Linear]) -> Extension:
        first, second, third = extensions(x)
        return product(b, multiply(b, first, second), third)

    assert cost(gadget, 9) <= 10 + 3 * 199
    given = [P - 1 - i for i in range(9)]
    circuit = built(lambda b, x: [part.value for part in gadget(b, x)], 9)
    expected = mul(mul((given[0], given[1], given[2]), (given[3], given[4], given[5])), (given[6], given[7], given[8]))
    assert outputs(circuit, backend, [given]) == [list(expected)]
    with pytest.raises(UsageError):
        cost(lambda b, x: product(b, multiply(b, *extensions(x)[:2]), multiply(b, *extensions(x)[2:])), 12)


# -- what is drawn ------------------------------------------------------------------------------------------------


def test_challenges(backend: Backend) -> None:
    assert cost(lambda b, x: challenge(b, x[0]), 1) <= 275
    values = [*FIELD_EDGES, *(RNG.randrange(R) for _ in range(4))]
    circuit = built(lambda b, x: [part.value for part in challenge(b, x[0])], 1, len(values))
    assert outputs(circuit, backend, [[y] for y in values]) == [plain.digits(y) for y in values]
    one = built(lambda b, x: [part.value for part in challenge(b, x[0])], 1)
    assert_every_wire_counts(one, solve(one, backend, in0=str(P**3 + 5)))
    for y in (M * P**3, R - 1):
        with pytest.raises(UnsatisfiedWitness):
            one.witness({"in0": str(y)}, backend)


def second_digits(y: int, honest: list[int]) -> list[int]:
    """The wires of `challenge` for y, with the digits of y + r. They follow each other: outputs, the input, the digits,
    their bits, a ratio each, the quotient's bits and its ratios."""
    wires, other = [*honest], y + R
    at = 5 + 3 * 63 + 3
    for k in range(3):
        digit = other // P**k % P
        wires[1 + k] = wires[5 + k] = digit
        wires[8 + 63 * k : 8 + 63 * (k + 1)] = [digit >> bit & 1 for bit in range(1, 64)]
        missing, total = 32 - (digit >> 32).bit_count(), (digit & 2**32 - 1).bit_count()
        wires[at + k] = total * pow(missing, -1, R) % R if missing else 0
    wires[at + 3 : at + 3 + 61] = [other // P**3 >> bit & 1 for bit in range(1, 62)]
    return wires


def test_no_second_digits(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of y + r fit the same bits: only the bound of the quotient refuses them."""
    y = 12345
    assert (y + R) // P**3 < 2**62
    assert [(y + R) // P**k % P for k in range(3)] != plain.digits(y)
    one = built(lambda b, x: [part.value for part in challenge(b, x[0])], 1)
    honest = solve(one, backend, in0=str(y))
    wires = second_digits(y, honest)
    count = ratios(M, 62)
    assert 0 < len(unsatisfied(one.r1cs, wires)) <= count
    for to in (0, 1, R - 1, RNG.randrange(R)):  # no ratios mend it
        assert unsatisfied(one.r1cs, [*wires[:-count], *[to] * count])

    def without_the_quotients(b: CircuitBuilder, bits: Sequence[Linear], bound: int, label: str) -> None:
        if bound != M:
            assert_below(b, bits, bound, label)

    monkeypatch.setattr("distprove.circuits.wrap.drawn.assert_below", without_the_quotients)
    weak = built(lambda b, x: [part.value for part in challenge(b, x[0])], 1)
    assert not unsatisfied(weak.r1cs, wires[:-count])


def ratios(bound: int, bits: int) -> int:
    """The constraints that a bound takes: runs of zeros in bound - 1."""
    return len([run for run in f"{bound - 1:0{bits}b}".split("1") if run])


def test_bits_of_an_element(backend: Backend) -> None:
    assert cost(lambda b, x: element_bits(b, x[0]), 1) <= 254 + 20
    values = [0, 1, (R >> 192 << 192) - 1, 2**253, *(RNG.randrange(R) for _ in range(3))]
    circuit = built(lambda b, x: element_bits(b, x[0]), 1, len(values))
    assert outputs(circuit, backend, [[y] for y in values]) == [[y >> k & 1 for k in range(254)] for y in values]


def test_no_second_bits(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of y + r are 254 too, and sum up to y: only the bound of the upper ones refuses them."""
    y = 99

    def circuit() -> Circuit:
        b = CircuitBuilder(BN254)
        element_bits(b, b.private_input("in0"))
        return b.build()

    one = circuit()
    honest = solve(one, backend, in0=str(y))
    assert_every_wire_counts(one, honest)
    wires, count = [*honest], ratios(R >> 192, 62)
    wires[2 : 2 + 253] = [(y + R) >> bit & 1 for bit in range(1, 254)]
    assert 0 < len(unsatisfied(one.r1cs, wires)) <= count
    for to in (0, 1, R - 1, RNG.randrange(R)):
        assert unsatisfied(one.r1cs, [*wires[:-count], *[to] * count])
    monkeypatch.setattr("distprove.circuits.wrap.drawn.assert_below", lambda *_: None)
    assert not unsatisfied(circuit().r1cs, wires[:-count])


def test_indices_and_challenges_are_those_of_the_transcript(backend: Backend) -> None:
    """A transcript's draws, of the element that its sponge gives there."""
    transcript, peek = Bn254Transcript(b"wrap"), Bn254Transcript(b"wrap")
    element = next(peek._elements(b"x"))
    circuit = built(lambda b, x: [part.value for part in challenge(b, x[0])], 1)
    assert outputs(circuit, backend, [[element]]) == [list(transcript.extension(b"x"))]
    element = next(peek._elements(b"i"))
    circuit = built(lambda b, x: element_bits(b, x[0]), 1)
    ((*bits,),) = outputs(circuit, backend, [[element]])
    drawn = [sum(bits[32 * k + i] << i for i in range(12)) for k in range(3)]
    assert drawn == transcript.indices(b"i", 3, 12)
