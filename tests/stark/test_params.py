"""The shape of FRI follows from parameters and heights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distprove.errors import FormatError, UsageError
from distprove.stark.params import Parameters, fri_schedule


def params(**changes: int) -> Parameters:
    return Parameters(**{"log_blowup": 1, "queries": 5, "grinding_bits": 0, "security_bits": 0, **changes})


@given(st.lists(st.integers(0, 24), min_size=1, max_size=6), st.integers(0, 8), st.integers(1, 3))
def test_folds_stop_at_every_height_and_end_low_enough(heights: list[int], log_final: int, log_arity: int) -> None:
    steps, final = fri_schedule(params(log_final=log_final, log_arity=log_arity), heights)
    assert final == min(log_final, min(heights))
    current = max(heights)
    entered = {current}
    for step in steps:
        assert step.log_height == current
        assert 1 <= step.log_arity <= log_arity
        current = step.log_reached
        assert step.mixes == (current in heights)
        if step.mixes:
            entered.add(current)
    assert current == final
    assert entered == set(heights)


def test_parameters_are_checked() -> None:
    for changes in ({"queries": 0}, {"log_blowup": 0}, {"log_blowup": 4}, {"grinding_bits": -1}, {"log_arity": 0}):
        with pytest.raises(UsageError):
            params(**changes)
    record = params().to_record()
    assert Parameters.from_record(record) == params()
    for spoiled in ({**record, "queries": 0}, {**record, "more": 1}, {**record, "queries": True}, {}, None, [1]):
        with pytest.raises(FormatError):
            Parameters.from_record(spoiled)
