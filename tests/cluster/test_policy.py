"""Policies as state machines: what `auto` decides when throughput, hunger or memory say so."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.policy import YIELD, Auto, Decision, Limits, Observation, off, policy_for, static
from distprove.errors import UsageError
from distprove.job import ExecutorSettings
from distprove.phases import Phase

THREADS = 16


def drive(
    auto: Auto, rate: Callable[[Limits], float], proofs: int, *, starved: Callable[[Limits], bool] = lambda _: False
) -> list[Decision]:
    """A node whose throughput follows from the limits, looked at after each proof."""
    decisions: list[Decision] = []
    now = 0.0
    for _ in range(proofs):
        now += 1.0 / rate(auto.limits)
        wanted = {Phase.SYNTHESIS: THREADS, Phase.CPU_MSM: THREADS // 4}
        leases = {phase: min(count, auto.limits.phases.get(phase) or count) for phase, count in wanted.items()}
        decisions += auto.observe(
            Observation(now, (now,), starved=starved(auto.limits), leases=leases, queue={Phase.SYNTHESIS: 3})
        )
    return decisions


def test_it_keeps_what_raises_throughput() -> None:
    """Group sums are best on 2 threads, and everything else makes no difference."""
    auto = Auto(THREADS)
    drive(auto, lambda limits: 1.1 if limits.phases.get(Phase.CPU_MSM) == 2 else 1.0, 2000)
    assert auto.limits.phases == {Phase.CPU_MSM: 2}


def test_it_goes_on_in_a_direction_that_pays() -> None:
    auto = Auto(THREADS)
    drive(auto, lambda limits: 1.0 + 1.0 / (limits.phases.get(Phase.SYNTHESIS) or THREADS), 2000)
    assert auto.limits.phases == {Phase.SYNTHESIS: 1}


def test_it_undoes_what_does_not_and_rests_longer_each_time() -> None:
    auto = Auto(THREADS)
    decisions = drive(auto, lambda limits: 0.7 if limits.phases or limits.yields else 1.0, 6000)
    assert auto.limits == Limits()
    tried = [d for d in decisions if d.after not in (None, 0)]
    assert len(tried) < 40, "it does not keep trying"
    gaps = [b.t - a.t for a, b in pairwise(tried)]
    assert max(gaps[len(gaps) // 2 :]) > 3 * max(gaps[: len(gaps) // 4])


@given(st.integers(0, 1000), st.floats(0.0, 0.3))
@settings(max_examples=20, deadline=None)
def test_noise_alone_moves_nothing_far(seed: int, noise: float) -> None:
    """Throughput that does not depend on the limits: what is lost to trials is next to nothing, whatever is kept."""
    draw = random.Random(seed)
    auto = Auto(THREADS)
    decisions = drive(auto, lambda _: draw.lognormvariate(0.0, noise), 1500)
    assert len(decisions) < 80
    assert all(d.reason for d in decisions)


def test_starving_provers_end_a_trial_and_raise_what_holds_back() -> None:
    """With fewer than 8 threads of synthesis the provers wait; more of it costs throughput."""

    def rate(limits: Limits) -> float:
        synthesis = limits.phases.get(Phase.SYNTHESIS) or THREADS
        return 1.2 if synthesis == 8 else 0.5 if synthesis < 8 else 1.0

    def starved(limits: Limits) -> bool:
        return (limits.phases.get(Phase.SYNTHESIS) or THREADS) < 8

    auto = Auto(THREADS)
    decisions = drive(auto, rate, 2000, starved=starved)
    assert auto.limits.phases == {Phase.SYNTHESIS: 8}
    assert any("nothing to do" in d.reason for d in decisions)
    # A load that needs more: the limit goes, step by step, without a trial.
    raised = drive(auto, lambda _: 1.0, 50, starved=lambda limits: bool(limits.phases))
    assert [(d.before, d.after) for d in raised[:2]] == [(8, 12), (12, None)]
    assert not auto.limits.phases


def test_nothing_is_lowered_while_provers_starve() -> None:
    auto = Auto(THREADS * 4)
    assert not drive(auto, lambda _: 1.0, 500, starved=lambda _: True)


def test_short_memory_halves_synthesis_whatever_else_goes_on() -> None:
    auto = Auto(THREADS)
    drive(auto, lambda _: 1.0, 10)
    seen = Observation(100.0, leases={Phase.SYNTHESIS: 12}, memory_pressure=True)
    assert [(d.phase, d.after) for d in auto.observe(seen)] == [("synthesis", 8)]
    assert not auto.observe(seen), "not again before some proofs gave memory back"


def test_a_bus_with_room_to_spare_needs_no_trials() -> None:
    auto = Auto(THREADS * 4)
    asked = 0
    for step in range(400):
        asked += auto.wants_bandwidth
        share = 1.0 if auto.wants_bandwidth else None
        seen = Observation(float(step), (float(step),), leases={Phase.SYNTHESIS: 12}, bandwidth_share=share)
        assert not auto.observe(seen)
    assert 0 < asked < 40


def test_yielding_is_tried_where_there_is_something_to_yield_to() -> None:
    auto = Auto(THREADS)
    decisions = drive(auto, lambda limits: 1.2 if limits.yields else 1.0, 1000)
    assert auto.limits.yields
    assert any(d.phase == YIELD and d.after == 1 for d in decisions)


def test_the_policy_follows_the_settings() -> None:
    chosen = policy_for(ExecutorSettings(limits={"synthesis": 3}), 8)
    assert (chosen.name, chosen.limits) == ("static", Limits({Phase.SYNTHESIS: 3}, threads=8))
    assert policy_for(ExecutorSettings(policy="off"), 8).limits == off().limits == Limits(lane=None)
    assert policy_for(ExecutorSettings(policy="auto"), 8).limits == Limits()
    assert not static(8, {}).observe(Observation(0.0, (0.0,)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "atuo"},
        {"limits": {"synthesiss": 3}},
        {"limits": {"synthesis": 0}},
        {"limits": {"synthesis": "3"}},
        {"limits": {"synthesis": 3}, "policy": "auto"},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ExecutorSettings(**wrong)  # type: ignore[arg-type]
