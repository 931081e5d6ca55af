"""Statistics that measurements share."""

from __future__ import annotations

import pytest

from distprove.measure.timing import steady_rate


def test_a_steady_rate_leaves_out_the_first_and_the_last_tenth() -> None:
    """Twenty ends, two a second, between a slow beginning and a slow end."""
    ends = [-100.0, -50.0, *(0.5 * i for i in range(16)), 50.0, 100.0]
    assert steady_rate(ends) == pytest.approx(2.0)
    assert steady_rate([0.0, 0.5, 1.0]) == pytest.approx(2.0)
