"""Forged calls of Keccak-f that the tables refuse: wrong words, other addresses and times, calls without rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.air import check
from distprove.stark.program import Trace
from distprove.stark.programs import keccak_slices
from distprove.stark.programs.keccak_slices import MOVED, PARTS, ROWS_EACH
from distprove.stark.riscv.calls import KECCAK_CALL
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.record import FIRST_REGISTER, STATE_WORDS
from distprove.stark.riscv.segment import segment_trace
from kernels.cpu.backend import CpuBackend
from kernels.maths.goldilocks import P
from tests.stark.riscv.test_machine import proven
from tests.stark.riscv.test_machine_attacks import cells, put, put_end, rules
from tests.stark.test_proofs import check as verify
from tests.support import riscv_asm as asm
from tests.support.plain_keccak import keccak_f_of_words
from tests.support.riscv_elf import code_file
from tests.support.riscv_oracle import Interpreter
from tests.support.riscv_programs import DATA, of_words, permuting
from tests.support.riscv_traces import DEFINITIONS, Columns, Executed, Job, job_of

KEY = DATA // 4
CLOSES = ROWS_EACH - PARTS
"""The first row of a permutation's result."""


class Forger(Interpreter):
    """A run whose records may be changed before their tables are made."""

    def forged(self) -> Job:
        self.run(1 << 10)
        return job_of(Executed(self.image, self.records))


def forge(kind: type[Forger] = Forger, calls: int = 1, *then: int) -> Forger:
    return kind(permuting(calls, *then), [0], [0], 1 << 10)


def called(calls: int = 1, *then: int) -> Job:
    job = forge(Forger, calls, *then).forged()
    assert rules(job) == set()
    return job


def result_row(word: int) -> tuple[int, int]:
    """The row of the first call's result in `keccak` that has a word, and the column's number."""
    lane, upper = divmod(word, 2)
    return CLOSES + 2 * upper, lane


def test_a_wrong_word() -> None:
    """The word that memory gets is the permutation's, bit by bit."""
    for word in (0, 3, STATE_WORDS - 1):
        job = called()
        value = int(job.column("keccak_words", "after")[word]) ^ 1 << 7
        put(job, "keccak_words", word, after=value)
        put_end(job, KEY + word, value)
        if word == 3:
            (load,) = np.flatnonzero(job.column("cpu", "load"))
            put(job, "cpu", int(load), word=value)
            assert {"bus keccak", "loaded word"} <= rules(job)
            continue
        assert rules(job) == {"bus keccak"}
        row, lane = result_row(word)
        put(job, "keccak", row, **{f"words_{lane}": value})
        assert rules(job) == {f"word of lane {lane}"}
        job.column("keccak", "bits", 0, 16 * lane + 7)[row] ^= np.uint64(1)
        broken = rules(job)
        assert f"bus {MOVED.name}" in broken
        assert any(rule.startswith("parity of") for rule in broken)


def test_a_word_of_the_input_that_memory_does_not_have() -> None:
    job = called()
    put(job, "keccak_words", 5, before=0)
    assert rules(job) == {"bus keccak", "bus access"}


def test_a_word_beyond_32_bits() -> None:
    job = called()
    value = int(job.column("keccak_words", "after")[0]) + (1 << 32)
    put(job, "keccak_words", 0, after=value)
    put_end(job, KEY, value)
    put(job, "keccak", CLOSES, words=value)
    assert rules(job) == {"word of lane 0"}
    put(job, "keccak", CLOSES + 1, words=int(job.column("keccak", "words")[CLOSES + 1]) + (1 << 16))
    assert rules(job) == {"word of lane 0"}
    assert job.failures()[0].row == CLOSES + 1


class Stale(Forger):
    """Each call permutes what was there at the start of the segment."""

    def permute(self, address: int) -> None:
        for key in range(address // 4, address // 4 + STATE_WORDS):
            self.now.time.pop(key, None)
            self.words[key] = self.now.start.get(key, self.words.get(key, 0))
        super().permute(address)


def test_a_stale_state() -> None:
    """The call takes the word as it was before the store: two accesses then have one predecessor."""
    assert rules(forge(Stale).forged()) == {"bus access"}
    assert rules(forge(Stale, 3).forged()) == {"bus access"}


def test_a_state_of_the_future() -> None:
    """The call takes what is stored after it. All accesses balance: only times, which must rise, tell."""
    forger = forge(Forger, 1, asm.store("sw", 6, 8))
    forger.run(1 << 10)
    (record,) = forger.records
    store = int(np.flatnonzero(record.field("address") == DATA)[-1])
    call = int(record.call_cycle[record.call_number == KECCAK_CALL][0])
    first = record.memory_address == DATA
    before = record.permuted_before[0].copy()
    earlier = int(record.permuted_previous[0, 0])
    record.columns[8, store], record.columns[13, store] = before[0], earlier  # memory_before, memory_previous
    record.permuted_before[0, 0], record.permuted_previous[0, 0] = record.columns[9, store], 4 * (store + 1) + 2
    after = np.array(keccak_f_of_words(record.permuted_before[0].tolist()), dtype=np.uint32)
    record.permuted_after[0] = after
    words = (record.memory_address >= DATA) & (record.memory_address < DATA + 4 * STATE_WORDS)
    record.memory_end[words] = after
    record.memory_time[first] = 4 * (call + 1) + 2
    load = int(np.flatnonzero(record.field("address") == DATA + 12)[-1])
    output = int(record.call_cycle[record.call_number == 2][0])
    record.columns[8:10, load] = record.columns[5, load] = after[3]
    record.columns[3:6, output] = after[3]
    record.call_word[record.call_number == 2] = after[3]
    record.columns[4, record.columns[1] == asm.imm("addi", asm.A0, 0, 0)] = after[3]
    assert rules(job_of(Executed(forger.image, [record]))) == {"bus lookup"}


class Elsewhere(Forger):
    """Each call permutes the state one word behind the one that it names."""

    def permute(self, address: int) -> None:
        super().permute(address + 4)


def test_a_call_to_another_address() -> None:
    job = forge(Elsewhere).forged()
    for table, count in (("keccak", ROWS_EACH), ("keccak_words", STATE_WORDS)):
        job.column(table, "key")[:count] += np.uint64(1)
    job.column("keccak_words", "low")[:STATE_WORDS] += np.uint64(1)
    assert rules(job) == {"bus host"}


def test_words_of_another_address() -> None:
    """The words stand at other places than the state's."""
    job = forge(Elsewhere).forged()
    job.column("keccak_words", "key")[:STATE_WORDS] += np.uint64(1)
    job.column("keccak_words", "low")[:STATE_WORDS] += np.uint64(1)
    assert rules(job) == {"bus keccak"}


class Anywhere(Forger):
    """Takes any address, rounded down to one of a word; behind the last word of memory come the registers."""

    def permute(self, address: int) -> None:
        self.permute_words(address // 4)


def test_a_state_that_reaches_the_registers() -> None:
    """Behind the last word of memory come the registers. The accesses balance: only keys, which have 30 bits, tell."""
    image = of_words(*asm.li(10, (1 << 32) - 4 * (STATE_WORDS - 3)), *asm.call(6))
    job = Anywhere(image, [0], [0], 1 << 10).forged()
    keys = job.column("keccak_words", "key")[:STATE_WORDS]
    assert [int(key) for key in keys[-3:]] == [FIRST_REGISTER, FIRST_REGISTER + 1, FIRST_REGISTER + 2]
    assert rules(job) == {"bus lookup"}


def test_an_unaligned_state() -> None:
    job = Anywhere(of_words(*asm.li(10, DATA + 2), *asm.call(6)), [0], [0], 1 << 10).forged()
    assert rules(job) == {"bus host"}
    quarter = (DATA + 2) * pow(4, -1, P) % P
    job.column("keccak", "key")[:ROWS_EACH] = quarter
    assert rules(job) == {"bus keccak"}
    for k in range(STATE_WORDS):
        put(job, "keccak_words", k, key=quarter + k)
    assert rules(job) == {"bus access", "bus lookup"}
    for table in ("touched", "words"):
        rows = np.flatnonzero((job.column(table, "key") >= KEY) & (job.column(table, "key") < KEY + STATE_WORDS))
        for k, row in enumerate(rows):
            put(job, table, int(row), key=quarter + k)
    assert {"bus lookup", "order"} <= rules(job)


def test_a_call_that_is_answered_twice() -> None:
    """A second permutation in use, without a call: at the next cycle, where everything else is right."""
    image = of_words(*asm.li(10, DATA), *asm.call(6), asm.op("add", 5, 10, 10))
    forger = Forger(image, [0], [0], 1 << 10)
    forger.run(1 << 10)
    (record,) = forger.records
    (call,) = np.flatnonzero(record.call_number == KECCAK_CALL)
    cycle = int(record.call_cycle[call])
    after = np.array(keccak_f_of_words(record.permuted_after[0].tolist()), dtype=np.uint32)
    words = record.memory_address >= DATA
    record.memory_end[words], record.memory_time[words] = after, 4 * (cycle + 2) + 2
    changed = {
        "call_cycle": np.insert(record.call_cycle, call + 1, np.uint32(cycle + 1)),
        "call_number": np.insert(record.call_number, call + 1, np.uint32(KECCAK_CALL)),
        "call_word": np.insert(record.call_word, call + 1, np.uint32(DATA)),
        "permuted_before": np.stack((record.permuted_before[0], record.permuted_after[0])),
        "permuted_after": np.stack((record.permuted_after[0], after)),
        "permuted_previous": np.stack((record.permuted_previous[0], np.full(STATE_WORDS, 4 * (cycle + 1) + 2))),
    }
    job = job_of(Executed(forger.image, [replace(record, **changed)]))
    assert rules(job) == {"bus host"}


def at_time(job: Job, call: int, time: int, previous: int | None = None) -> None:
    """Move a call's permutation and its words to another time. `previous`: that of all words' last accesses."""
    job.column("keccak", "time")[call * ROWS_EACH : (call + 1) * ROWS_EACH] = time
    for row in range(call * STATE_WORDS, (call + 1) * STATE_WORDS):
        if previous is not None:
            put(job, "keccak_words", row, previous=previous)
        earlier = int(job.column("keccak_words", "previous")[row])
        put(job, "keccak_words", row, time=time, since=time + 1 - earlier & 0xFFFF)


def test_a_call_at_another_time() -> None:
    """All that belongs to the call has the time of the next cycle, which accesses no memory."""
    job = Forger(of_words(*asm.li(10, DATA), *asm.call(6)), [0], [0], 1 << 10).forged()
    time = int(job.column("keccak", "time")[0])
    at_time(job, 0, time + 4)
    state = (job.column("touched", "key") >= KEY) & (job.column("touched", "key") < KEY + STATE_WORDS)
    job.column("touched", "time")[state] = time + 6
    assert rules(job) == {"bus host"}
    job.column("keccak", "time")[:PARTS] = time  # the call's rows have its time, and all others another
    assert rules(job) == {"one time for a permutation", "bus keccak"}


def test_two_calls_in_the_other_order() -> None:
    """The first call is said to be the second one. All accesses balance: only times, which must rise, tell."""
    job = Forger(of_words(*asm.li(10, DATA), *asm.call(6), *asm.call(6)), [0], [0], 1 << 10).forged()
    first, second = (int(job.column("keccak", "time")[k * ROWS_EACH]) for k in (0, 1))
    at_time(job, 0, second)
    at_time(job, 1, first, second + 2)
    state = (job.column("touched", "key") >= KEY) & (job.column("touched", "key") < KEY + STATE_WORDS)
    job.column("touched", "time")[state] = first + 2
    assert rules(job) == {"bus lookup"}


@pytest.mark.parametrize("start", [1, PARTS, CLOSES])
def test_a_permutation_that_is_used_in_part(start: int) -> None:
    """Without its first row no call is needed, and without its input no memory."""
    job = called()
    for name in ("on", "sends", "takes"):
        job.column("keccak", name)[:start] = 0
    broken = rules(job)
    assert "a permutation is in use as a whole" in broken
    assert "bus keccak" in broken or "bus host" in broken


def test_a_table_that_begins_within_a_permutation() -> None:
    """The first row would be any stage's, with a state of the prover's choice and no rounds before it."""
    job = called()
    columns = job.main[0]["keccak"]
    columns[:, :-PARTS] = columns[:, PARTS:].copy()
    assert {"inner 0: first", "inner 1: first", "bus host"} <= rules(job)


def test_rounds_that_are_left_out() -> None:
    """The last stage follows on the first: flags of stages and the state of the 24th, row for row."""
    job = called()
    columns = job.main[0]["keccak"]
    columns[:, PARTS : 2 * PARTS] = columns[:, CLOSES:ROWS_EACH].copy()
    broken = rules(job)
    assert {"inner 1: next", "outer 0: next", f"bus {MOVED.name}"} <= broken


def test_a_word_that_is_accessed_twice() -> None:
    """A second row of the word, an access after the first at the same time."""
    job = called()
    columns = job.main[0]["keccak_words"]
    columns[:, STATE_WORDS] = columns[:, 0]
    now = int(job.column("keccak_words", "time")[0]) + 2
    put(job, "keccak_words", STATE_WORDS, previous=now, since=0xFFFF)
    assert {"bus keccak", "bus lookup", "bus access"} <= rules(job)


def test_a_call_that_ends_the_run() -> None:
    """A call of Keccak-f is no exit, whatever the cycle says of it."""
    job = called()
    (row,) = np.flatnonzero(job.column("cpu", "ecall") * (job.column("cpu", "a") == KECCAK_CALL))
    put(job, "cpu", int(row), offset=1)
    assert rules(job) == {"bus host", "pc"}


@pytest.mark.parametrize("segment", [1, 2, 3, 4, 5, 8, 9])
def test_a_cut_beside_a_call(segment: int) -> None:
    """A call may be the first or the last cycle of a segment. What the next one takes is the call's result, and no
    state that was there before it."""
    job = job_of(Interpreter(permuting(2), [0], [0], segment).run(1 << 10))
    assert {failure.rule for failure in job.failures()} == set()
    calls = [k for k, main in enumerate(job.main) if "keccak" in main]
    rows = [(k, row) for k in range(calls[0] + 1, len(job.main)) for row in taken(job, k, calls[0] + 1)]
    k, row = rows[0]
    (before,) = np.flatnonzero(job.column("touched", "key", calls[0]) == job.column("touched", "key", k)[row])
    for name in ("start", "segment"):
        job.column("touched", name, k)[row] = job.column("touched", name, calls[0])[before]
    job.recount()
    assert "bus words" in {failure.rule for failure in job.failures()}


def taken(job: Job, segment: int, since: int) -> list[int]:
    """The rows of words of the state that a segment takes as the segment `since` - 1 left them."""
    key = job.column("touched", "key", segment)
    on, left = job.column("touched", "on", segment), job.column("touched", "segment", segment)
    return np.flatnonzero((on == 1) & (left == since) & (key >= KEY) & (key < KEY + STATE_WORDS)).tolist()


class Idle(Forger):
    """A call does nothing."""

    def permute(self, address: int) -> None:
        pass


def test_a_call_without_a_row() -> None:
    job = forge(Idle).forged()
    assert not {"keccak", "keccak_words"} & job.main[0].keys()
    assert rules(job) == {"bus host"}


@pytest.mark.parametrize("left_out", [("keccak",), ("keccak_words",), ("keccak", "keccak_words")])
def test_tables_that_are_asked_and_left_out(left_out: tuple[str, ...]) -> None:
    job = called()
    for table in left_out:
        del job.main[0][table]
    expected = {"keccak": {"bus host", "bus keccak"}, "keccak_words": {"bus access", "bus keccak"}}
    found = set.union(*(expected[table] for table in left_out))
    assert rules(job) == (found - {"bus keccak"} if len(left_out) == 2 else found)


def test_a_call_that_another_table_answers() -> None:
    """The row of another host call does not take it."""
    job = called()
    put(job, "host", 0, is_write=1, outputs=0)
    (row,) = np.flatnonzero(job.column("cpu", "a") == KECCAK_CALL)
    put(job, "cpu", int(row), a=2)
    assert "bus host" in rules(job)


def swapped_rounds(columns: Columns) -> None:
    """Exchange the second and the third stage, but for the columns that count."""
    for name, width in keccak_slices.COLUMNS.items():
        if name in ("constant", "outer", "inner", "slices", "stamp"):
            continue
        start = keccak_slices.START[name]
        part = columns[start : start + width]
        part[:, PARTS : 3 * PARTS] = np.concatenate(
            (part[:, 2 * PARTS : 3 * PARTS], part[:, PARTS : 2 * PARTS]), axis=1
        )


def test_permuted_rounds() -> None:
    job = called()
    swapped_rounds(job.main[0]["keccak"])
    assert f"bus {MOVED.name}" in rules(job)


def test_a_permutation_that_its_result_does_not_follow_from() -> None:
    """Both ends are of permutations, each of another one: the words between the stages tell."""
    job, other = called(), called(2)
    honest, strange = job.main[0]["keccak"], other.main[0]["keccak"]
    width = keccak_slices.START["constant"]
    rows = slice(PARTS, ROWS_EACH)
    honest[:width, rows] = strange[:width, rows.start + ROWS_EACH : rows.stop + ROWS_EACH]
    moved = keccak_slices.START["moved"]
    honest[moved : keccak_slices.WIDTH, rows] = strange[moved : keccak_slices.WIDTH, 100 + PARTS : 2 * ROWS_EACH]
    words = keccak_slices.WIDTH + 5
    honest[words:, CLOSES:ROWS_EACH] = strange[words:, ROWS_EACH + CLOSES : 2 * ROWS_EACH]
    assert f"bus {MOVED.name}" in rules(job)


# -- every cell -------------------------------------------------------------------------------------------------------


def failing_rows(columns: Columns) -> Columns:
    """Whether a constraint of `keccak` fails, for each of its rows."""
    definition = DEFINITIONS["keccak"]
    table = check._Table("", definition, columns, None, np.zeros(0, dtype=np.uint64))
    program = table._program([constraint.node for constraint in definition.constraints])
    return np.concatenate([(values != 0).any(axis=0) for _, values in table._blocks(program)])


def test_no_cell_of_the_permutations_can_be_changed() -> None:
    """Each column is changed in a row where it says something; a constraint fails there or in the row before."""
    columns = called(2).main[0]["keccak"]
    names = [name for name, _ in cells("keccak", DEFINITIONS["keccak"].main)]
    ends = [each + part for each in (0, CLOSES, ROWS_EACH, ROWS_EACH + CLOSES) for part in (0, 2)]
    words = [k for k, name in enumerate(names) if name == "words"]
    others = [k for k, name in enumerate(names) if name != "words"]
    assert not failing_rows(columns).any()
    for group, rows in (
        (others, range(2, 2 * ROWS_EACH - 2, 3)),
        (words, ends),
        (words, [row + 1 for row in ends]),
    ):
        for first in range(0, len(group), len(rows)):
            changed, places = columns.copy(), list(zip(group[first:], rows, strict=False))
            for column, row in places:
                was = int(columns[column, row])
                changed[column, row] = 1 - was if was < 2 else was + 1
            wrong = failing_rows(changed)
            for column, row in places:
                assert wrong[row - 1] or wrong[row], (names[column], row)


def test_no_cell_of_the_words_can_be_changed() -> None:
    job = called()
    for name, _ in cells("keccak_words", DEFINITIONS["keccak_words"].main):
        column = job.column("keccak_words", name)
        row = int(np.flatnonzero(column)[0])
        was = int(column[row])
        for value in (was + 1, 0):
            column[row] = value
            job.recount()
            assert job.failures(), (name, row, value)
        column[row] = was
    job.recount()
    assert job.failures() == []


# -- proofs -----------------------------------------------------------------------------------------------------------


def guest(folder: Path) -> RiscV:
    code = [*asm.li(8, DATA), asm.imm("addi", 10, 8, 0), *asm.call(6), asm.load("lw", 10, 8, 12), *asm.call(2)]
    path = folder / "guest.elf"
    path.write_bytes(code_file([*code, *asm.leave()], data=bytes(range(200))))
    return RiscV(elf=str(path), segment=64)


def test_a_proof(tmp_path: Path) -> None:
    job = proven(guest(tmp_path))
    verify(*job)
    word = keccak_f_of_words(np.arange(200, dtype=np.uint8).view(np.uint32).tolist())[3]
    output = job[-1]
    assert output == word.to_bytes(4, "little")


Tamper = Callable[[dict[str, Columns]], None]


def wrong_word(main: dict[str, Columns]) -> None:
    main["keccak_words"][5, 0] += np.uint64(1)


def wrong_bit(main: dict[str, Columns]) -> None:
    main["keccak"][0, CLOSES] ^= np.uint64(1)


def without(*names: str) -> Tamper:
    return lambda main: [main.pop(name) for name in names] and None


@pytest.mark.parametrize(
    "tamper", [wrong_word, wrong_bit, lambda main: swapped_rounds(main["keccak"]), without("keccak", "keccak_words")]
)
def test_forged_proofs(tamper: Tamper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trace(self: RiscV, inputs: dict[str, Columns], backend: CpuBackend) -> Trace:
        made = segment_trace(inputs, backend)
        names = [air.name for air in MACHINES[32].tables]
        main = {name: columns for name, columns in zip(names, made.main, strict=True) if columns is not None}
        tamper(main)
        return Trace([main.get(name) for name in names], made.public)

    monkeypatch.setattr(RiscV, "trace", trace)
    with pytest.raises(InvalidProof):
        verify(*proven(guest(tmp_path)))
