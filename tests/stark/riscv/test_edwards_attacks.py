"""Sums of points of Ed25519: what the executor computes and refuses, and forged sums that the table refuses."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from distprove.errors import InvalidProof
from distprove.stark.air import check
from distprove.stark.program import Trace
from distprove.stark.riscv import edwards
from distprove.stark.riscv.calls import CALLS, POINT_CALLS
from distprove.stark.riscv.edwards import D_ABOVE, D_BELOW, MODULUS
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Stop, Trap
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.record import Image
from distprove.stark.riscv.segment import segment_trace
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import P as P_FIELD
from tests.stark.riscv.test_machine import proven
from tests.stark.riscv.test_machine_attacks import cells, put, rules
from tests.stark.riscv.test_precompiles import file_of
from tests.stark.test_proofs import check as verify
from tests.support import riscv_asm as asm
from tests.support.curve_points import edwards_points, edwards_sum, small_edwards_points
from tests.support.multilinear_jobs import prove_program
from tests.support.riscv_elf import EXECUTE, READ, WRITE, elf_file
from tests.support.riscv_forgery import beyond_memory
from tests.support.riscv_oracle import ED25519_ADD, Interpreter, Trapped, run
from tests.support.riscv_programs import DATA, FACTORS, POINT_P, POINT_Q, adding, of_words
from tests.support.riscv_traces import DEFINITIONS, Columns, Executed, Job, job_of

Point = tuple[int, int]

D = -D_ABOVE * pow(D_BELOW, -1, MODULUS) % MODULUS
P, Q = (0x123456789 << 200 | 77, 1 << 250), (MODULUS - 3 >> 4, 12345)
"""They do not lie on the curve, which the law does not ask for."""


def executed(p: Point, q: Point, pointers: tuple[int, int] = (POINT_P, POINT_Q)) -> Execution:
    """The execution of a program with this one sum, which was not run."""
    return Execution(parse_elf(file_of(adding(ED25519_ADD, p, q, pointers)), "sum"))


def without_sum(product: int) -> tuple[Point, Point]:
    """Two points for which d x1 x2 y1 y2 is `product`."""
    (x1, y1), (x2, _) = P, Q
    return P, (x2, product * pow(D * x1 * y1 * x2, -1, MODULUS) % MODULUS)


ENDS = [0, 1, MODULUS - 1, MODULUS, MODULUS + 1, 2 * MODULUS, (1 << 256) - 1, 1 << 32, MODULUS ^ 1 << 32]


@st.composite
def sums(draw: st.DrawFn) -> tuple[Point, Point]:
    """Points of which some have coordinates at the ends of the field, or beyond it, and some have no sum."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return without_sum(draw(st.sampled_from([1, MODULUS - 1])))
    if kind == 1:
        pair = draw(st.tuples(*2 * [st.sampled_from(small_edwards_points())]))
        return pair[0], pair[1]
    coordinate = st.integers(0, (1 << 256) - 1) | st.sampled_from(ENDS)
    x1, y1, x2, y2 = (draw(coordinate) for _ in range(4))
    return (x1, y1), (x2, y2)


@given(sums())
@settings(max_examples=100, deadline=None)
def test_sums(given: tuple[Point, Point]) -> None:
    """The executor computes what plain Python does, and refuses what that does; the table accepts the sums."""
    p, q = given
    execution = executed(p, q)
    try:
        found = run(adding(ED25519_ADD, p, q))
    except Trapped:
        with pytest.raises(Trap, match="a sum of points that the formula does not give") as trap:
            execution.run()
        assert trap.value.state is not None
        assert trap.value.state.stop is Stop.NO_SUM
        event("no sum")
        return
    execution.run()
    expected = [found.words[POINT_P // 4 + k][0] for k in range(16)]
    assert np.frombuffer(execution.memory(POINT_P, 64), dtype="<u4").tolist() == expected
    assert job_of(found).failures() == []


def test_ten_thousand_sums_of_the_group() -> None:
    """Sums of random points, a point and itself, opposite ones, the neutral element, and points of small order."""
    rng = random.Random(22)
    points = edwards_points(rng, 128)
    neutral, small = (0, 1), small_edwards_points()
    pairs = [(rng.choice(points), rng.choice(points)) for _ in range(9_200)]
    pairs += [pair for p in points for pair in ((p, p), (p, (MODULUS - p[0], p[1])), (p, neutral), (neutral, p))]
    pairs += [(p, q) for p in small for q in small]
    pairs += [(rng.choice(points), rng.choice(small)) for _ in range(10_000 - len(pairs))]
    # The pointers of each sum, and behind them all points.
    first = DATA + 8 * len(pairs)
    content = b"".join(struct.pack("<2I", first + 128 * k, first + 128 * k + 64) for k in range(len(pairs)))
    content += b"".join(c.to_bytes(32, "little") for pair in pairs for point in pair for c in point)
    loop = [asm.ECALL, asm.imm("addi", 10, 10, 8), asm.imm("addi", 9, 9, -1)]
    code = [*asm.li(10, DATA), *asm.li(9, len(pairs)), asm.imm("addi", 17, 0, ED25519_ADD)]
    code += [*loop, asm.branch("bne", 9, 0, -4 * len(loop)), *asm.leave()]
    program = struct.pack(f"<{len(code)}I", *code)
    elf = parse_elf(elf_file([(asm.BASE, program, READ | EXECUTE), (DATA, content, READ | WRITE)], asm.BASE), "sums")
    execution = Execution(elf)
    execution.run()
    for k, (p, q) in enumerate(pairs):
        found = execution.memory(first + 128 * k, 64)
        assert (int.from_bytes(found[:32], "little"), int.from_bytes(found[32:], "little")) == edwards_sum(p, q), k


def test_the_divisors_of_a_solution_are_not_0() -> None:
    """They are 0 with a numerator of 0 only if d is a square, or -1 is none."""
    half = (MODULUS - 1) // 2
    assert pow(D, half, MODULUS) == MODULUS - 1
    assert pow(MODULUS - 1, half, MODULUS) == 1


@pytest.mark.parametrize(
    "pointers",
    [
        *((POINT_P, POINT_P), (POINT_P, POINT_P + 32), (POINT_P + 4, POINT_P), (POINT_Q, POINT_P), (FACTORS, POINT_Q)),
        *((POINT_P, FACTORS), (FACTORS - 56, POINT_Q), (POINT_P, FACTORS - 4)),
    ],
    ids=lambda pair: f"{pair[0]:x}-{pair[1]:x}",
)
def test_operands_that_overlap(pointers: tuple[int, int]) -> None:
    """The sum may take the place of whatever the call reads, and a point may be added to itself."""
    image = adding(ED25519_ADD, P, Q, pointers)
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


@pytest.mark.parametrize(
    ("pointers", "stop"),
    [
        ((POINT_P + 2, POINT_Q), Stop.UNALIGNED_STORE),
        ((POINT_P, POINT_Q + 1), Stop.UNALIGNED_LOAD),
        ((asm.BASE, POINT_Q), Stop.READ_ONLY),
        ((POINT_P, 4092), Stop.LOW_ADDRESS),
        ((POINT_P, (1 << 32) - 60), Stop.BEYOND),
        (((1 << 32) - 60, POINT_Q), Stop.BEYOND),
    ],
)
def test_pointers_that_trap(pointers: tuple[int, int], stop: Stop) -> None:
    image = adding(ED25519_ADD, P, Q)
    for k, pointer in enumerate(pointers):
        image.memory_word[image.memory_address == FACTORS + 4 * k] = pointer
    with pytest.raises(Trap) as trap:
        Execution(parse_elf(file_of(image), "sum")).run()
    assert trap.value.state is not None
    assert trap.value.state.stop is stop


# -- forged sums ------------------------------------------------------------------------------------------------------

Change = Callable[[Point], Point]


def forged(p: Point, q: Point, change: Change = lambda point: point) -> Job:
    """The traces of a run whose sum is changed. What follows from it is filled in as well as can be: memory, the
    numbers between, quotients and carries. A sum that does not exist is (3, 4) before the change."""
    return forged_run(adding(ED25519_ADD, p, q), [0], change)


def forged_run(image: Image, private: list[int], change: Change) -> Job:
    """Traces as `forged` makes them, of any program with a sum, and with these words of private input."""

    class Forger(Interpreter):
        def edwards_sum(self, p: Point, q: Point) -> Point:
            try:
                return change(super().edwards_sum(p, q))
            except Trapped:
                return change((3, 4))

    forger = Forger(image, private, [0], 1 << 10)
    forger.run(1 << 10)
    return job_of(Executed(forger.image, forger.records))


def put_cell(job: Job, name: str, index: int, value: int) -> None:
    job.column("edwards", name, 0, index)[0] = value % P_FIELD


def put_number(job: Job, name: str, value: int) -> None:
    for k in range(edwards.LIMBS):
        put_cell(job, name, k, value >> 16 * k & 0xFFFF)


def another_x(total: Point) -> Point:
    return total[0] ^ 1, total[1]


def test_the_forger_fills_in_what_is_right() -> None:
    assert rules(forged(P, Q)) == set()


@pytest.mark.parametrize(
    "change",
    [
        another_x,
        lambda s: (s[0], s[1] ^ 1 << 200),
        lambda s: (MODULUS - s[0], s[1]),
        lambda s: (s[0], MODULUS - s[1]),
        lambda s: (s[1], s[0]),
        lambda s: (0, 1),
        lambda s: (0, 0),
        lambda s: P,
    ],
)
def test_a_wrong_sum(change: Change) -> None:
    broken = rules(forged(P, Q, change))
    assert broken
    assert all(rule.startswith(("abscissa", "ordinate")) for rule in broken)


@pytest.mark.parametrize("product", [1, MODULUS - 1])
@pytest.mark.parametrize("total", [(0, 1), (0, 0), P, (MODULUS - 1, 1)])
def test_points_without_a_sum(product: int, total: Point) -> None:
    """One divisor is 0, so that no coordinate solves its equation."""
    broken = rules(forged(*without_sum(product), lambda _: total))
    assert any(rule.startswith("ordinate" if product == 1 else "abscissa") for rule in broken)


@pytest.mark.parametrize(("name", "more"), [("x3", (MODULUS, 0)), ("y3", (0, MODULUS))])
def test_a_sum_beyond_the_field(name: str, more: Point) -> None:
    """The right one, with the modulus more."""
    broken = rules(forged(P, Q, lambda s: (s[0] + more[0], s[1] + more[1])))
    assert broken
    assert all(rule == "bus lookup" or rule.startswith(f"{name}: ") for rule in broken)


@pytest.mark.parametrize("name", edwards.BETWEEN)
def test_a_wrong_number_between(name: str) -> None:
    """Each equation that has it breaks, though all carries and quotients but theirs are as before."""
    job = forged(P, Q)
    put_cell(job, name, 3, int(job.column("edwards", name, 0, 3)[0]) ^ 1)
    broken = rules(job)
    assert any(rule.startswith(f"{name} ") for rule in broken)
    assert broken <= {f"{equation} {k}" for equation in edwards.EQUATIONS for k in range(edwards.WORDS)}


def test_numbers_between_are_any_of_their_residues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with the modulus more give the same sum."""
    own = edwards._between
    monkeypatch.setattr(edwards, "_between", lambda points: tuple(n + MODULUS for n in own(points)))
    assert rules(forged(P, Q)) == set()


def solve_carries(job: Job) -> None:
    """Put carries in place by which the equation of a wrong x3 holds modulo p, as they are linear in it."""
    limbs = {name: [int(cell[0]) for cell in cells_of(job, name)] for name in ("x1", "y1", "x2", "y2", "x3", "product")}

    def product(x: str, y: str, at: int) -> int:
        pairs = [(j, at - j, 1) if j <= at else (j, 16 + at - j, 38) for j in range(16)]
        return sum(times * limbs[x][j] * limbs[y][k] for j, k, times in pairs)

    def carries(quotient: int) -> list[int]:
        """Carries that make all equations hold but for the last, and the size of its error."""
        found, carry = list[int](), 19 * quotient
        for k in range(8):
            value = carry + limbs["x3"][2 * k] + (limbs["x3"][2 * k + 1] << 16)
            for half in (0, 1):
                at = 2 * k + half
                value += product("x3", "product", at) - product("x1", "y2", at) - product("x2", "y1", at) << 16 * half
            if k == 7:
                return [*found, (value - (quotient << 31)) % P_FIELD]
            carry = value * pow(1 << 32, -1, P_FIELD) % P_FIELD
            found.append(carry)
        raise AssertionError

    ends = [carries(quotient)[-1] for quotient in (0, 1)]
    quotient = -ends[0] * pow(ends[1] - ends[0], -1, P_FIELD) % P_FIELD
    *solved, rest = carries(quotient)
    assert rest == 0
    place = edwards.WORDS * edwards.EQUATIONS.index("abscissa")
    for k, carry in enumerate((*solved, quotient)):
        shifted = (carry + (1 << 27)) % P_FIELD
        put_cell(job, "low", place + k, shifted & 0xFFFF)
        put_cell(job, "high", place + k, (shifted - (shifted & 0xFFFF)) * pow(1 << 16, -1, P_FIELD))


def test_carries_beyond_their_ranges() -> None:
    """Only lookups bound them."""
    job = forged(P, Q, another_x)
    solve_carries(job)
    assert rules(job) == {"bus lookup"}


def cells_of(job: Job, name: str) -> list[Columns]:
    return [job.column("edwards", name, 0, k) for k in range(edwards.LIMBS)]


@pytest.mark.parametrize("name", [*edwards.COORDINATES, *edwards.BETWEEN])
def test_limbs_beyond_16_bits(name: str) -> None:
    """The same words with another limb below."""
    job = forged(P, Q)
    low, high = (int(cell[0]) for cell in cells_of(job, name)[:2])
    put_cell(job, name, 0, low + (1 << 16))
    put_cell(job, name, 1, high - 1)
    broken = rules(job)
    assert "bus lookup" in broken
    assert "bus keccak" not in broken


@pytest.mark.parametrize("k", [0, 1])
def test_a_point_from_elsewhere(k: int) -> None:
    """The pointers are the words that memory has."""
    job = forged(P, Q)
    pointer = (POINT_P, POINT_Q)[k] + 4
    put(job, "edwards", 0, **{f"pointers_{k}": pointer})
    assert rules(job) == {"bus keccak"}
    (row,) = np.flatnonzero(job.column("keccak_words", "key") == FACTORS // 4 + k)
    put(job, "keccak_words", int(row), before=pointer, after=pointer)
    assert rules(job) == {"bus access", "bus keccak"}


@pytest.mark.parametrize("k", [0, 1])
def test_a_pointer_that_is_not_aligned(k: int) -> None:
    """A quarter of it is no number of 30 bits, whatever memory has."""
    pointers = [POINT_P, POINT_Q]
    pointers[k] += 2

    class Unaligned(Interpreter):
        def operand(self, address: int, count: int) -> list[int]:
            return super().operand(address & ~3, count)

        def touch(self, address: int, *others: object) -> None:
            super().touch(address & ~3, *others)  # type: ignore[arg-type]

    image = adding(ED25519_ADD, P, Q)
    image.memory_word[image.memory_address == FACTORS + 4 * k] = pointers[k]
    forger = Unaligned(image, [0], [0], 1 << 10)
    forger.run(1 << 10)
    job = job_of(Executed(forger.image, forger.records))
    assert rules(job) == {"bus keccak"}
    key = (POINT_P, POINT_Q)[k] // 4
    for at in range(16):
        (row, *_) = np.flatnonzero(job.column("keccak_words", "key") == key + at)
        put(job, "keccak_words", int(row), key=pointers[k] * pow(4, -1, P_FIELD) + at)
    assert {"bus lookup", "bus access"} <= rules(job)


@pytest.mark.parametrize("k", [0, 1])
def test_a_point_that_reaches_the_registers(k: int) -> None:
    """The accesses balance: only keys, which have 30 bits, tell."""
    image = adding(ED25519_ADD, P, Q, shown=False)
    image.memory_word[image.memory_address == FACTORS + 4 * k] = (1 << 32) - 16
    assert rules(beyond_memory(Interpreter(image, [0], [0], 1 << 10))) == {"bus lookup"}


def test_a_point_that_is_read_after_the_sum() -> None:
    """q lies where the sum goes: it is what was there before, and never the sum."""
    image = adding(ED25519_ADD, P, Q, (POINT_P, POINT_P))
    job = job_of(run(image))
    assert rules(job) == set()
    first, last = (int(row) for row in np.flatnonzero(job.column("keccak_words", "key") == POINT_P // 4))
    for name in ("time", "previous"):
        column = job.column("keccak_words", name)
        column[first], column[last] = column[last], column[first]
    assert "bus keccak" in rules(job)


def test_a_row_more() -> None:
    """A second row of the call, at the same time."""
    job = forged(P, Q)
    job.main[0]["edwards"][:, 1] = job.main[0]["edwards"][:, 0]
    assert {"bus host", "bus keccak"} <= rules(job)


def test_a_row_less() -> None:
    job = forged(P, Q)
    job.main[0]["edwards"][:, 0] = job.main[0]["edwards"][:, 1]
    assert {"bus host", "bus keccak"} <= rules(job)


def test_a_call_of_another_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of Ed25519 is none of secp256k1, whose call has the same operands."""

    class Other(Interpreter):
        def point_sum(self, p: Point, q: Point | None, modulus: int, a: int) -> Point:
            return self.edwards_sum(p, q or p)

    number = POINT_CALLS["secp256k1_add"]
    forger = Other(adding(number, P, Q), [0], [0], 1 << 10)
    forger.run(1 << 10)
    job = job_of(Executed(forger.image, forger.records))
    del job.main[0]["points"]
    monkeypatch.setitem(edwards.EDWARDS_CALLS, "ed25519_add", number)  # the definition has the right one already
    arrays = edwards.edwards_inputs(forger.records[0])
    with CpuBackend(threads=1) as backend:
        job.main[0]["edwards"] = backend.to_host(edwards.EDWARDS_ROWS.make(backend, 32, **arrays))
    assert rules(job) == {"bus host"}


def test_no_cell_can_be_changed() -> None:
    job = forged(P, Q)
    assert rules(job) == set()
    columns, definition = job.main[0]["edwards"], DEFINITIONS["edwards"]
    own, changes = columns[:, 0].copy(), list[tuple[int, int]]()
    for k, _ in enumerate(cells("edwards", definition.main)):
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


def reading() -> Image:
    """A sum of two points, of which all words are private input."""
    code = [*asm.li(8, POINT_P), *asm.li(9, POINT_Q), asm.imm("addi", 17, 0, CALLS["private"]), asm.ECALL]
    code += [word for at in (8, 9) for k in range(16) for word in (asm.ECALL, asm.store("sw", 10, at, 4 * k))]
    return of_words(*code, *asm.li(10, FACTORS), *asm.call(ED25519_ADD), data={FACTORS: POINT_P, FACTORS + 4: POINT_Q})


def words_of(p: Point, q: Point) -> list[int]:
    return [coordinate >> 32 * k & 0xFFFFFFFF for coordinate in (*p, *q) for k in range(8)]


def by_other_carries(job: Job) -> None:
    solve_carries(job)
    job.recount()


def by_no_table(job: Job) -> None:
    del job.main[0]["edwards"], job.main[0]["keccak_words"]


def as_it_is(job: Job) -> None:
    pass


@pytest.mark.parametrize("engine", ["fri", "multilinear"])
@pytest.mark.parametrize(
    ("points", "change", "then", "accepted"),
    [
        pytest.param((P, Q), lambda s: s, as_it_is, True, id="right"),
        pytest.param((P, Q), another_x, as_it_is, False, id="wrong"),
        pytest.param((P, Q), another_x, by_other_carries, False, id="carries"),
        pytest.param((P, Q), lambda s: (s[0] + MODULUS, s[1]), as_it_is, False, id="beyond"),
        pytest.param(without_sum(1), lambda _: (0, 1), as_it_is, False, id="no sum"),
        pytest.param((P, Q), another_x, by_no_table, False, id="no table"),
    ],
)
def test_proofs(
    points: tuple[Point, Point],
    change: Change,
    then: Callable[[Job], None],
    accepted: bool,
    engine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Either engine proves a right sum and no forged one. The points are private: no public value tells them apart."""
    job = forged_run(reading(), [128, *words_of(*points)], change)
    then(job)

    def trace(self: RiscV, inputs: dict[str, Columns], backend: CpuBackend) -> Trace:
        names = [air.name for air in MACHINES[32].tables_of(("edwards",))]
        return Trace([job.main[0].get(name) for name in names], segment_trace(inputs, backend).public)

    monkeypatch.setattr(RiscV, "trace", trace)
    (tmp_path / "guest.elf").write_bytes(file_of(reading()))
    (tmp_path / "private.bin").write_bytes(struct.pack("<32I", *words_of(P, Q)))
    program = RiscV(elf=str(tmp_path / "guest.elf"), input=str(tmp_path / "private.bin"))
    if engine == "fri":
        check_proofs = partial(verify, *proven(program))
    else:
        check_proofs = prove_program(program, partitions=None, security=1, grinding=0).check
    with nullcontext() if accepted else pytest.raises(InvalidProof):
        check_proofs()
