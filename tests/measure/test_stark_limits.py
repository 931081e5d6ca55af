"""The least work of a proof's stages: counted against trees that are hashed, and against the formulas' own parts."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.measure import stark_limits
from distprove.measure.stark_limits import Rates, stage_limits, tree_permutations
from distprove.stark.merkle import TreeShape
from distprove.stark.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.shape import ProofShape
from distprove.stark.verifying_key import compile_program
from kernels.cpu.backend import CpuBackend
from tests.support import stark_reference

RATE = 136
SHAPE = ProofShape(
    compile_program(load_program("wide-fibonacci", {"rows": 1 << 10, "width": 40}), Parameters(1, 20, 2, 1)), (10,)
)


@pytest.mark.parametrize(
    "matrices",
    [((3, 5),), ((3, 16),), ((3, 17), (3, 20)), ((4, 2), (4, 33), (2, 7)), ((3, 15), (1, 18), (1, 1), (0, 40))],
)
def test_permutations_are_those_of_the_reference(
    matrices: tuple[tuple[int, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hash of so many bytes takes a permutation for each block, and one for what is left, padding included."""
    counted, honest = [0], stark_reference.keccak256

    def keccak(data: bytes) -> bytes:
        counted[0] += len(data) // RATE + 1
        return honest(data)

    monkeypatch.setattr(stark_reference, "keccak256", keccak)
    columns = [np.ones((width, 1, 1 << log), dtype=np.uint64) for log, width in matrices]
    stark_reference.ReferenceKernels().commit(columns)
    assert tree_permutations(TreeShape(matrices)) == counted[0]


def test_a_stage_takes_its_slowest_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = CpuBackend().info().name
    monkeypatch.setattr(stark_limits, "RATES", {ours: Rates(butterflies=1e6, permutations=1e3, bandwidth=1e9)})
    limits = stage_limits(SHAPE, CpuBackend())
    assert limits["main_lde"].operation == "butterflies"
    assert limits["main_lde"].seconds == pytest.approx(40 * (512 * 10 + 2 * 512 * 10) / 1e6)
    assert limits["main_tree"].seconds == pytest.approx((2048 * (41 // 17 + 1) + 2047) / 1e3)
    assert limits["trace"].seconds == pytest.approx(8 * 40 * 1024 / 1e9)
    monkeypatch.setattr(stark_limits, "RATES", {ours: Rates(butterflies=1e6, permutations=1e3, bandwidth=1e3)})
    assert stage_limits(SHAPE, CpuBackend())["main_lde"].operation == "memory"


def test_hardware_that_is_not_in_the_tables_has_no_limits() -> None:
    assert stage_limits(SHAPE, CpuBackend()) == {}
