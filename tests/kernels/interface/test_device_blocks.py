"""Bytes that arrays take of a device's memory."""

from __future__ import annotations

import pytest

from kernels.interface.device_blocks import GRANULE, LARGE, block_bytes


@pytest.mark.parametrize(
    ("nbytes", "taken"),
    [(0, 0), (LARGE - 1, LARGE - 1), (LARGE, LARGE), (LARGE + 1, LARGE + GRANULE), (5 * LARGE - 1, 5 * LARGE)],
)
def test_large_arrays_take_whole_granules(nbytes: int, taken: int) -> None:
    assert block_bytes(nbytes) == taken
