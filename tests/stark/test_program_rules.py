"""The rules of the programs' tables: right traces follow them, and no cell can be changed without breaking one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from Crypto.Hash import keccak

from distprove.stark import logup
from distprove.stark.air import Air, CompiledAir, Table
from distprove.stark.air.check import selectors_on_trace
from distprove.stark.example import fixed_columns, placed
from distprove.stark.field import P
from distprove.stark.program import whole_trace
from distprove.stark.programs import keccak_rounds, load_program
from distprove.stark.programs.keccak_f import SUMMED, KeccakF
from distprove.stark.programs.keccak_rounds import COLUMNS, ROUNDS, WIDTH, blocks_for, constrain_rounds, fill_rounds
from kernels.cpu.backend import CpuBackend
from tests.support.air_examples import compile_air

Z, BETA, ALPHA = (3, 1, 4), (1, 5, 9), (2, 6, 5)


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    with CpuBackend(2) as backend:
        yield backend


class RoundsAir(Air):
    name = "rounds"
    main = COLUMNS

    def define(self, t: Table) -> None:
        constrain_rounds(t)


@cache
def compiled_rounds() -> CompiledAir:
    return compile_air(RoundsAir(), {}, {})


def broken_rows(
    backend: CpuBackend, air: CompiledAir, main: np.ndarray, public: Sequence[int] = (), fixed: np.ndarray | None = None
) -> set[int]:
    """Rows on which the folded constraints are not zero. LogUp's columns, if any, are the prover's own."""
    n = main.shape[1]
    aux, terminals = None, (None, None)
    if air.interactions is not None:
        scalars = logup.interaction_scalars(air, public, logup.BusChallenges((Z, BETA), (Z, BETA)))
        aux, terminals = logup.aux_columns(backend, air, fixed, main, scalars)
    scalars = logup.constraint_scalars(
        air, public, logup.BusChallenges((Z, BETA), (Z, BETA)), terminals, n=n, alpha=ALPHA
    )
    folded = backend.goldilocks.evaluate(air.constraints, [fixed, main, aux, selectors_on_trace(n)], scalars)
    return set(np.flatnonzero(folded.any(axis=(0, 1))).tolist())


def plain_keccak_f(lanes: list[int]) -> list[int]:
    """FIPS 202's Keccak-f[1600] on Python's integers, written out as in the standard's pseudo-code."""

    def rotate(value: int, by: int) -> int:
        return (value << by % 64 | value >> (64 - by) % 64) % (1 << 64)

    a = {(x, y): lanes[x + 5 * y] for x in range(5) for y in range(5)}
    register = 1
    for _ in range(24):
        c = [a[x, 0] ^ a[x, 1] ^ a[x, 2] ^ a[x, 3] ^ a[x, 4] for x in range(5)]
        a = {(x, y): v ^ c[(x - 1) % 5] ^ rotate(c[(x + 1) % 5], 1) for (x, y), v in a.items()}
        x, y, current = 1, 0, a[1, 0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            a[x, y], current = rotate(current, (t + 1) * (t + 2) // 2), a[x, y]
        a = {(x, y): v ^ (~a[(x + 1) % 5, y] & a[(x + 2) % 5, y]) for (x, y), v in a.items()}
        for j in range(7):
            if register & 1:
                a[0, 0] ^= 1 << ((1 << j) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
    return [a[x, y] for y in range(5) for x in range(5)]


def test_plain_keccak_f_is_that_of_a_library() -> None:
    """A block of one message, padded, is permuted once."""
    padded = b"abc\x01".ljust(135, b"\0") + b"\x80" + bytes(64)
    after = plain_keccak_f(np.frombuffer(padded, dtype="<u8").tolist())
    assert np.array(after[:4], dtype="<u8").tobytes() == keccak.new(data=b"abc", digest_bits=256).digest()


def round_trace(backend: CpuBackend, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The trace and the states of permutations of random states."""
    states = np.random.default_rng(rows).integers(1 << 64, size=(25, blocks_for(rows)), dtype=np.uint64)
    columns = np.full((WIDTH, rows), P - 1, dtype=np.uint64)  # whatever was there before
    fill_rounds(columns, states, backend)
    return columns, states


@pytest.mark.parametrize("rows", [32, 128, 256])
def test_rounds(backend: CpuBackend, rows: int) -> None:
    columns, states = round_trace(backend, rows)
    out = sum(COLUMNS[name] for name in ("state", "parity", "theta"))
    for i in range(rows // ROUNDS):
        words = columns[out : out + 50, 24 * i + 23].tolist()
        lanes = [low + (high << 32) for low, high in zip(words[::2], words[1::2], strict=True)]
        assert lanes == plain_keccak_f(states[:, i].tolist())
    assert broken_rows(backend, compiled_rounds(), columns) == set()


def test_no_cell_of_a_round_can_be_changed(backend: CpuBackend) -> None:
    """Every column, bits flipped and words moved by one, at every round: a constraint fails there or a row before."""
    rows = 4096
    columns, _ = round_trace(backend, rows)
    spots = np.arange(1, rows - 1, 3)
    is_bit = np.arange(WIDTH) < sum(COLUMNS[name] for name in ("state", "parity", "theta"))
    is_bit[-COLUMNS["chi"] - COLUMNS["round"] :] = True
    for batch in np.array_split(np.arange(WIDTH), 2):
        changed = columns.copy()
        at = spots[: len(batch)]
        changed[batch, at] = np.where(
            is_bit[batch], changed[batch, at] ^ np.uint64(1), changed[batch, at] + np.uint64(1)
        )
        broken = broken_rows(backend, compiled_rounds(), changed)
        missed = [int(c) for c, r in zip(batch, at, strict=True) if not {r - 1, r} & broken]
        assert missed == []


def test_rounds_may_not_hold_larger_numbers(backend: CpuBackend) -> None:
    """A bit of 2 with its neighbours made to fit sums is no bit: every bit column is held to 0 and 1."""
    columns, _ = round_trace(backend, 4096)
    bits = sum(COLUMNS[name] for name in ("state", "parity", "theta"))
    for batch in np.array_split(np.arange(bits), 2):
        changed = columns.copy()
        at = np.arange(1, 4095, 3)[: len(batch)]
        changed[batch, at] = P - 1
        assert set(at.tolist()) <= broken_rows(backend, compiled_rounds(), changed)


def test_degree_and_width() -> None:
    air = compiled_rounds()
    assert (air.degree, air.main_width, air.quotient_chunks) == (3, 2321, 2)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fibonacci", {"rows": 32}),
        ("wide-fibonacci", {"rows": 16, "width": 6}),
        ("keccak-f", {"permutations": 4, "first": 7}),
        ("range-check", {"values": 50, "bits": 3}),
        ("file-root", {}),
    ],
)
def test_no_other_cell_can_be_changed(
    backend: CpuBackend, tmp_path: Path, name: str, arguments: dict[str, int | str]
) -> None:
    """Each column that is not a round's, changed in its first, a middle and its last row: a constraint fails, or the
    table puts something else on a bus. Only what a row does not use may be anything.
    """
    if name == "file-root":
        (tmp_path / "file").write_bytes(bytes(range(256)) * 2)
        arguments = {"file": str(tmp_path / "file")}
    program = load_program(name, arguments)
    inputs, fixed = program.inputs(program.slices(1)[0].source), program.preprocessed()
    trace = whole_trace(program, inputs, placed(fixed_columns(program), backend), backend)
    for air, main in zip(program.compiled_tables, trace.main, strict=True):
        assert isinstance(main, np.ndarray)
        start = WIDTH if main.shape[0] > WIDTH else 0
        for column in range(start, main.shape[0]):
            for row in (0, main.shape[1] // 2, main.shape[1] - 1):
                if UNUSED.get(air.name, lambda *_: False)(main, column, row):
                    continue
                changed = main.copy()
                changed[column, row] = (int(changed[column, row]) + 1) % P
                assert noticed(backend, air, main, changed, trace.public, fixed.get(air.name)), (air.name, column, row)


UNUSED = {
    "edge": lambda main, column, row: column >= 3 and main[2, row] == 0,  # a digest that is not passed up
    "values": lambda main, column, row: column < 2 and main[2, row] == 0,  # limbs of padding
}


def noticed(
    backend: CpuBackend,
    air: CompiledAir,
    honest: np.ndarray,
    changed: np.ndarray,
    public: Sequence[int],
    fixed: np.ndarray | None,
) -> bool:
    """Whether a constraint fails, or what the table puts on its buses is another sum."""
    if broken_rows(backend, air, changed, public, fixed):
        return True
    if air.interactions is None:
        return False
    scalars = logup.interaction_scalars(air, public, logup.BusChallenges((Z, BETA), (Z, BETA)))
    return (
        logup.aux_columns(backend, air, fixed, honest, scalars)[1]
        != (logup.aux_columns(backend, air, fixed, changed, scalars)[1])
    )


def test_keccak_f_adds_up(backend: CpuBackend) -> None:
    program = KeccakF(3, 9)
    publics = [program.trace(program.inputs(s.source), backend).public for s in program.slices(2)]
    for start, public in zip((9, 12), publics, strict=True):
        words = np.zeros(SUMMED, dtype=object)
        for number in range(start, start + 3):
            after = plain_keccak_f([number] + [0] * 24)
            words += np.array(after[:4], dtype="<u8").view("<u4").astype(object)
        assert public == (start, start + 3, *words.tolist())


def test_round_constants_are_the_standards() -> None:
    assert keccak_rounds.ROUND_CONSTANTS[0] == 1
    assert keccak_rounds.ROUND_CONSTANTS[1] == 0x8082
    assert keccak_rounds.ROUND_CONSTANTS[23] == 0x8000000080008008
