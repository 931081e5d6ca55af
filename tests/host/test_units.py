"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from kernels.host.units import format_bits, format_bytes


@pytest.mark.parametrize(
    ("bits", "text"),
    [(128, "128.00"), (127.99999, "127.99"), (5.150374989683197, "5.15"), (0.0, "0.00"), (-math.inf, "-inf")],
)
def test_bits_are_rounded_down_and_never_read_as_more(bits: float, text: str) -> None:
    assert format_bits(bits) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB"), (1 << 50, "1024.0 TiB")]
)
def test_bytes_have_a_binary_unit(count: int, text: str) -> None:
    assert format_bytes(count) == text
