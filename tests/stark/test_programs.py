"""The programs that ship: what they prove, end to end, on the reference kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.stark.counting import Counting
from distprove.stark.field import P
from distprove.stark.keyfile import key_of, shipped_key
from distprove.stark.params import Parameters
from distprove.stark.program import Trace
from distprove.stark.programs import PROGRAMS, load_program
from distprove.stark.programs.fibonacci import advance
from distprove.stark.programs.keccak_f import KeccakF
from distprove.stark.programs.keccak_rounds import WIDTH
from distprove.stark.programs.range_check import RangeCheck
from distprove.stark.system import StarkSystem
from kernels.cpu.backend import CpuBackend
from tests.stark.test_proofs import check, prove_job
from tests.support.stark_reference import ReferenceBackend


def sequence(pair: tuple[int, int], steps: int) -> tuple[int, int]:
    for _ in range(steps):
        pair = pair[1], sum(pair) % P
    return pair


@pytest.mark.parametrize("steps", [1, 2, 64])
def test_advancing_by_squaring(steps: int) -> None:
    assert advance((5, 8), steps) == sequence((5, 8), steps)


def test_fibonacci() -> None:
    key, names, publics, proofs = prove_job(load_program("fibonacci", {"rows": "2^4", "first": 3}), 3)
    check(key, names, publics, proofs)
    assert publics[0][:2] == (3, 1)
    assert publics[2][2:] == sequence((3, 1), 48)


def test_a_cut_chain_is_noticed() -> None:
    """Two honest partitions of other sequences, committed together, do not make one sequence."""
    program = load_program("fibonacci", {"rows": 16})
    slices = program.slices(3)
    program.slices = lambda partitions: [slices[0], slices[2]]  # type: ignore[method-assign]
    with pytest.raises(InvalidProof, match="start of partition 1 is not end"):
        check(*prove_job(program, 2))


def test_tables_that_all_programs_of_a_class_have_are_compiled_once() -> None:
    one, other = (load_program("fibonacci", {"rows": rows}) for rows in (16, 32))
    assert one.compiled_tables is other.compiled_tables
    assert one.definitions[0] is other.definitions[0]
    narrow, wide = (load_program("wide-fibonacci", {"rows": 16, "width": width}) for width in (3, 4))
    assert narrow.definitions[0].main != wide.definitions[0].main


def test_wide_fibonacci() -> None:
    program = load_program("wide-fibonacci", {"rows": 8, "width": 5})
    check(*prove_job(program, 2))
    trace = program.trace(program.inputs(program.slices(1)[0].source), ReferenceBackend())
    for row in np.asarray(trace.main[0]).T.tolist():
        assert all(row[i + 2] == (row[i] ** 2 + row[i + 1] ** 2) % P for i in range(3))


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("keccak-f", {"permutations": 2, "first": 5}, {"states": "5 to 8"}),
        ("range-check", {"values": 20, "bits": 4}, {"values": "40", "each below": "256"}),
        ("wide-fibonacci", {"rows": 8}, {"computed right": "16 rows of 32 columns, each from its first two"}),
        ("fibonacci", {"rows": 4}, {"starts with": "0, 1", "after 8 steps": "21, 34 modulo p"}),
    ],
)
def test_on_the_cpu(name: str, arguments: dict[str, int | str], said: dict[str, str]) -> None:
    program = load_program(name, arguments)
    with CpuBackend(2) as backend:
        key, names, publics, proofs = prove_job(program, 2, backend=backend)
    check(key, names, publics, proofs)
    assert [p.log_heights for p in proofs] == list(program.log_heights(2))
    assert said.items() <= program.explain(publics, [p.log_heights for p in proofs]).items()


def test_every_program_says_what_it_takes() -> None:
    for name, entry in PROGRAMS.items():
        assert entry.name == name
        assert entry.help.endswith(".")
        program = entry.make({}, proving=False)
        assert program.name == name
        assert set(program.arguments) <= {a.name for a in entry.arguments}
        assert entry.make(program.arguments, proving=False).arguments == program.arguments


class Forged(RangeCheck):
    """The range check with its inputs in the hands of an attacker, who counts for himself."""

    counting = Counting()

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        values = super().inputs(source)["values"]
        limbs = np.bincount(values[:2, : self.values].reshape(-1).astype(np.int64), minlength=1 << self.bits)
        times = limbs.astype(np.uint64)
        self.tamper(values, times)
        return {"values": values, "limbs": times[None]}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([inputs["values"], inputs["limbs"]], super().trace(inputs, backend).public)

    def tamper(self, values: np.ndarray, times: np.ndarray) -> None: ...


def test_range_check() -> None:
    """The sum is that of the values, and the honest inputs of the forgeries below pass."""
    program = Forged(5, 4)
    job = prove_job(program, 1)
    check(*job)
    low, high, on = program.inputs(program.slices(1)[0].source)["values"][:3]
    assert job[2] == [(5, int((low + 16 * high).sum()))]
    assert on.tolist() == [1] * 5 + [0] * 3


def test_a_limb_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """(low + 16, high - 1) is the same value; p - 1 would be a negative one."""

    def tamper(self: Forged, values: np.ndarray, times: np.ndarray) -> None:
        low, high = values[:2, 0].tolist()
        values[0, 0], values[1, 0] = low + 16, (high - 1) % P
        times[low] -= np.uint64(1)
        times[high] -= np.uint64(1)

    monkeypatch.setattr(Forged, "tamper", tamper)
    with pytest.raises(InvalidProof, match="local buses"):
        check(*prove_job(Forged(5, 4), 1))


def test_padding_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value looked up on a padding row would be in neither the count nor the sum."""

    def tamper(self: Forged, values: np.ndarray, times: np.ndarray) -> None:
        values[2, 6] = 1
        times[0] += np.uint64(2)

    monkeypatch.setattr(Forged, "tamper", tamper)
    with pytest.raises(InvalidProof, match="constraints of table values"):
        check(*prove_job(Forged(5, 4), 1))


@pytest.mark.parametrize("column", ["on", "begin"])
def test_keccak_f_padding_that_counts(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """A permutation beyond the last, or the one cut off by the table's end, cannot be counted."""
    honest = KeccakF.trace

    def forged(self: KeccakF, inputs: Mapping[str, Any], backend: Any) -> Trace:
        trace = honest(self, inputs, backend)
        offset = WIDTH + ("on", "begin").index(column)
        trace.main[0][offset, 24 * 3 : 24 * 4 if column == "on" else 24 * 3 + 1] = 1
        return trace

    monkeypatch.setattr(KeccakF, "trace", forged)
    with CpuBackend(2) as backend, pytest.raises(InvalidProof, match="constraints of table keccak-f"):
        check(*prove_job(KeccakF(3), 1, backend=backend))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fibonaci", {}, "did you mean `fibonacci`"),
        ("fibonacci", {"row": 8}, "did you mean `rows`"),
        ("fibonacci", {"rows": 9}, "power of two"),
        ("fibonacci", {"rows": "many"}, "integer"),
        ("fibonacci", {"first": P}, "first must be"),
        ("fibonacci", {"rows": -1}, "rows must be a power of two from 1 to"),
        ("fibonacci", {"rows": 1 << 60}, "rows must be a power of two from 1 to"),
        ("file-root", {"layout": "broad", "file": "f"}, "layout must be wide or narrow"),
        ("riscv", {"segment": 3, "elf": "f"}, "segment must be a power of two from 2 to 2097152"),
        ("riscv", {"calls": "sp2", "elf": "f"}, "calls must be empty or sp1"),
        ("wide-fibonacci", {"width": 2}, "width"),
        ("keccak-f", {"permutations": 0}, "permutations must be"),
        ("keccak-f", {"first": 1 << 32}, "first must be"),
        ("range-check", {"bits": 17}, "bits must be"),
        ("range-check", {"values": "2^40"}, "values must be"),
        ("file-root", {"path": "x"}, "no argument path"),
        ("no_such_module:Thing", {}, "no_such_module"),
        ("distprove.errors:UsageError", {}, "not a class of"),
    ],
)
def test_bad_arguments(name: str, arguments: dict[str, int | str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_program(name, arguments)


def test_a_verifier_makes_a_shipped_key_once_and_each_its_own() -> None:
    params = Parameters(1, 20, 0, 1)
    named = StarkSystem(load_program("fibonacci", {"rows": 8}), params, 1).verification_key()
    key, program = shipped_key(named)
    assert key.digest == key_of(load_program("fibonacci", {"rows": 8}), params).digest
    assert program.compiled_tables is key.tables
    assert shipped_key(dict(named))[0] is key
    others = [
        {**named, "arguments": {**named["arguments"], "rows": 16}},
        {**named, "params": replace(params, queries=21).to_record()},
    ]
    assert len({key.digest, *(shipped_key(other)[0].digest for other in others)}) == 3
    with pytest.raises(FormatError, match="rows must be"):
        shipped_key({**named, "arguments": {"rows": 9}})
    with pytest.raises(FormatError, match="log_blowup must be"):
        shipped_key({**named, "params": {**named["params"], "log_blowup": 0}})
