"""A short form of the load campaign (`python -m distprove.measure.campaign.service_load`)."""

from __future__ import annotations

from distprove.measure.campaign.service_load import run


def test_a_service_that_is_asked_for_too_much_says_so_and_nothing_else() -> None:
    found = run(3.0, 10)
    assert found["errors"] == []
    assert found["jobs"]["accepted"] > 0
    assert found["memory"]["most"] < 1 << 30
