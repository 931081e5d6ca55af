"""Forged calls of SHA-256 that the tables refuse: wrong words, other addresses and times, calls without rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.air import check
from distprove.stark.program import Trace
from distprove.stark.riscv.calls import PRECOMPILES, SHA256_CALLS
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import segment_trace
from distprove.stark.riscv.sha256 import ROWS_EACH
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import P
from tests.stark.riscv.test_machine import proven
from tests.stark.riscv.test_machine_attacks import cells, put, put_end, rules
from tests.stark.riscv.test_precompiles import elf_of
from tests.stark.test_proofs import check as verify
from tests.support import riscv_asm as asm
from tests.support.riscv_forgery import beyond_memory
from tests.support.riscv_oracle import Interpreter
from tests.support.riscv_programs import DATA, MESSAGE, hashing, of_words
from tests.support.riscv_traces import DEFINITIONS, Columns, Executed, Job, job_of

BLOCK, EXTEND, COMPRESS = SHA256_CALLS.values()
LAST = ROWS_EACH - 1
"""The row of a call that has its result."""
STATE = DATA + 4


class Forger(Interpreter):
    """A run whose records may be changed before their tables are made."""

    def forged(self) -> Job:
        self.run(1 << 10)
        return job_of(Executed(self.image, self.records))


def called(*calls: int) -> Job:
    job = Forger(hashing(*(calls or (BLOCK,))), [0], [0], 1 << 10).forged()
    assert rules(job) == set()
    return job


def words_row(job: Job, address: int) -> int:
    """The row of a word of the first call in the table of accesses."""
    return int(np.flatnonzero(job.column("keccak_words", "key") == address // 4)[0])


def column(name: str, index: int = 0) -> int:
    """The number of a column of `sha256`."""
    widths = DEFINITIONS["sha256"].main
    return sum(list(widths.values())[: list(widths).index(name)]) + index


@pytest.mark.parametrize("word", [2, 7])
def test_a_wrong_state(word: int) -> None:
    """The state that memory gets is the table's, whose bits are those of the sums."""
    job = called()
    row = words_row(job, STATE + 4 * word)
    value = int(job.column("keccak_words", "after")[row]) ^ 1 << 9
    put(job, "keccak_words", row, after=value)
    put_end(job, STATE // 4 + word, value)
    assert rules(job) == {"bus keccak"}
    put(job, "sha256", LAST, **{f"value_{word}": value})
    assert rules(job) == {f"word {word} of the state"}
    name, place = ("a", 3 - word) if word < 4 else ("e", 7 - word)
    job.column("sha256", name, 0, 32 * place + 9)[LAST] ^= np.uint64(1)
    assert rules(job) == {f"sum {word}"}


def test_a_state_that_memory_does_not_have() -> None:
    """All rounds are those of another state."""
    honest, other = called(), Forger(hashing(BLOCK), [0], [0], 1 << 10)
    other.words[STATE // 4 + 5] ^= 1
    job = other.forged()
    job.fixed = honest.fixed
    assert rules(job) == {"bus words"}
    put(job, "sha256", 0, value_5=int(honest.column("sha256", "value", 0, 5)[0]))
    assert "word 5 of the state" in rules(job)


@pytest.mark.parametrize("name", ["a", "e"])
def test_a_wrong_carry(name: str) -> None:
    """A word of the state one more than the sum modulo 2^32, or one beyond 32 bits, has no carry."""
    job = called()
    index = 4 * (name == "e")
    for to in ({f"carry_{index}": 4}, {f"carry_{index}": P - 1}, {f"upper_{index}": 2}):
        was = {each: int(job.column("sha256", each[:5], 0, index)[5]) for each in to}
        put(job, "sha256", 5, **to)
        assert f"{name} 0" in rules(job)
        assert len(rules(job)) == 2  # no such carry either
        put(job, "sha256", 5, **was)
    assert rules(job) == set()


def test_a_word_of_the_schedule_that_does_not_follow() -> None:
    """Another word from the 16th on, with all rounds computed over it: the schedule is what refuses it."""

    class Other(Forger):
        def compute(self, number: int, address: int) -> None:
            super().compute(EXTEND, MESSAGE)
            self.words[MESSAGE // 4 + 20] ^= 1
            super().compute(COMPRESS, address)

    forger = Other(hashing(COMPRESS), [0], [0], 1 << 10)
    forger.run(1 << 10)
    (record,) = forger.records
    keep = replace(record, accesses=record.accesses[64:])
    job = job_of(Executed(forger.image, [keep]))
    assert "bus access" in rules(job)  # the extension that was left out
    on = job.column("sha256", "is_compress").copy()
    job.column("sha256", "is_block")[:], job.column("sha256", "is_compress")[:] = on, 0
    broken = rules(job)
    assert any(rule.startswith("schedule") for rule in broken), broken


def test_a_schedule_is_not_bound_where_memory_has_it() -> None:
    """The call that compresses takes all 64 words as they are: these are no extension."""
    job = called(COMPRESS)
    assert int(job.column("sha256", "sends")[1:LAST].sum()) == 16
    put(job, "sha256", 16, value_3=int(job.column("sha256", "value", 0, 3)[16]) ^ 1)
    assert "word 3 before" in rules(job)


def test_an_extended_word_is_the_tables() -> None:
    job = called(EXTEND)
    row = words_row(job, MESSAGE + 4 * 40)
    value = int(job.column("keccak_words", "after")[row]) ^ 1
    put(job, "keccak_words", row, after=value)
    put_end(job, MESSAGE // 4 + 40, value)
    assert rules(job) == {"bus keccak"}
    put(job, "sha256", 11, value_4=value)
    assert rules(job) == {"word 0 after"}
    job.column("sha256", "w")[11] ^= np.uint64(1)
    assert "schedule 0" in rules(job)


def test_the_first_words_of_a_schedule_stay() -> None:
    job = called(EXTEND)
    put(job, "sha256", 2, value_4=1)
    assert {"word 0 after", "bus keccak"} == rules(job)
    put(job, "sha256", 2, value=1)
    assert {"word 0 after", "word 0 before", "bus keccak"} == rules(job)


def test_a_word_beyond_32_bits() -> None:
    """As a number of the field, 2^32 more is another one, and has no bits."""
    job = called(EXTEND)
    row = words_row(job, MESSAGE + 4 * 40)
    value = int(job.column("keccak_words", "after")[row]) + (1 << 32)
    put(job, "keccak_words", row, after=value)
    put_end(job, MESSAGE // 4 + 40, value)
    put(job, "sha256", 11, value_4=value)
    assert rules(job) == {"word 0 after"}


class Elsewhere(Forger):
    """Takes its message from the word behind."""

    def compute(self, number: int, address: int) -> None:
        pointer = self.words[address // 4]
        self.words[address // 4] = pointer + 4
        super().compute(number, address)
        self.words[address // 4] = pointer


def test_a_message_from_elsewhere() -> None:
    """The pointer is the word that memory has."""
    job = Elsewhere(hashing(BLOCK), [0], [0], 1 << 10).forged()
    assert rules(job) == {"bus access", "bus words"}
    (row,) = np.flatnonzero(job.column("touched", "key") == DATA // 4)
    (other,) = np.flatnonzero(job.column("words", "key") == DATA // 4)
    pointer = words_row(job, DATA)
    put(job, "touched", int(row), start=MESSAGE, end=MESSAGE)
    put(job, "words", int(other), end=MESSAGE)
    put(job, "keccak_words", pointer, before=MESSAGE, after=MESSAGE)
    assert rules(job) == {"bus keccak"}


@pytest.mark.parametrize("number", [BLOCK, EXTEND])
def test_words_that_reach_the_registers(number: int) -> None:
    """Of a message, and of a schedule, which is written there. Only keys, which have 30 bits, tell."""

    end = (1 << 32) - (52 if number == BLOCK else 160)
    code = [*asm.li(10, DATA if number == BLOCK else end), *asm.call(number)]
    job = beyond_memory(Interpreter(of_words(*code, data={DATA: end}), [0], [0], 1 << 10))
    assert "bus lookup" in rules(job)
    assert not {"bus keccak", "bus host", "bus access"} & rules(job)


def test_a_call_to_another_address() -> None:
    """State and pointer of a place that the argument does not name."""

    class Behind(Forger):
        def compute(self, number: int, address: int) -> None:
            super().compute(number, address + 4)

    image = hashing(BLOCK)
    forger = Behind(image, [0], [0], 1 << 10)
    forger.words |= {DATA // 4 + k + 1: forger.words[DATA // 4 + k] for k in (8, 7, 6, 5, 4, 3, 2, 1, 0)}
    forger.run(1 << 10)
    job = job_of(Executed(image, forger.records))
    job.column("sha256", "key")[:ROWS_EACH] += np.uint64(1)
    for row in (0, LAST):
        put(job, "sha256", row, at=int(job.column("sha256", "at")[row]) + 1)
    assert {"bus host"} <= rules(job)
    assert "bus keccak" not in rules(job)


@pytest.mark.parametrize("number", [EXTEND, COMPRESS])
def test_one_call_for_another(number: int) -> None:
    """A call of another number: its argument, state and words may all be right."""
    job = called(BLOCK)
    on = job.column("sha256", "is_block").copy()
    name = "is_extend" if number == EXTEND else "is_compress"
    job.column("sha256", "is_block")[:], job.column("sha256", name)[:] = 0, on
    assert "bus host" in rules(job)


def test_two_calls_at_once() -> None:
    """A row of two kinds."""
    job = called(BLOCK)
    job.column("sha256", "is_extend")[:] = job.column("sha256", "is_block")
    assert {"one kind of call", "bus host"} <= rules(job)


class Stale(Forger):
    """Each call takes what was there at the start of the segment."""

    def compute(self, number: int, address: int) -> None:
        for key in range(DATA // 4, DATA // 4 + 9):
            self.now.time.pop(key, None)
            self.words[key] = self.now.start.get(key, self.words.get(key, 0))
        super().compute(number, address)


def test_a_stale_state() -> None:
    assert rules(Stale(hashing(BLOCK, BLOCK), [0], [0], 1 << 10).forged()) == {"bus access"}


class Idle(Forger):
    """A call does nothing."""

    def compute(self, number: int, address: int) -> None:
        pass


@pytest.mark.parametrize("number", [n for calls in PRECOMPILES.values() for n in calls.values()])
def test_a_call_without_a_row(number: int) -> None:
    """Nor a table: those of precompiles may be absent."""
    image = of_words(*asm.li(10, DATA), *asm.call(number))
    forger = Idle(image, [0], [0], 1 << 10)
    forger.run(1 << 10)
    (record,) = forger.records
    ours = record.call_number != number
    kept = {name: getattr(record, name)[ours] for name in ("call_cycle", "call_number", "call_word")}
    job = job_of(Executed(image, [replace(record, **kept)]))
    assert not {*PRECOMPILES, "keccak_words"} & job.main[0].keys()
    assert rules(job) == {"bus host"}


def test_a_call_that_is_answered_twice() -> None:
    """A second call in the table, at the time of the next cycle, where everything else is right."""
    code = [*asm.li(10, DATA), *asm.call(BLOCK), asm.op("add", 5, 10, 10), asm.op("add", 5, 10, 10)]
    image = of_words(*code, data={DATA: MESSAGE})

    class Twice(Forger):
        def compute(self, number: int, address: int) -> None:
            super().compute(number, address)
            self.now.rows.append({})
            super().compute(number, address)
            self.now.rows.pop()

    twice = Twice(image, [0], [0], 1 << 10)
    twice.run(1 << 10)
    (record,) = twice.records
    (call,) = np.flatnonzero(record.call_number == BLOCK)
    cycle = int(record.call_cycle[call])
    changed = {
        "call_cycle": np.insert(record.call_cycle, call + 1, np.uint32(cycle + 1)),
        "call_number": np.insert(record.call_number, call + 1, np.uint32(BLOCK)),
        "call_word": np.insert(record.call_word, call + 1, np.uint32(DATA)),
    }
    record.columns[3, cycle + 1] = DATA
    job = job_of(Executed(image, [replace(record, **changed)]))
    assert rules(job) == {"bus host"}


def test_a_call_at_another_time() -> None:
    """All that belongs to the call has the time of the next cycle, which accesses no memory."""
    job = Forger(of_words(*asm.li(10, MESSAGE), *asm.call(EXTEND)), [0], [0], 1 << 10).forged()
    for name in ("time", "now"):
        job.column("sha256", name)[:ROWS_EACH] += np.uint64(4)
    words = 64
    for name in ("time", "since"):
        job.column("keccak_words", name)[:words] += np.uint64(4)
    keys = job.column("touched", "key")
    job.column("touched", "time")[(keys >= MESSAGE // 4) & (keys < MESSAGE // 4 + words)] += np.uint64(4)
    assert rules(job) == {"bus host"}


@pytest.mark.parametrize("row", [1, 9, LAST])
def test_a_call_in_use_in_part(row: int) -> None:
    """Rows of a call that are not in use: rounds left out, a state that is never read or never written."""
    job = called()
    for name in ("is_block", "sends", "begins", "points"):
        job.column("sha256", name)[:row] = 0
    broken = rules(job)
    assert "one is_block for a call, 0" in broken
    assert "bus keccak" in broken


def test_rounds_that_are_left_out() -> None:
    """The last row follows on the first."""
    job = called()
    columns = job.main[0]["sha256"]
    columns[:, 1] = columns[:, LAST]
    assert "step 1: next" in rules(job)
    columns[column("step") : column("step") + ROWS_EACH, 1] = 0
    columns[column("step", 1), 1] = 1
    assert "a 0" in rules(job)


def test_a_call_that_the_end_of_the_table_cuts_off() -> None:
    job = called()
    columns = job.main[0]["sha256"]
    columns[:, -ROWS_EACH + 1 :] = columns[:, : ROWS_EACH - 1].copy()
    assert "a call that the table's end cuts off is idle" in rules(job)


# -- every cell -------------------------------------------------------------------------------------------------------


def failing_rows(columns: Columns) -> Columns:
    """Whether a constraint of `sha256` fails, for each of its rows."""
    definition = DEFINITIONS["sha256"]
    table = check._Table("", definition, columns, None, np.zeros(0, dtype=np.uint64))
    program = table._program([constraint.node for constraint in definition.constraints])
    return np.concatenate([(values != 0).any(axis=0) for _, values in table._blocks(program)])


@pytest.mark.parametrize("number", [BLOCK, EXTEND, COMPRESS])
def test_no_cell_that_says_something_can_be_changed(number: int) -> None:
    """Each column of the table is changed in each kind of row where it matters; a constraint or a bus refuses it."""
    job = called(number)
    columns = job.main[0]["sha256"]
    assert not failing_rows(columns).any()
    rounds = number != EXTEND
    rows_of = {
        "a": (0, 3, 16, LAST) if rounds else (),
        "e": (0, 3, 16, LAST) if rounds else (),
        "w": (1, 4, 5, 9, 16),
        "held": (0, 8, 16) if rounds else (),
        "carry": (1, 9, LAST) if rounds else (),
        "upper": (1, 9, LAST) if rounds else (),
        "schedule": (5, 16) if number != COMPRESS else (),
        "past": (5, 9),
        "value": (1, 4) if number == BLOCK else (1, 4, 5, 16),
    }
    names = list(cells("sha256", DEFINITIONS["sha256"].main))
    for k, (name, index) in enumerate(names):
        rows = rows_of.get(name, (0, 2, 8, LAST))
        if name in ("a", "e", "w") and rows:
            rows = (rows[index % len(rows)],)
        if name in ("is_block", "is_extend", "is_compress"):
            rows = (2, 8)
        for row in rows:
            changed = columns.copy()
            was = int(changed[k, row])
            changed[k, row] = 1 - was if was < 2 else was + 1
            if failing_rows(changed).any():
                continue
            job.main[0]["sha256"] = changed
            assert rules(job), (name, index, row)
            job.main[0]["sha256"] = columns


# -- proofs -----------------------------------------------------------------------------------------------------------


def guest(folder: Path) -> RiscV:
    image = hashing(BLOCK)
    data = dict(zip(image.memory_address.tolist(), image.memory_word.tolist(), strict=True))
    path = folder / "guest.elf"
    path.write_bytes(elf_of(image.code_word.tolist(), {a: w for a, w in data.items() if a >= DATA}))
    return RiscV(elf=str(path), segment=64)


Tamper = Callable[[dict[str, Columns]], None]


def wrong_word(main: dict[str, Columns]) -> None:
    main["keccak_words"][5, 20] += np.uint64(1)


def wrong_bit(main: dict[str, Columns]) -> None:
    main["sha256"][column("a", 3), LAST] ^= np.uint64(1)


def without(main: dict[str, Columns]) -> None:
    del main["sha256"], main["keccak_words"]


@pytest.mark.parametrize("tamper", [wrong_word, wrong_bit, without])
def test_forged_proofs(tamper: Tamper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(self: RiscV, inputs: dict[str, Columns], backend: CpuBackend) -> Trace:
        made = segment_trace(inputs, backend)
        names = [air.name for air in MACHINES[32].tables_of(("sha256",))]
        main = {name: columns for name, columns in zip(names, made.main, strict=True) if columns is not None}
        tamper(main)
        return Trace([main.get(name) for name in names], made.public)

    monkeypatch.setattr(RiscV, "trace", trace)
    with pytest.raises(InvalidProof):
        verify(*proven(guest(tmp_path)))
