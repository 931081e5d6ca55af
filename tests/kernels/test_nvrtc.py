"""Every CUDA kernel compiles, for every field and group; which ones spill registers is known. Needs NVRTC, no GPU."""

from __future__ import annotations

import os

import pytest

from kernels.compiler import SOURCES, KernelRow, list_kernels
from kernels.cuda_sources import all_sources

pytestmark = pytest.mark.timeout(1500)  # some minutes of compilation on two busy cores, in the fixture
ARCH = os.environ.get("DISTPROVE_TEST_ARCH", "sm_90")

MAY_SPILL = {
    "ntt_pass": 16,  # six blocks a multiprocessor are worth a few words: measured
}
"""Bytes that a thread of a kernel may spill, where spilling was measured and is worth it."""


@pytest.fixture(scope="module")
def rows() -> list[KernelRow]:
    return list_kernels(ARCH, all_sources())


def test_every_source_file_is_listed() -> None:
    assert {source.name for source in all_sources()} == {path.stem for path in SOURCES.glob("*.cu")}


def test_every_kernel_compiles_and_fits(rows: list[KernelRow]) -> None:
    assert {row.source for row in rows} == {source.title for source in all_sources()}
    for row in rows:
        assert 0 < row.resources.registers <= 255, row
        assert row.resources.shared <= 48 << 10, row


def test_no_kernel_spills_unexpectedly(rows: list[KernelRow]) -> None:
    spills = {
        (row.source, row.resources.name): row.resources.spill_stores
        for row in rows
        if row.resources.spill_stores > MAY_SPILL.get(row.resources.name, 0)
    }
    assert not spills
