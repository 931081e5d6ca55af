"""Host calls that compute SHA-256, products modulo a number and sums of points, and that the tables accept them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from distprove.errors import UsageError
from distprove.stark.riscv.calls import CALL_WORDS, PRECOMPILES, precompiles_in
from distprove.stark.riscv.elf import parse_elf
from distprove.stark.riscv.executor import Execution, Replay, Snapshot, Stop, Trap
from distprove.stark.riscv.guest import Guest
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.modular import quotients
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.record import Image
from distprove.stark.riscv.segment import Fixed, log_heights, operation_classes
from tests.cli.conftest import run as command
from tests.stark.riscv.test_executor import same
from tests.stark.riscv.test_guests import GUESTS
from tests.stark.riscv.test_machine import proven
from tests.stark.test_proofs import check as verify
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import EXECUTE, READ, WRITE, elf_file
from tests.support.riscv_oracle import BLS12_381, ED25519_ADD, P256, POINTS, SECP256K1, Interpreter, Trapped, run
from tests.support.riscv_programs import (
    ADDEND,
    DATA,
    FACTORS,
    MESSAGE,
    RESULT,
    SHA256_START,
    X,
    Y,
    adding,
    hashing,
    multiplying,
    of_words,
)
from tests.support.riscv_traces import job_of

MOST = (1 << 256) - 1


def elf_of(code: list[int], data: dict[int, int]) -> bytes:
    """A file with this code, and words of data from `DATA` on."""
    content = bytearray(0x800)
    for address, word in data.items():
        content[address - DATA : address - DATA + 4] = word.to_bytes(4, "little")
    words = b"".join(word.to_bytes(4, "little") for word in code)
    return elf_file([(asm.BASE, words, READ | EXECUTE), (DATA, bytes(content), READ | WRITE)], asm.BASE)


def file_of(image: Image) -> bytes:
    """A file with a program's code, and its words of data from `DATA` on."""
    data = zip(image.memory_address.tolist(), image.memory_word.tolist(), strict=True)
    return elf_of(image.code_word.tolist(), {address: word for address, word in data if address >= DATA})


PLACES = st.integers(0, 0x100).map(lambda k: DATA + 4 * k) | st.sampled_from([FACTORS, MESSAGE, X, DATA + 2, 4092])
NUMBERS = st.sampled_from([0, 1, MOST, SECP256K1, P256, 1 << 255, 1 << 32]) | st.integers(0, MOST)


@given(
    st.lists(st.tuples(st.sampled_from(range(7, 23)), PLACES), min_size=1, max_size=3),
    st.lists(PLACES, min_size=4, max_size=4),
    st.lists(NUMBERS, min_size=8, max_size=8),
    st.sampled_from([1, 3, 1000]),
)
@settings(max_examples=200, deadline=None)
def test_operands_anywhere(calls: list[tuple[int, int]], pointers: list[int], numbers: list[int], segment: int) -> None:
    """Operands lie wherever they may, over each other too: the executor does what the plain interpreter does, and traps
    where that does; what they execute, the tables accept."""
    code = [word for number, address in calls for word in (*asm.li(10, address), *asm.call(number))]
    data = {DATA + 32 * i + 4 * k: n >> 32 * k & 0xFFFFFFFF for i, n in enumerate(numbers) for k in range(8)}
    for _, address in calls:
        if address % 4 == 0 and address >= DATA:
            data |= {address + 4 * k: pointer for k, pointer in enumerate(pointers)}
    elf = parse_elf(elf_of([*code, *asm.leave()], data), "calls")
    execution, replay = Execution(elf), Replay(elf)
    oracle = Interpreter(elf.image(), [0], [0], segment)
    trap = None
    snapshots = list[Snapshot]()
    try:
        snapshots.extend(execution.segments(segment))
    except Trap as found:
        trap = found.state
    while oracle.cycle < execution.cycles:
        oracle.step()
        if len(oracle.now.rows) == segment or not oracle.pc:
            oracle._close()
    for snapshot, expected in zip(snapshots, oracle.records, strict=True):
        same(replay.record(snapshot), expected)
    event(trap.stop.name if trap else "EXIT")
    if trap is None:
        assert job_of(run(elf.image(), segment=segment)).failures() == []
    elif trap.stop is Stop.LOW_ADDRESS:
        assert trap.about < 4096
    else:
        with pytest.raises(Trapped):
            oracle.step()


@pytest.mark.parametrize("segment", [1 << 20, 8, 3])
def test_hashes(segment: int) -> None:
    """A block, then the two calls in place of it, and a state that is extended; over cuts beside the calls."""
    found = run(hashing(7, 8, 9, 7), segment=segment)
    assert job_of(found).failures() == []
    assert sum(len(record.accesses) for record in found.records) == sum(CALL_WORDS[n] for n in (7, 8, 9, 7))


def test_a_block_is_what_sha_256_says() -> None:
    """A message of one block, padded by hand; `block` takes bytes, and the two others take words."""
    padded = b"abc\x80" + bytes(59) + b"\x18"
    expected = np.frombuffer(hashlib.sha256(b"abc").digest(), dtype=">u4").astype(int).tolist()
    for numbers, order in (((7,), "little"), ((8, 9), "big")):
        data = {DATA: MESSAGE, **{DATA + 4 + 4 * k: word for k, word in enumerate(SHA256_START)}}
        data |= {MESSAGE + k: int.from_bytes(padded[k : k + 4], order) for k in range(0, 64, 4)}  # type: ignore[arg-type]
        code = [word for n in numbers for word in (*asm.li(10, MESSAGE if n == 8 else DATA), *asm.call(n))]
        elf = parse_elf(elf_of([*code, *asm.leave()], data), "abc")
        execution = Execution(elf)
        execution.run()
        assert np.frombuffer(execution.memory(DATA + 4, 32), dtype="<u4").tolist() == expected


MODULI = [0, 1, 2, 3, 1 << 32, (1 << 32) - 1, 1 << 224, SECP256K1, P256, MOST]


@pytest.mark.parametrize(
    ("modulus", "words"),
    [*((m, 8) for m in MODULI), *((m, 12) for m in (0, 1, BLS12_381, 1 << 383, MOST, MOST << 128))],
)
def test_products(modulus: int, words: int) -> None:
    """Corner values modulo corner values: results, and the traces of those whose quotient has as many words."""
    bits = 32 * words
    whole, most = modulus or 1 << bits, (1 << bits) - 1
    cases = ((0, 0, 0), (1, most, 5), (most, most, None), (whole - 1, most, most), (whole - 1, whole - 1, None))
    for x, y, addend in cases:
        image = multiplying(x & most, y & most, addend, modulus, words=words)
        quotient, rest = divmod(x * y + (addend or 0), whole)
        if quotient >> bits:
            with pytest.raises(Trapped):
                run(image)
            continue
        found = run(image)
        assert found.output == [rest % (1 << 32)]
        assert job_of(found).failures() == [], (x, y, addend)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=4),
    st.sampled_from([(8, 0), (12, 0), (12, 128), (12, 127)]),
)
@settings(max_examples=400, deadline=None)
def test_remainders(numbers: list[tuple[int, int, int, int]], size: tuple[int, int]) -> None:
    """The executor's division against Python's."""
    words, shifted = size
    bits = 32 * words
    for small, y, addend, m in numbers:
        x, modulus = small << shifted, m << shifted
        image = multiplying(x, y, addend, modulus, words=words)
        execution = Execution(parse_elf(file_of(image), "product"))
        quotient, rest = divmod(x * y + addend, modulus or 1 << bits)
        if quotient >> bits:
            with pytest.raises(Trap) as trap:
                execution.run()
            assert trap.value.state is not None
            assert trap.value.state.stop is Stop.QUOTIENT
            continue
        execution.run()
        assert execution.memory(RESULT, 4 * words) == rest.to_bytes(4 * words, "little")
        parts = ([n >> 32 * k & 0xFFFFFFFF for k in range(words)] for n in (x, y, addend, modulus))
        arrays = (np.array([part], dtype=np.uint64) for part in parts)
        assert sum(int(w) << 32 * k for k, w in enumerate(quotients(*arrays)[0])) == quotient


@pytest.mark.parametrize(
    "pointers",
    [(X, X, X, X), (X, X, Y, Y), (RESULT, X, X, ADDEND), (Y, X, Y, X), (X + 4, X, Y, X), (FACTORS, X, Y, ADDEND)],
    ids=str,
)
def test_operands_in_one_place(pointers: tuple[int, int, int, int]) -> None:
    """The result may replace whatever the call reads, and operands may be one."""
    for addend in (12345, None):
        for modulus, words in ((SECP256K1, 8), (BLS12_381, 12)):
            found = run(multiplying(7, modulus - 2, addend, modulus, pointers, words=words))
            assert job_of(found).failures() == []


@pytest.mark.parametrize("addend", [FACTORS - 28, FACTORS, FACTORS + 44])
def test_an_addend_over_the_modulus(addend: int) -> None:
    code = [*asm.li(10, FACTORS), *asm.call(11), *asm.leave()]
    data = {FACTORS + 4 * k: pointer for k, pointer in enumerate((RESULT, X, Y, addend))}
    with pytest.raises(Trap, match="overlap"):
        Execution(parse_elf(elf_of(code, data), "overlap")).run()


# -- the tables of a guest --------------------------------------------------------------------------------------------


def test_a_guest_has_the_tables_of_its_calls() -> None:
    assert precompiles_in([]) == ()
    load, ecall = asm.call(7)
    for between, names in ((0, ("sha256",)), (7, ("sha256",)), (8, ())):  # instructions
        words = np.array([load, *between * [asm.imm("addi", 6, 6, 1)], ecall], dtype=np.uint32)
        addresses = 0x10000 + 4 * np.arange(len(words))
        assert precompiles_in([(addresses, words)]) == names
        pieces = [(addresses[:1], words[:1]), (addresses[1:], words[1:])]
        assert precompiles_in(pieces) == precompiles_in(pieces[::-1]) == names
    assert precompiles_in([(np.arange(0x10000, 0x10008, 4), np.array([ecall, load], dtype=np.uint32))]) == ()
    for name, calls in PRECOMPILES.items():
        for number in calls.values():
            image = of_words(*asm.li(10, DATA), *asm.call(number))
            assert Fixed.of(image).precompiles == (name,)
            assert [air.name for air in MACHINES[32].tables_of((name,))] == [
                *(air.name for air in MACHINES[32].tables),
                name,
            ]
    several = of_words(*asm.call(12), *asm.call(11), *asm.call(7))
    assert Fixed.of(several).precompiles == ("sha256", "modular", "modular384")
    assert Fixed.of(of_words(*asm.call(22), *asm.call(21), *asm.call(17))).precompiles == (
        "points",
        "points384",
        "edwards",
    )


def test_names_tell_the_tables() -> None:
    root = bytes(range(32))
    for names in ((), ("sha256",), ("modular384",), ("sha256", "modular"), tuple(PRECOMPILES)):
        guest = Guest(root, 0x10000, 9, 8, names)
        assert Guest.parse(str(guest)) == guest
        assert RiscV(guest=str(guest)).tables == MACHINES[32].tables_of(names)
        assert set(RiscV(guest=str(guest)).optional) >= set(names)
    plain = str(Guest(root, 0x10000, 9, 8))
    for ending in ("-modular-sha256", "-sha256-sha256", "-keccak", "-", "-sha256-"):
        with pytest.raises(UsageError):
            Guest.parse(plain + ending)


def test_a_table_without_a_call_is_absent() -> None:
    """A segment without a call has no row for one, and of a run that has some only the segments with them."""
    found = run(hashing(7, 8), segment=6)
    job = job_of(found)
    present = [[name in main for name in (*PRECOMPILES, "keccak", "keccak_words")] for main in job.main]
    assert present == [
        [bool(len(r.accesses)), *(len(PRECOMPILES) * [False]), bool(len(r.accesses))] for r in found.records
    ]
    assert {flags[0] for flags in present} == {False, True}


@pytest.mark.parametrize("number", [7, 9, 10, 12, 15, 21, 22])
def test_many_calls_end_a_segment(number: int) -> None:
    """No table of theirs has more rows than the largest other one, however densely they are made."""
    data = {DATA: MESSAGE, FACTORS: RESULT, FACTORS + 4: X, FACTORS + 8: Y}
    if number in POINTS:
        data |= {FACTORS + 4 * POINTS[number][3]: 1}  # y of the point that is doubled over and over
    calls = 20_000
    loop = [asm.ECALL, asm.imm("addi", 9, 9, -1)]
    code = [*asm.li(10, FACTORS if number > 9 else DATA), *asm.li(9, calls), asm.imm("addi", 17, 0, number)]
    code += [*loop, asm.branch("bne", 9, 0, -4 * len(loop)), *asm.leave()]
    elf = parse_elf(elf_of(code, data), "many")
    fixed = Fixed.of(elf.image())
    execution = Execution(elf, classes=operation_classes(fixed, elf.program))
    made, heights = 0, list[dict[str, int]]()
    for _ in execution.segments(1 << 20):
        heights.append(log_heights(fixed, execution.usage, 100))
        made += int(execution.usage.calls[number])
    assert made == calls
    assert len(heights) > 1
    named = {"keccak_words", *PRECOMPILES}
    for each in heights:
        assert max(h for name, h in each.items() if name in named) <= max(h for n, h in each.items() if n not in named)
    assert heights[0]["keccak_words"] == 18


def test_words_of_calls_are_those_of_the_tables() -> None:
    for number in (number for calls in PRECOMPILES.values() for number in calls.values()):
        words = 8 if number < 12 else 12
        image = multiplying(1, 1, 1 if number % 2 else None, 3, words=words) if number > 9 else hashing(number)
        if number == ED25519_ADD:
            image = adding(number, (2, 3), (4, 5))
        elif number in POINTS:
            image = adding(number, (2, 3), None if number % 2 else (4, 5), words=POINTS[number][3])
        (record,) = run(image).records
        assert len(record.accesses) == CALL_WORDS[number]


KEYS = {
    "fibonacci": "9764d2728d8da01d9a3b8e06aa3b4392c9ebe714efd4a032a2f936acd91bfb38",
    "json": "93c3155cbb648b9d92427cab7cb6caf6cb02c42d08b2090e89df4f0a97c93524",
    "ecdsa_points": "e931644738b171986667828d5202fe5da3b42443ab0534e8e79c75d4eacf6842",
    "keccak_f": "26999f43fa236ecacd7909d986e26ccac4118fedfbe906d4a83ad7a9c71e9b5a",
}


@pytest.mark.parametrize("name", KEYS)
def test_other_guests_keep_their_keys(name: str, tmp_path: Path) -> None:
    """What they were before there were these calls, and `ecdsa_points` before there was that for Ed25519.

    `json` has a call's number in a7, for another purpose.
    """
    path = tmp_path / "vk"
    done = command("key", "riscv", "--elf", str(GUESTS / f"{name}.elf"), "--queries", "114", "--out", str(path))
    assert done.exit_code == 0, done.output
    assert hashlib.sha256(path.read_bytes()).hexdigest() == KEYS[name]


@pytest.mark.parametrize(
    "image",
    [
        hashing(7, 8, 9),
        multiplying(5, P256 - 1, 9, P256),
        multiplying(BLS12_381 - 1, MOST, MOST, BLS12_381, words=12),
        adding(16, (2, 3), (4, 5)),
        adding(21, (2, 3), words=12),
        adding(22, (2, 3), (4, 5)),
    ],
    ids=list(PRECOMPILES),
)
def test_a_proof(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "guest.elf"
    path.write_bytes(file_of(image))
    job = proven(RiscV(elf=str(path), segment=64))
    verify(*job)
