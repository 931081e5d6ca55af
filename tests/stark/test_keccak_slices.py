"""The narrow table of Keccak-f: what a plain library hashes, a table that calls it, and forged rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest
from Crypto.Hash import keccak

from distprove.errors import InvalidProof
from distprove.stark.air import Air, Bus, Table, trace_air
from distprove.stark.air.bounds import unconfirmed
from distprove.stark.air.check import check_trace
from distprove.stark.params import Parameters
from distprove.stark.program import Trace
from distprove.stark.programs.keccak_rounds import LANES, RATE_LANES, ROUNDS
from distprove.stark.programs.keccak_slices import (
    COLUMNS,
    CONSTANT_PLACES,
    FLAGS,
    MOVED,
    PARTS,
    ROWS_EACH,
    SLICES,
    START,
    WIDTH,
    WORDS,
    blocks_for,
    constrain_slices,
    fill_slices,
    rows_for,
    total,
)
from distprove.stark.statement import Statement
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from tests.stark.test_proofs import check, prove_job
from tests.support import keccak_vectors
from tests.support.air_examples import compile_air
from tests.support.plain_keccak import keccak_f
from tests.support.stark_programs import WithoutInputs

PARAMS = Parameters(log_blowup=2, queries=7, grinding_bits=1, security_bits=1, log_final=1)
USED = 2
KECCAK = Bus("keccak", 3 + LANES)
"""(call, end, part, 25 numbers): bits 16 part to 16 part + 15 of each lane, of the input where `end` is 0 and of the
result where it is 1. Whoever calls receives the four parts of either, all with one `call`, whichever it is."""


class KeccakTable(Air):
    """A table of permutations, each of which sends its input and its result on `KECCAK`.

    The program has the buses `KECCAK` and `MOVED`. This table numbers the calls, so whoever receives both ends of one
    call has input and result of one permutation. What is received has 16 bits, and needs no range check.
    """

    name = "keccak"
    main: Mapping[str, int] = MappingProxyType({**COLUMNS, **FLAGS, "on": 1, "limbs": LANES})

    def define(self, t: Table) -> None:
        slices = constrain_slices(t, ("on",))
        for lane, limb in enumerate(t.this.limbs):
            t.always(limb - slices.number(lane), f"limb {lane}")
        part = total(flag * s for s, flag in enumerate(t.this.slices))
        call = t.this.stamp - ROUNDS * slices.closes
        times = slices.begins + slices.closes
        t.boolean(times)
        t.send(KECCAK, [call, slices.closes, part, *t.this.limbs], times=times)


def keccak_table(backend: Backend, states: Array) -> Array:
    """The columns of `KeccakTable` for permutations of these initial states, lanes (25, n) in the backend's memory."""
    used = states.shape[1]
    rows = rows_for(used)
    padded = backend.zeros((LANES, blocks_for(rows)))
    padded[:, :used] = states
    columns = backend.zeros((WIDTH + len(FLAGS) + 1 + LANES, rows))
    fill_slices(columns, padded, used, backend)
    columns[WIDTH + len(FLAGS), : ROWS_EACH * used] = 1
    first = WIDTH + len(FLAGS) + 1
    bits = columns[: SLICES * LANES]
    for lane in range(LANES):
        y, x = divmod(lane, 5)
        for j in range(SLICES):
            a, b, c = (bits[SLICES * ((x + i) % 5 + 5 * y) + j] for i in range(3))
            bit = a ^ (c & ~b)
            if lane == 0 and j in CONSTANT_PLACES:
                bit = columns[START["iota"] + CONSTANT_PLACES.index(j)]
            columns[first + lane] |= bit << np.uint64(j)
    return columns


class Caller(Air):
    """A row for each part of a call: 16 bits of each lane of the input and of the result."""

    main: Mapping[str, int] = MappingProxyType({"on": 1, "call": 1, "part": 1, "before": LANES, "after": LANES})

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.on)
        for end, limbs in enumerate((row.before, row.after)):
            t.receive(KECCAK, [row.call, end, row.part, *limbs], times=row.on, at_most=1)


class Calls(WithoutInputs):
    """Messages of one block, hashed by a table that another one calls."""

    name = "calls"
    arguments: Mapping[str, int | str] = MappingProxyType({})
    tables: Sequence[Air] = (KeccakTable(), Caller())
    buses: Sequence[Bus] = (MOVED, KECCAK)
    statement = Statement(public=())

    def __init__(self, states: np.ndarray, results: np.ndarray) -> None:
        self.states, self.results = states, results

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        calls = self.states.shape[1]
        caller = np.zeros((3 + 2 * LANES, 8), dtype=np.uint64)
        for call in range(calls):
            for part in range(PARTS):
                row = PARTS * call + part
                caller[:3, row] = 1, 25 * call, part
                for first, lanes in ((3, self.states), (3 + LANES, self.results)):
                    caller[first : first + LANES, row] = lanes[:, call] >> np.uint64(16 * part) & np.uint64(0xFFFF)
        return Trace([keccak_table(backend, self.states), caller], ())


DEFINITIONS = [trace_air(air, {}) for air in Calls.tables]


def messages() -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """Initial states and results of two permutations, and the digests that a library gives of their messages."""
    states, digests = np.zeros((LANES, USED), dtype=np.uint64), []
    for i in range(USED):
        text = np.random.default_rng(i).integers(0, 256, 100 + i, dtype=np.uint8).tobytes()
        block = bytearray(text.ljust(8 * RATE_LANES, b"\0"))
        block[len(text)] ^= 1
        block[-1] ^= 0x80
        states[:RATE_LANES, i] = np.frombuffer(block, dtype="<u8")
        digests.append(keccak.new(data=text, digest_bits=256).digest())
    results = np.array([keccak_f([int(v) for v in states[:, i]]) for i in range(USED)], dtype=np.uint64).T
    return states, results, digests


@pytest.fixture(scope="module")
def backend():
    with CpuBackend(2) as backend:
        yield backend


def failures(main: Sequence[np.ndarray]) -> list[str]:
    return [str(failure) for failure in check_trace(DEFINITIONS, main)]


def test_a_plain_library_agrees(backend: CpuBackend) -> None:
    states, results, digests = messages()
    assert [results[:4, i].astype("<u8").tobytes() for i in range(USED)] == digests
    assert failures(Calls(states, results).trace({}, backend).main) == []


def test_its_shape() -> None:
    buses = {MOVED.name: 1, KECCAK.name: 2}
    compiled = compile_air(KeccakTable(), {}, buses)
    assert (compiled.degree, compiled.quotient_chunks) == (5, 4)
    assert not unconfirmed(trace_air(KeccakTable()))
    moved = [p for words in WORDS for pieces in words for p in pieces]
    assert sum(p.length for p in moved) == 16 * LANES
    assert all(sum(p.length for p in pieces) <= 63 for words in WORDS for pieces in words)


def test_proofs(backend: CpuBackend) -> None:
    states, results, _ = messages()
    check(*prove_job(Calls(states, results), 1, PARAMS, backend))
    results[3, 1] ^= np.uint64(1 << 40)
    with pytest.raises(InvalidProof, match="bus"):
        check(*prove_job(Calls(states, results), 1, PARAMS, backend))


@pytest.mark.parametrize("rows", [32, 256, 1 << 10])
def test_rows(rows: int, backend: CpuBackend) -> None:
    states = np.random.default_rng(rows).integers(0, 2**64, (LANES, blocks_for(rows)), dtype=np.uint64)
    expected, columns = np.empty((WIDTH, rows), dtype=np.uint64), np.full((WIDTH + 3, rows), 7, dtype=np.uint64)
    keccak_vectors.fill_slices(expected, states, backend)
    fill_slices(columns, states, 0, backend)
    assert np.array_equal(columns[:WIDTH], expected)
    assert (columns[WIDTH : WIDTH + 2] == 0).all()
    assert (columns[WIDTH + 2] == 7).all()


@pytest.mark.parametrize("column", [*COLUMNS, "sends", "takes", "on", "limbs"])
def test_a_cell_is_changed(column: str, backend: CpuBackend) -> None:
    """Each column is held, between the stages and in the result."""
    states, results, _ = messages()
    main = Calls(states, results).trace({}, backend).main
    more = {"sends": WIDTH, "takes": WIDTH + 1, "on": WIDTH + 2, "limbs": WIDTH + 3}
    random = np.random.default_rng(0)
    width = {**COLUMNS, "limbs": LANES}.get(column, 1)
    for row in (50, 2 * ROWS_EACH - 2):
        at = {**START, **more}[column] + int(random.integers(width))
        changed = main[0].copy()
        changed[at, row] = 1 - changed[at, row] if changed[at, row] < 2 else changed[at, row] - 1
        assert failures([changed, main[1]]), (column, at, row)


def forged(states: np.ndarray, change: np.ndarray, backend: CpuBackend) -> np.ndarray:
    """A table whose second permutation goes on from another state than its input: all rows but the first stage's."""
    honest, other = keccak_table(backend, states), keccak_table(backend, states ^ change)
    rows = slice(ROWS_EACH + PARTS, 2 * ROWS_EACH)
    honest[:WIDTH, rows] = other[:WIDTH, rows]
    honest[WIDTH + 3 :, rows] = other[WIDTH + 3 :, rows]
    return honest


def test_a_state_is_replaced_between_stages(backend: CpuBackend) -> None:
    states, results, _ = messages()
    change = np.zeros_like(states)
    change[0, 1] = 1
    other = np.array(keccak_f([int(v) for v in states[:, 1] ^ change[:, 1]]), dtype=np.uint64)
    assert failures([keccak_table(backend, states), Calls(states, results).trace({}, backend).main[1]]) == []
    results[:, 1] = other
    caller = Calls(states, results).trace({}, backend).main[1]
    found = failures([forged(states, change, backend), caller])
    assert found
    assert all(MOVED.name in each for each in found), found


def test_the_last_permutation_is_not_cut_off(backend: CpuBackend) -> None:
    """A table whose last permutation in use ends beyond it sends what nobody receives."""
    rows = rows_for(USED)
    states, results, _ = messages()
    padded = np.concatenate((states, states[:, :1]), axis=1)
    columns = np.zeros((WIDTH + 3 + LANES, rows), dtype=np.uint64)
    full = keccak_table(backend, padded)
    columns[:] = full[:, :rows]
    found = failures([columns, Calls(states, results).trace({}, backend).main[1]])
    assert any("cut off" in each for each in found), found
