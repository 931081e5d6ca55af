"""What traces of OpenVM violate, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from distprove.errors import InvalidProof, UsageError
from distprove.stark.openvm import diagnosis
from distprove.stark.openvm.diagnosis import fault_of
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.prover import prove
from distprove.stark.openvm.traces import AirTrace, read_traces
from distprove.stark.openvm.verifier import verify
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from tests.support.openvm_golden import GOLDEN, NAMES, key_of


def traces_of(name: str) -> tuple[AirTrace, ...]:
    return read_traces(GOLDEN / name / "traces.bin", key_of(name))


def changed(trace: AirTrace, column: int, row: int) -> AirTrace:
    """The trace with one more in a cell of the common part."""
    common = trace.common.copy()
    common[column, row] += 1
    return replace(trace, common=common)


@pytest.mark.parametrize("block", [1, 1 << 22])
@pytest.mark.parametrize("name", NAMES)
def test_the_traces_of_their_prover_violate_nothing(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "BLOCK_CELLS", block)
    assert fault_of(key_of(name), traces_of(name)) is None


@pytest.mark.parametrize("block", [1, 50, 1 << 22])
def test_a_constraint_and_its_row_are_named(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 5's left value is that of row 4's right one, and makes row 6's right one."""
    monkeypatch.setattr(diagnosis, "BLOCK_CELLS", block)
    key, (trace,) = key_of("fibonacci"), traces_of("fibonacci")
    fault = fault_of(key, [changed(trace, 0, 5)])
    assert fault is not None
    assert fault.startswith("AIR 0, Fibonacci: constraint ")
    assert fault.endswith("is not zero in row 4")
    false_end = replace(trace, public_values=(*trace.public_values[:2], 988))
    last = f"AIR 0, Fibonacci: constraint 4 (node {key.airs[0].graph.constraints[4]}) is not zero in row 15"
    assert fault_of(key, [false_end]) == last


def test_a_violation_of_several_rows_is_counted() -> None:
    """One more in each left value, the first public value too: only the steps from row to row are false."""
    key, (trace,) = key_of("fibonacci"), traces_of("fibonacci")
    common = trace.common.copy()
    common[0] += 1
    fault = fault_of(key, [replace(trace, common=common, public_values=(1, *trace.public_values[1:]))])
    assert fault is not None
    assert fault.endswith("is not zero in row 0 and 14 more rows")


@pytest.mark.parametrize("name", ["interactions", "short", "stacked"])
def test_a_fault_is_found_just_where_the_verifier_refuses(name: str, cpu: CpuBackend) -> None:
    """A changed cell may be one that nothing reads, or a message that a row of multiplicity zero does not send."""
    key, traces, refused = key_of(name), traces_of(name), 0
    for place, trace in enumerate(traces):
        for column in sorted({0, len(trace.common) - 1}):
            for row in sorted({0, trace.height // 2, trace.height - 1}):
                wrong = [*traces[:place], changed(trace, column, row), *traces[place + 1 :]]
                fault = fault_of(key, wrong)
                refused += fault is not None
                assert (fault is None) == verifies(key, wrong, cpu), (place, column, row, fault)
    assert refused, "no change was false"


def verifies(key: OpenVmKey, traces: Sequence[AirTrace], cpu: CpuBackend) -> bool:
    try:
        verify(key, prove(cpu.openvm, key, traces, Steps()))
    except (InvalidProof, UsageError):
        return False
    return True


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=1) as backend:
        yield backend


def test_a_bus_names_interaction_and_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several buses, one that cannot balance alone: a trace whose partner is absent."""
    key, traces = key_of("interactions"), traces_of("interactions")
    fault = fault_of(key, traces[:1])
    assert fault is not None
    assert fault.startswith("bus ")
    assert f"AIR {traces[0].air}, {key.airs[traces[0].air].name}: interaction " in fault
    assert "in row " in fault
    monkeypatch.setattr(diagnosis, "MOST_WORDS", 0)
    assert fault_of(key, traces[:1]) is None, "a bus of more words is left out"
