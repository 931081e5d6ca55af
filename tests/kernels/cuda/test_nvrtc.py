"""Every CUDA kernel compiles, for every field and group; which ones spill registers is known. Needs NVRTC, no GPU."""

from __future__ import annotations

import os

import pytest

from kernels.cuda.compiler import KernelRow, list_kernels
from kernels.cuda.sources import all_sources
from kernels.source import SOURCES

pytestmark = pytest.mark.timeout(1500)  # some minutes of compilation on two busy cores, in the fixture
ARCH = os.environ.get("DISTPROVE_TEST_ARCH", "sm_90")

LARGEST_GROUP = "CURVE=Bls12381, GROUP=2"
MAY_SPILL = {
    "msm_accumulate": 1024,  # a sum and a point are 144 of the 255 registers
    "msm_add_pairs": 288,  # two points, an inverse and a product are 144 of the 255 registers
    "msm_merge": 64,
    "msm_reduce": 224,  # an addition by four lanes: 2^16 takes 2.0 ms on an H200, by one thread, which spilled 64, 2.4
    "point_double": 128,
    "point_normalise": 64,
    "points_check": 64,
    "fixed_base_table": 64,
    "fixed_base_multiply": 64,
    "multiply_add": 64,
    "sparse_multiples": 64,
    "sparse_sums": 64,
}
"""Bytes that a thread of these kernels may spill over the largest group, whose sums are 96 words. No other spills."""


MEASURED = {
    "ntt_pass": 8,
    "merkle_leaves": 24,
    "lde_strided_forward": 16,
    "lde_strided_inverse": 16,
    "msm_merge": 64,
    "ml_layer_round": 80,  # without, each product of a row reduced by itself, it took a sixth longer
    "msm_sum": 64,  # 12 over G1 of BLS12-381, whose MSMs an ordinate reduced once makes 2 % faster
}
"""Bytes that a thread of these kernels may spill over any group or field: on an H200 the shape that spills them was the
fastest, because more threads, or lanes that share an addition, outweigh them."""


TOWER = {"miller_loops": 48, "target_products": 16}
"""An element of Fq12 alone is 96 or 144 words; it lies in local memory anyway, over both curves."""


def may_spill(row: KernelRow) -> int:
    if row.resources.name in TOWER:
        return TOWER[row.resources.name]
    if row.resources.name in MEASURED:
        return MEASURED[row.resources.name]
    return MAY_SPILL.get(row.resources.name, 0) if LARGEST_GROUP in row.source else 0


@pytest.fixture(scope="module")
def rows() -> list[KernelRow]:
    return list_kernels(ARCH, all_sources())


def test_every_source_file_is_listed() -> None:
    assert {source.name for source in all_sources() if not source.text} == {path.stem for path in SOURCES.glob("*.cu")}


def test_every_kernel_compiles_and_fits(rows: list[KernelRow]) -> None:
    assert {row.source for row in rows} == {source.title for source in all_sources()}
    for row in rows:
        assert 0 < row.resources.registers <= 255, row
        assert row.resources.shared <= 48 << 10, row


def test_no_kernel_spills_unexpectedly(rows: list[KernelRow]) -> None:
    spills = {
        (row.source, row.resources.name): row.resources.spill_stores
        for row in rows
        if row.resources.spill_stores > may_spill(row)
    }
    assert not spills
