"""Rates of a service: what is older than a minute does not count, and takes no memory."""

from __future__ import annotations

from cluster.recent import Recent


def test_what_is_older_is_forgotten() -> None:
    recent = Recent(60)
    for second in range(1000):
        recent.add(second + 0.5, 3)
    assert recent.total(999.9) == 180
    assert len(recent._counts) == 60
    assert recent.total(1029.0) == 90
    assert recent.total(5000.0) == 0
    assert not recent._counts
