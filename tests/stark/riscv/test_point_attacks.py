"""Sums of points: what the executor computes and refuses, and forged sums that the tables refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from distprove.errors import InvalidProof
from distprove.stark.air import check
from distprove.stark.program import Trace
from distprove.stark.riscv import points
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Stop, Trap
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import segment_trace
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import P as P_FIELD
from tests.stark.riscv.test_machine import proven
from tests.stark.riscv.test_machine_attacks import cells, put, rules
from tests.stark.riscv.test_precompiles import file_of
from tests.stark.test_proofs import check as verify
from tests.support.multilinear_jobs import prove_program
from tests.support.riscv_forgery import beyond_memory
from tests.support.riscv_oracle import BN254, P256, POINTS, SECP256K1, Interpreter, Trapped, run
from tests.support.riscv_programs import FACTORS, POINT_P, POINT_Q, adding
from tests.support.riscv_traces import DEFINITIONS, Columns, Executed, Job, job_of

Point = tuple[int, int]

K1_ADD, K1_DOUBLE, R1_ADD, R1_DOUBLE, BN_ADD, BN_DOUBLE, BLS_ADD, BLS_DOUBLE = range(14, 22)
P, Q = (0x123456789 << 200 | 77, 1 << 250), (SECP256K1 - 3 >> 4, 12345)
"""They lie on no curve, which the formulas do not ask for."""


def executed(number: int, p: Point, q: Point | None, pointers: tuple[int, int] = (POINT_P, POINT_Q)) -> Execution:
    """The execution of a program with this one sum, which was not run."""
    return Execution(parse_elf(file_of(adding(number, p, q, pointers, words=POINTS[number][3])), "sum"))


@st.composite
def sums(draw: st.DrawFn) -> tuple[int, Point, Point | None]:
    """A call, and points of which some have coordinates at the ends of the field, beyond it, or in common."""
    number = draw(st.sampled_from(sorted(POINTS)))
    add, modulus, _, words = POINTS[number]
    ends = [0, 1, modulus - 1, modulus, modulus // 2, (1 << 32 * words) - 1, 1 << 32, modulus ^ 1 << 32]
    coordinate = st.integers(0, modulus - 1) | st.sampled_from(ends)
    x1, y1, x2, y2 = (draw(coordinate) for _ in range(4))
    if draw(st.integers(0, 4)) == 0:
        x2 = x1
    return number, (x1, y1), (x2, y2) if number == add else None


@given(sums())
@settings(max_examples=120, deadline=None)
def test_sums(given: tuple[int, Point, Point | None]) -> None:
    """The executor computes what plain Python does, and refuses what that does; the tables accept the sums."""
    number, p, q = given
    words = POINTS[number][3]
    execution = executed(number, p, q)
    try:
        found = run(adding(number, p, q, words=words))
    except Trapped as refused:
        wanted, found = Stop.COORDINATE if "coordinate" in str(refused) else Stop.NO_SUM, None
    if found is None:
        with pytest.raises(Trap) as trap:
            execution.run()
        assert trap.value.state is not None
        assert trap.value.state.stop is wanted
        event(wanted.name)
        return
    execution.run()
    expected = [found.words[POINT_P // 4 + k][0] for k in range(2 * words)]
    assert np.frombuffer(execution.memory(POINT_P, 8 * words), dtype="<u4").tolist() == expected
    assert job_of(found).failures() == []


@pytest.mark.parametrize(
    "pointers",
    [
        *((POINT_P, POINT_P + 32), (POINT_P + 4, POINT_P), (POINT_Q, POINT_P), (FACTORS, POINT_Q)),
        *((POINT_P, FACTORS), (FACTORS - 56, POINT_Q), (POINT_P, FACTORS - 4)),
    ],
    ids=lambda pair: f"{pair[0]:x}-{pair[1]:x}",
)
def test_operands_that_overlap(pointers: tuple[int, int]) -> None:
    """The sum may take the place of whatever the call reads."""
    image = adding(K1_ADD, P, Q, pointers)
    at = {FACTORS: pointers[0], FACTORS + 4: pointers[1]}
    words = image.memory_word.copy()
    for k, address in enumerate(image.memory_address.tolist()):
        words[k] = at.get(address, words[k])
    image.memory_word[:] = words
    found = run(image)
    assert job_of(found).failures() == []
    execution = Execution(parse_elf(file_of(image), "sum"))
    execution.run()
    expected = [found.words[pointers[0] // 4 + k][0] for k in range(16)]
    assert np.frombuffer(execution.memory(pointers[0], 64), dtype="<u4").tolist() == expected


# -- forged sums ------------------------------------------------------------------------------------------------------


def forged(
    number: int,
    p: Point,
    q: Point | None,
    monkeypatch: pytest.MonkeyPatch,
    slope: int | None = None,
    change: Callable[[Point], Point] = lambda point: point,
) -> Job:
    """The traces of a run with a sum that has this slope (None: the right one) and is then changed.

    All that follows from these is filled in as well as can be: memory, quotients and carries.
    """
    modulus = POINTS[number][1]

    class Forger(Interpreter):
        def point_sum(self, p: Point, q: Point | None, modulus: int, a: int) -> Point:
            if slope is None:
                return change(super().point_sum(p, q, modulus, a))
            (x1, y1), (x2, _) = p, q or p
            x3 = (slope * slope - x1 - x2) % modulus
            return change((x3, (slope * (x1 - x3) - y1) % modulus))

    def chosen(curve: points.Curve, doubles: int, coordinates: list[int]) -> tuple[int, list[int]]:
        x1, y1, x2, y2, x3, y3 = coordinates
        right = [*p, *(q or p)]
        run, rise = (2 * y1, 3 * x1 * x1 + curve.a) if doubles else (x2 - x1, y2 - y1)
        assert [x1, y1, x2, y2] == right
        taken = rise * pow(run, -1, modulus) % modulus if slope is None else slope
        zeros = taken * run - rise, taken * taken - x1 - x2 - x3, taken * (x1 - x3) - y1 - y3
        return taken, [zero // modulus for zero in zeros]

    monkeypatch.setattr(points, "_slope", chosen)
    forger = Forger(adding(number, p, q, words=POINTS[number][3]), [0], [0], 1 << 10)
    forger.run(1 << 10)
    return job_of(Executed(forger.image, forger.records))


@pytest.mark.parametrize("number", sorted(POINTS))
def test_the_forger_fills_in_what_is_right(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = (P[0] % BN254, P[1] % BN254), (Q[0] % BN254, Q[1])
    assert rules(forged(number, p, None if number % 2 else q, monkeypatch)) == set()


@pytest.mark.parametrize("slope", [0, 1, 987654321 << 100])
def test_a_sum_of_a_point_and_itself(slope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any line through the point would do."""
    assert rules(forged(K1_ADD, P, P, monkeypatch, slope)) == {"the slope has a divisor"}


@pytest.mark.parametrize("number", [K1_DOUBLE, BN_DOUBLE, BLS_DOUBLE])
def test_a_double_of_a_point_without_a_tangent(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 s = 3 x^2 has any s as its solution where x is 0."""
    assert rules(forged(number, (0, 0), None, monkeypatch, 5)) == {"the slope has a divisor"}


def test_no_inverse_of_0_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    job = forged(K1_ADD, P, P, monkeypatch, 5)
    for inverse in (0, 1, 1 << 40):
        put(job, "points", 0, inverse=inverse)
        assert rules(job) == {"the slope has a divisor"}


def test_opposite_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slope solves the equation."""
    q = P[0], SECP256K1 - P[1]
    broken = rules(forged(K1_ADD, P, q, monkeypatch, 5))
    assert "the slope has a divisor" in broken
    assert any(rule.startswith("slope") for rule in broken)


def order_alone(broken: set[str], *names: str) -> bool:
    """Whether only the order of these coordinates is broken."""
    return bool(broken) and all(
        rule == "bus lookup" or rule.startswith(tuple(f"{n}: " for n in names)) for rule in broken
    )


def test_a_point_and_itself_beyond_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinates differ by the modulus, so that the slope has a divisor as a number."""
    x, y = 77, 99
    assert order_alone(rules(forged(BN_ADD, (x, y), (x + BN254, y), monkeypatch, 5)), "x2")
    assert order_alone(rules(forged(BN_ADD, (x + 2 * BN254, y), (x, y), monkeypatch, 5)), "x1")
    assert order_alone(rules(forged(BN_ADD, (x + BN254, y), (x, y + BN254), monkeypatch, 5)), "x1", "y2")


def test_a_double_of_0_beyond_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """y is the modulus."""
    assert order_alone(rules(forged(BN_DOUBLE, (0, BN254), None, monkeypatch, 5)), "y1", "y2")
    assert order_alone(rules(forged(K1_DOUBLE, (0, SECP256K1), None, monkeypatch, 5)), "y1", "y2")


def test_a_sum_beyond_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right one, with the modulus more."""
    p, q = (3, 4), (5, 7)
    for name, more in (("x3", (BN254, 0)), ("y3", (0, BN254))):
        change = lambda s, more=more: (s[0] + more[0], s[1] + more[1])  # noqa: E731
        assert order_alone(rules(forged(BN_ADD, p, q, monkeypatch, change=change)), name)
    twice = rules(forged(BN_DOUBLE, p, None, monkeypatch, change=lambda s: (s[0] + 2 * BN254, s[1] + BN254)))
    assert order_alone(twice, "x3", "y3")


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (number, change)
        for number in (K1_ADD, R1_DOUBLE, BLS_ADD)
        for change in (
            lambda s: (s[0] ^ 1, s[1]),
            lambda s: (s[0], s[1] ^ 1 << 200),
            lambda s: (s[0], BN254 - s[1] % BN254),
            lambda s: (s[1], s[0]),
            lambda s: (0, 0),
            lambda s: P,
        )
    ],
)
def test_a_wrong_sum(number: int, change: Callable[[Point], Point], monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = (P[0] % BN254, P[1] % BN254), (Q[0] % BN254, Q[1])
    broken = rules(forged(number, p, None if number % 2 else q, monkeypatch, change=change))
    assert any(rule.startswith(("abscissa", "ordinate")) for rule in broken)
    assert not {"bus keccak", "bus host", "bus access"} & broken


def test_a_wrong_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    """The point on another line through p."""
    for number, q in ((K1_ADD, Q), (K1_DOUBLE, None)):
        broken = rules(forged(number, P, q, monkeypatch, 12345))
        assert broken
        assert all(rule.startswith("slope") for rule in broken)


def test_carries_and_a_top_beyond_their_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong sum for which the second equation holds modulo p. Its unknowns are linear: only lookups bound them."""
    job = forged(K1_ADD, P, Q, monkeypatch, change=lambda s: (s[0] ^ 1, s[1] ^ 1))
    limbs = {
        name: [int(job.column("points", name, 0, k)[0]) for k in range(16)] for name in ("x1", "x2", "x3", "slope")
    }
    quotient = [int(job.column("points", "quotient", 0, 16 + k)[0]) for k in range(16)]
    modulus = [SECP256K1 >> 16 * k & 0xFFFF for k in range(16)]

    def carries(top: int) -> list[int]:
        """Carries that make all equations hold but for the last, and the size of its error."""
        found, carry = list[int](), 0
        for k in range(16):
            value = carry
            for half in (0, 1):
                at = 2 * k + half
                pairs = [(i, at - i) for i in range(16) if 0 <= at - i < 16]
                products = sum(limbs["slope"][i] * limbs["slope"][j] - quotient[i] * modulus[j] for i, j in pairs)
                value += (products - (top * modulus[at - 16] if at >= 16 else 0)) << 16 * half
            if k < 8:
                value -= sum(limbs[name][2 * k] + (limbs[name][2 * k + 1] << 16) for name in ("x1", "x2", "x3"))
            carry = value * pow(1 << 32, -1, P_FIELD) % P_FIELD
            found.append(carry)
        return found

    ends = [carries(top)[-1] for top in (0, 1)]
    top = -ends[0] * pow(ends[1] - ends[0], -1, P_FIELD) % P_FIELD
    assert carries(top)[-1] == 0
    put_cell(job, "top", 1, top + 4)
    for k, carry in enumerate(carries(top)[:-1]):
        shifted = (carry + (1 << 23)) % P_FIELD
        put_cell(job, "low", 15 + k, shifted & 0xFFFF)
        put_cell(job, "high", 15 + k, (shifted - (shifted & 0xFFFF)) * pow(1 << 16, -1, P_FIELD))
    broken = rules(job)
    assert "bus lookup" in broken
    assert not any(rule.startswith("abscissa") for rule in broken)


def put_cell(job: Job, name: str, index: int, value: int) -> None:
    job.column("points", name, 0, index)[0] = value % P_FIELD


def test_a_sum_on_another_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right one, where only the number of the call tells."""
    swapped = {K1_ADD: R1_ADD, R1_ADD: K1_ADD}
    for name in ("calls_of_number", "accesses_of"):
        own = getattr(points, name)
        monkeypatch.setattr(points, name, lambda record, number, own=own: own(record, swapped.get(number, number)))

    class Other(Interpreter):
        def point_sum(self, p: Point, q: Point | None, modulus: int, a: int) -> Point:
            return super().point_sum(p, q, P256, P256 - 3)

    forger = Other(adding(K1_ADD, (2, 3), (4, 5)), [0], [0], 1 << 10)
    forger.run(1 << 10)
    job = job_of(Executed(forger.image, forger.records))
    assert job.column("points", "curve", 0, 1)[0] == 1
    assert rules(job) == {"bus host"}


def test_a_sum_on_two_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    job = forged(K1_ADD, P, Q, monkeypatch)
    put(job, "points", 0, curve_1=1)
    assert "a call of one curve" in rules(job)


def test_a_sum_in_place_of_a_double(monkeypatch: pytest.MonkeyPatch) -> None:
    job = forged(K1_ADD, P, Q, monkeypatch)
    put(job, "points", 0, adds=0, doubles=1)
    assert "x2 is x1, 0" in rules(job)
    job = forged(K1_DOUBLE, P, None, monkeypatch)
    put(job, "points", 0, adds=1, doubles=0)
    assert "the slope has a divisor" in rules(job)


def test_a_row_that_is_half_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    job = forged(K1_ADD, P, Q, monkeypatch)
    for name in ("adds", "doubles"):
        put(job, "points", 1, **{name: 1})
        assert "a call is a sum or a double" in rules(job)
        put(job, "points", 1, **{name: 0})
    put(job, "points", 0, adds=0)
    assert "a call is a sum or a double" in rules(job)
    put(job, "points", 0, adds=1, doubles=1)
    assert "a call is a sum or a double" in rules(job)


def test_a_double_of_another_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its argument is the point, and not a pointer to it."""
    job = forged(K1_DOUBLE, P, None, monkeypatch)
    put(job, "points", 0, pointers_0=POINT_P + 64)
    assert {"a double is given its point", "bus keccak"} == rules(job)


@pytest.mark.parametrize("name", ["x1", "y1", "x2", "x3", "y3"])
def test_limbs_beyond_16_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words with another limb below."""
    job = forged(K1_ADD, P, Q, monkeypatch)
    low, high = (int(job.column("points", name, 0, k)[0]) for k in (0, 1))
    put_cell(job, name, 0, low + (1 << 16))
    put_cell(job, name, 1, high - 1)
    broken = rules(job)
    assert "bus lookup" in broken
    assert "bus keccak" not in broken


@pytest.mark.parametrize("k", [0, 1])
def test_a_point_from_elsewhere(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pointers are the words that memory has."""
    job = forged(K1_ADD, P, Q, monkeypatch)
    pointer = (POINT_P, POINT_Q)[k] + 4
    put(job, "points", 0, **{f"pointers_{k}": pointer})
    assert rules(job) == {"bus keccak"}
    (row,) = np.flatnonzero(job.column("keccak_words", "key") == FACTORS // 4 + k)
    put(job, "keccak_words", int(row), before=pointer, after=pointer)
    assert rules(job) == {"bus access", "bus keccak"}


@pytest.mark.parametrize("k", [0, 1])
def test_a_point_that_reaches_the_registers(k: int) -> None:
    """The accesses balance: only keys, which have 30 bits, tell."""
    image = adding(K1_ADD, P, Q, shown=False)
    image.memory_word[image.memory_address == FACTORS + 4 * k] = (1 << 32) - 16
    assert rules(beyond_memory(Interpreter(image, [0], [0], 1 << 10))) == {"bus lookup"}


def test_a_row_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second row of the call, at the same time."""
    job = forged(K1_ADD, P, Q, monkeypatch)
    job.main[0]["points"][:, 1] = job.main[0]["points"][:, 0]
    assert {"bus host", "bus keccak"} <= rules(job)


@pytest.mark.parametrize(("number", "words"), [(R1_ADD, 8), (R1_DOUBLE, 8), (BLS_ADD, 12)])
def test_no_cell_can_be_changed(number: int, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    job = forged(number, (P[0] >> 8, P[1] >> 8), None if number % 2 else (Q[0] >> 8, Q[1]), monkeypatch)
    assert rules(job) == set()
    table_name = "points" if words == 8 else "points384"
    columns, definition = job.main[0][table_name], DEFINITIONS[table_name]
    own, changes = columns[:, 0].copy(), list[tuple[int, int]]()
    for k, (name, index) in enumerate(cells(table_name, definition.main)):
        if number % 2 and (name, index) == ("pointers", 1):
            continue  # a double has no second point
        was = int(own[k])
        changes += [(k, value) for value in {was + 1, 1 - was if was < 2 else 0} - {was}]
    # A row for each change: what no constraint of the row refuses is looked at alone, with the buses.
    many = np.zeros((len(own), 1 << len(changes).bit_length()), dtype=np.uint64)
    many[:, : len(changes)] = own[:, None]
    for row, (k, value) in enumerate(changes):
        many[k, row] = value
    table = check._Table("", definition, many, None, np.zeros(0, dtype=np.uint64))
    program = table._program([constraint.node for constraint in definition.constraints])
    refused = np.concatenate([(values != 0).any(axis=0) for _, values in table._blocks(program)])
    for row, (k, value) in enumerate(changes):
        if not refused[row]:
            columns[k, 0] = value
            assert rules(job), (k, value)
            columns[k, 0] = own[k]
    assert refused[: len(changes)].sum() > len(changes) * 3 // 4
    assert rules(job) == set()


# -- proofs -----------------------------------------------------------------------------------------------------------


def guest(folder: Path, number: int = K1_ADD) -> RiscV:
    words = POINTS[number][3]
    image = adding(number, (2, 3), None if number % 2 else (4, 5), words=words)
    path = folder / "guest.elf"
    path.write_bytes(file_of(image))
    return RiscV(elf=str(path), segment=64)


Tamper = Callable[[dict[str, Columns]], None]


def wrong_sum(main: dict[str, Columns]) -> None:
    definition = DEFINITIONS["points"].main
    at = sum(list(definition.values())[: list(definition).index("x3")])
    main["points"][at, 0] ^= np.uint64(1)
    main["keccak_words"][5, 18] ^= np.uint64(1)  # q's words and the pointers come before


def without(main: dict[str, Columns]) -> None:
    del main["points"], main["keccak_words"]


@pytest.mark.parametrize("tamper", [wrong_sum, without])
def test_forged_proofs(tamper: Tamper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(self: RiscV, inputs: dict[str, Columns], backend: CpuBackend) -> Trace:
        made = segment_trace(inputs, backend)
        names = [air.name for air in MACHINES[32].tables_of(("points",))]
        main = {name: columns for name, columns in zip(names, made.main, strict=True) if columns is not None}
        tamper(main)
        return Trace([main.get(name) for name in names], made.public)

    monkeypatch.setattr(RiscV, "trace", trace)
    with pytest.raises(InvalidProof):
        verify(*proven(guest(tmp_path)))


@pytest.mark.parametrize("number", [BN_ADD, BLS_DOUBLE])
def test_a_proof_by_the_multilinear_engine(number: int, tmp_path: Path) -> None:
    prove_program(guest(tmp_path, number), partitions=None, security=1, grinding=0).check()
