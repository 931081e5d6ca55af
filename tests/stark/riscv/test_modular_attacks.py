"""Forged products modulo a number that the table refuses: wrong results, quotients, carries, other operands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.air import check
from distprove.stark.program import Trace
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import segment_trace
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import P
from tests.stark.riscv.test_machine import proven
from tests.stark.riscv.test_machine_attacks import cells, put, put_end, rules
from tests.stark.riscv.test_precompiles import BLS12_381, MOST, SECP256K1, file_of
from tests.stark.test_proofs import check as verify
from tests.support.riscv_forgery import beyond_memory
from tests.support.riscv_oracle import Interpreter
from tests.support.riscv_programs import ADDEND, FACTORS, RESULT, X, Y, multiplying
from tests.support.riscv_traces import DEFINITIONS, Columns, Executed, Job, job_of

LEFT, RIGHT, ADDED = SECP256K1 - 3, 0x123456789 << 200 | 77, 1 << 255


class Forger(Interpreter):
    """A run whose records may be changed before their tables are made."""

    def forged(self) -> Job:
        self.run(1 << 10)
        return job_of(Executed(self.image, self.records))


def called(x: int = LEFT, y: int = RIGHT, addend: int | None = ADDED, modulus: int = SECP256K1, words: int = 8) -> Job:
    job = Forger(multiplying(x, y, addend, modulus, shown=False, words=words), [0], [0], 1 << 10).forged()
    assert rules(job) == set()
    return job


def number_of(job: Job, name: str) -> int:
    """A number of 16 limbs in the first row."""
    return sum(int(job.column("modular", name, 0, k)[0]) << 16 * k for k in range(16))


def claim(job: Job, quotient: int, result: int) -> None:
    """Fill the row, all accesses and the output in for another quotient and result, as well as limbs can have them."""
    old = number_of(job, "result")
    for k in range(16):
        limbs = {f"quotient_{k}": quotient >> 16 * k & 0xFFFF, f"result_{k}": result >> 16 * k & 0xFFFF}
        put(job, "modular", 0, **limbs)
    for k in range(8):
        word = result >> 32 * k & 0xFFFFFFFF
        if word == old >> 32 * k & 0xFFFFFFFF:
            continue
        put_end(job, RESULT // 4 + k, word)
        (row,) = np.flatnonzero(job.column("keccak_words", "key") == RESULT // 4 + k)
        put(job, "keccak_words", int(row), after=word)
    carry = 0
    x, y, m = (number_of(job, name) for name in ("x", "y", "modulus"))
    whole = int(job.column("modular", "whole")[0])
    limbs_of = [[n >> 16 * k & 0xFFFF for k in range(16)] for n in (x, y, m, quotient)]
    for k in range(15):
        value = carry
        for half in (0, 1):
            at = 2 * k + half
            pairs = [(i, at - i) for i in range(16) if 0 <= at - i < 16]
            a, b, c, d = limbs_of
            value += (1 << 16 * half) * sum(a[i] * b[j] - d[i] * c[j] for i, j in pairs)
        if k < 8:
            value += int(job.column("modular", "addend", 0, k)[0]) - (result >> 32 * k & 0xFFFFFFFF)
        else:
            value -= whole * (quotient >> 32 * (k - 8) & 0xFFFFFFFF)
        carry = value * pow(1 << 32, -1, P) % P if value % (1 << 32) else value >> 32
        shifted = (carry + (1 << 21)) % P
        low = shifted & 0xFFFF
        put(job, "modular", 0, **{f"low_{k}": low, f"high_{k}": (shifted - low) * pow(1 << 16, -1, P)})
    above = [k for k in range(8) if (m ^ result) >> 32 * k & 0xFFFFFFFF]
    for k in range(2):
        put(job, "modular", 0, **{f"four_{k}": int(bool(above) and above[-1] // 4 == k)})
        put(job, "modular", 0, **{f"place_{k}": above[-1] >> k & 1 if above else 0})
    if above:
        gap = ((m >> 32 * above[-1] & 0xFFFFFFFF) - (result >> 32 * above[-1] & 0xFFFFFFFF) - 1) % P
        put(job, "modular", 0, gap_0=gap & 0xFFFF, gap_1=(gap - (gap & 0xFFFF)) * pow(1 << 16, -1, P))


def honest(job: Job) -> tuple[int, int]:
    return number_of(job, "quotient"), number_of(job, "result")


def test_the_forger_fills_in_what_is_right() -> None:
    job = called()
    claim(job, *honest(job))
    assert rules(job) == set()


@pytest.mark.parametrize("wrong", [1, -1, 1 << 32, 1 << 128, 1 << 224])
def test_a_wrong_result(wrong: int) -> None:
    job = called()
    quotient, result = honest(job)
    claim(job, quotient, result + wrong)
    broken = rules(job)
    assert "bus lookup" in broken or any(rule.startswith("product") for rule in broken)
    assert not {"bus keccak", "bus host"} & broken


@pytest.mark.parametrize("wrong", [1, -1, 1 << 32, 1 << 128, 1 << 224])
def test_a_wrong_quotient(wrong: int) -> None:
    job = called()
    quotient, result = honest(job)
    claim(job, quotient + wrong, result)
    broken = rules(job)
    assert "bus lookup" in broken or any(rule.startswith("product") for rule in broken)


@pytest.mark.parametrize("x", [0, 1, 1 << 40])
def test_a_result_that_is_not_reduced(x: int) -> None:
    """One quotient less, and the modulus more in the result: the equation holds, and only the order tells."""
    for modulus in (1 << 200, (1 << 200) - 1, 5):
        job = called(modulus + 1, 1, x % modulus, modulus)
        quotient, result = honest(job)
        assert quotient > 0
        claim(job, quotient - 1, result + modulus)
        assert rules(job) == {"bus lookup"}, (x, modulus)


def test_a_result_that_is_the_modulus() -> None:
    """No word differs then."""
    modulus = (1 << 200) - 1
    job = called(modulus, 1, None, modulus)
    assert honest(job) == (1, 0)
    claim(job, 0, modulus)
    assert rules(job) == {"below the modulus", "one word differs"}
    put(job, "modular", 0, four_1=1)
    assert rules(job) == {"below the modulus"}
    put(job, "modular", 0, gap_0=P - 1)
    assert rules(job) == {"bus lookup"}


def test_a_higher_word_that_is_passed_over() -> None:
    """A result above the modulus, with a lower word below the modulus' own."""
    modulus = 3 << 32 | 9
    job = called(modulus + 1, 1, None, modulus)
    claim(job, 0, modulus + 1)
    job = called(modulus - 7 + (2 << 32), 1, None, modulus)
    quotient, result = honest(job)
    claim(job, quotient - 1, result + modulus)
    put(job, "modular", 0, place_0=0)
    low = (modulus - result - modulus) % (1 << 32)
    put(job, "modular", 0, gap_0=(low - 1) & 0xFFFF, gap_1=(low - 1) >> 16)
    assert {"equal above, 1"} <= rules(job)


def test_a_modulus_that_is_called_0() -> None:
    """Then any result below 2^256 would do."""
    job = called(1 << 100, 1 << 100, None, 7)
    put(job, "modular", 0, whole=1)
    assert {"a modulus that is 0", "a modulus that is not 0"} <= rules(job)
    put(job, "modular", 0, inverse=0)
    assert "a modulus that is 0" in rules(job)


def test_a_modulus_of_0_that_is_not_2_to_256() -> None:
    job = called(MOST, MOST, 3, 0)
    quotient, result = honest(job)
    assert (result, quotient) == (4, MOST - 1)
    put(job, "modular", 0, whole=0)
    assert {"a modulus that is not 0", "one word differs", "below the modulus"} <= rules(job)
    job = called(MOST, MOST, 3, 0)
    claim(job, quotient - 1, result)
    assert "bus lookup" in rules(job) or any(rule.startswith("product") for rule in rules(job))


@pytest.mark.parametrize("name", ["x", "y", "modulus", "quotient", "result"])
def test_limbs_beyond_16_bits(name: str) -> None:
    """The same words with another limb below: a product modulo p may then be any."""
    job = called()
    low, high = (int(job.column("modular", name, 0, k)[0]) for k in (0, 1))
    put(job, "modular", 0, **{f"{name}_0": low + (1 << 16), f"{name}_1": high - 1})
    assert "bus lookup" in rules(job)
    assert "bus keccak" not in rules(job)


def test_a_carry_beyond_its_range() -> None:
    """One that makes an equation hold modulo p alone."""
    job = called()
    quotient, result = honest(job)
    claim(job, quotient, result ^ 1)
    assert "bus lookup" in rules(job)
    assert not any(rule == "product 0" for rule in rules(job))


def test_an_addend_without_a_call_for_it() -> None:
    job = called(addend=None)
    put(job, "modular", 0, addend=1)
    assert "no addend 0" in rules(job)
    put(job, "modular", 0, adds=1)
    assert {"bus host", "bus keccak"} <= rules(job)


def test_an_addend_that_is_left_out() -> None:
    job = called()
    put(job, "modular", 0, adds=0)
    for k in range(8):
        put(job, "modular", 0, **{f"addend_{k}": 0})
    assert {"bus host", "bus keccak"} <= rules(job)


def test_an_addend_of_an_idle_row() -> None:
    job = called()
    put(job, "modular", 1, adds=1)
    assert "an addend of a call" in rules(job)


@pytest.mark.parametrize("operand", ["result", "x", "y", "addend"])
def test_an_operand_from_elsewhere(operand: str) -> None:
    """The pointers are the words that memory has."""
    k = ["result", "x", "y", "addend"].index(operand)
    job = called()
    put(job, "modular", 0, **{f"pointers_{k}": (RESULT, X, Y, ADDEND)[k] + 4})
    assert rules(job) == {"bus keccak"}
    (row,) = np.flatnonzero(job.column("keccak_words", "key") == FACTORS // 4 + k)
    pointer = (RESULT, X, Y, ADDEND)[k] + 4
    put(job, "keccak_words", int(row), before=pointer, after=pointer)
    assert {"bus access", "bus keccak"} == rules(job)


def test_a_pointer_that_is_not_aligned() -> None:
    """A quarter of it is no number of 30 bits, whatever memory has."""
    pointer = X + 2

    class Unaligned(Forger):
        def operand(self, address: int, count: int) -> list[int]:
            return super().operand(address & ~3, count)

    job = Unaligned(
        multiplying(LEFT, RIGHT, ADDED, SECP256K1, (RESULT, pointer, Y, ADDEND)), [0], [0], 1 << 10
    ).forged()
    assert rules(job) == {"bus keccak"}
    for k in range(8):
        (row,) = np.flatnonzero(job.column("keccak_words", "key") == X // 4 + k)
        put(job, "keccak_words", int(row), key=pointer * pow(4, -1, P) + k)
    assert {"bus lookup", "bus access"} <= rules(job)


@pytest.mark.parametrize("operand", range(4))
def test_an_operand_that_reaches_the_registers(operand: int) -> None:
    """The result would be written to them. The accesses balance: only keys, which have 30 bits, tell."""
    image = multiplying(LEFT, RIGHT, ADDED, SECP256K1, shown=False)
    image.memory_word[image.memory_address == FACTORS + 4 * operand] = (1 << 32) - 16
    job = beyond_memory(Interpreter(image, [0], [0], 1 << 10))
    assert rules(job) == {"bus lookup"}


def test_an_operand_that_is_read_after_the_result() -> None:
    """x lies where the result goes: it is what was there before, and never the result."""
    job = Forger(multiplying(LEFT, RIGHT, None, SECP256K1, (X, X, Y, ADDEND)), [0], [0], 1 << 10).forged()
    assert rules(job) == set()
    rows = np.flatnonzero(job.column("keccak_words", "key") == X // 4)
    first, last = (int(row) for row in rows)
    for name in ("time", "previous"):
        column = job.column("keccak_words", name)
        column[first], column[last] = column[last], column[first]
    assert {"bus keccak"} <= rules(job)


def test_a_row_more() -> None:
    """A second row of the call, with its accesses, at the same time."""
    job = called()
    job.main[0]["modular"][:, 1] = job.main[0]["modular"][:, 0]
    assert {"bus host", "bus keccak"} <= rules(job)


def test_accesses_that_are_made_twice() -> None:
    job = called()
    words = job.main[0]["keccak_words"]
    words[:, 44] = words[:, 0]
    assert {"bus keccak", "bus access"} <= rules(job)


# -- every cell -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("addend", "modulus", "words"),
    [(ADDED, SECP256K1, 8), (None, SECP256K1, 8), (ADDED, 0, 8), (None, 97, 8), (ADDED, BLS12_381, 12)],
)
def test_no_cell_can_be_changed(addend: int | None, modulus: int, words: int) -> None:
    job = called(3 if modulus == 97 else LEFT, RIGHT if modulus != 97 else 5, addend, modulus, words)
    table_name = "modular" if words == 8 else "modular384"
    columns = job.main[0][table_name]
    definition = DEFINITIONS[table_name]
    for k, (name, index) in enumerate(cells(table_name, definition.main)):
        if name in ("inverse", "gap", "place") and not modulus:
            continue  # nothing is inverted, nor compared
        was = int(columns[k, 0])
        for value in (was + 1, 1 - was if was < 2 else 0):
            if value == was:
                continue
            columns[k, 0] = value
            table = check._Table("", definition, columns, None, np.zeros(0, dtype=np.uint64))
            program = table._program([constraint.node for constraint in definition.constraints])
            failing = any((values != 0).any() for _, values in table._blocks(program))
            assert failing or rules(job), (name, index, value)
        columns[k, 0] = was
    assert rules(job) == set()


# -- proofs -----------------------------------------------------------------------------------------------------------


def guest(folder: Path) -> RiscV:
    image = multiplying(LEFT, RIGHT, ADDED, SECP256K1)
    path = folder / "guest.elf"
    path.write_bytes(file_of(image))
    return RiscV(elf=str(path), segment=64)


Tamper = Callable[[dict[str, Columns]], None]


def wrong_result(main: dict[str, Columns]) -> None:
    at = sum(list(DEFINITIONS["modular"].main.values())[: list(DEFINITIONS["modular"].main).index("result")])
    main["modular"][at, 0] ^= np.uint64(1)
    main["keccak_words"][5, 36] ^= np.uint64(1)


def without(main: dict[str, Columns]) -> None:
    del main["modular"], main["keccak_words"]


@pytest.mark.parametrize("tamper", [wrong_result, without])
def test_forged_proofs(tamper: Tamper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(self: RiscV, inputs: dict[str, Columns], backend: CpuBackend) -> Trace:
        made = segment_trace(inputs, backend)
        names = [air.name for air in MACHINES[32].tables_of(("modular",))]
        main = {name: columns for name, columns in zip(names, made.main, strict=True) if columns is not None}
        tamper(main)
        return Trace([main.get(name) for name in names], made.public)

    monkeypatch.setattr(RiscV, "trace", trace)
    with pytest.raises(InvalidProof):
        verify(*proven(guest(tmp_path)))
