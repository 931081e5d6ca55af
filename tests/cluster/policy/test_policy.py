"""Policies as state machines: what `auto` decides when throughput, hunger or memory say so."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.policy import YIELD, Auto, Decision, Limits, Observation, off, policy_for, static
from cluster.policy.auto import ALLOWANCE, MOST, PATIENCE, SETTLE
from cluster.policy.flow import Flow
from cluster.policy.moves import HALVED, Usage, moves
from distprove.errors import UsageError
from distprove.host.phases import Phase
from distprove.settings import ExecutorSettings

THREADS = 16
BEGINNING = static(THREADS, {}).limits


def drive(
    auto: Auto,
    rate: Callable[[Limits, int], float],
    proofs: int,
    *,
    prepared: Callable[[Limits], float] = lambda _: 1.0,
    began: float = 0.0,
    share: float = 0.5,
) -> tuple[list[Decision], float]:
    """A node whose throughput follows from its limits and the number of proofs made, looked at after each proof.

    `prepared`: partitions that synthesis ends for each proof; `share`: what a probe finds of the bus. Returns the
    decisions and when it ended.
    """
    decisions: list[Decision] = []
    now, ready = began, 0.0
    for made in range(proofs):
        now += 1.0 / rate(auto.limits, made)
        wanted = {Phase.SYNTHESIS: THREADS, Phase.CPU_MSM: THREADS}
        leases = {phase: min(count, auto.limits.phases.get(phase) or count) for phase, count in wanted.items()}
        ready += prepared(auto.limits)
        ended, ready = int(ready), ready - int(ready)
        decisions += auto.observe(
            Observation(
                now,
                (now,),
                leases=leases,
                durations={Phase.SYNTHESIS: (1.0,) * ended},
                bandwidth_share=share if auto.wants_bandwidth else None,
            )
        )
    return decisions, now


def test_it_keeps_what_raises_throughput() -> None:
    """Group sums are best on half the threads, and everything else makes no difference."""
    auto = Auto(THREADS)
    drive(auto, lambda limits, _: 1.1 if limits.phases.get(Phase.CPU_MSM) == THREADS // 2 else 1.0, 2000)
    assert auto.limits.phases == {Phase.CPU_MSM: THREADS // 2}


def test_it_goes_on_in_a_direction_that_pays() -> None:
    auto = Auto(THREADS)
    drive(auto, lambda limits, _: 1.0 + 1.0 / (limits.phases.get(Phase.SYNTHESIS) or THREADS), 3000)
    assert auto.limits.phases[Phase.SYNTHESIS] == 1


@given(st.integers(0, 1000), st.floats(0.0, 0.1), st.floats(0.3, 0.97))
@settings(max_examples=20, deadline=None)
def test_where_nothing_is_to_be_gained_next_to_nothing_is_lost(seed: int, noise: float, worse: float) -> None:
    """Any other limits are slower: what trials cost grows as the square root of the proofs made."""
    draw, auto, proofs = random.Random(seed), Auto(THREADS), 4000

    def rate(limits: Limits, _: int) -> float:
        return 1.0 if limits == BEGINNING else worse

    decisions, ended = drive(auto, lambda limits, n: rate(limits, n) * draw.lognormvariate(0.0, noise), proofs)
    mean = math.exp(noise**2 / 2)  # of the time of a proof
    spread = 3.0 * noise * math.sqrt(proofs)
    assert ended / mean - proofs < ALLOWANCE * math.sqrt(proofs) + MOST + SETTLE + spread
    assert all(decision.reason for decision in decisions)


def test_what_failed_is_tried_again_ever_later() -> None:
    auto = Auto(THREADS)
    decisions, _ = drive(auto, lambda limits, _: 1.0 if limits == BEGINNING else 0.9, 20_000)
    times = [d.t for d in decisions if "to see" in d.reason]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) > 6
    quarter = len(gaps) // 4
    assert median(gaps[-quarter:]) > 2 * median(gaps[:quarter])


def test_proofs_that_were_prepared_before_a_trial_are_no_gain() -> None:
    """Less synthesis at once lets provers go faster, for as long as there is something prepared."""
    auto = Auto(THREADS)
    decisions, _ = drive(
        auto,
        lambda limits, _: 1.3 if Phase.SYNTHESIS in limits.phases else 1.0,
        1500,
        prepared=lambda limits: 0.5 if Phase.SYNTHESIS in limits.phases else 1.0,
    )
    assert any(d.phase == "synthesis" for d in decisions)
    assert not any("kept" in d.reason for d in decisions if d.phase == "synthesis")


def test_a_gain_that_does_not_last_is_given_back() -> None:
    auto = Auto(THREADS)

    def rate(limits: Limits, made: int) -> float:
        return 1.0 if limits == BEGINNING else 1.2 if made < 400 else 0.8

    decisions, _ = drive(auto, rate, 900)
    assert any("kept" in d.reason for d in decisions)
    assert any("did not last" in d.reason for d in decisions)
    assert auto.limits == BEGINNING


def test_a_trial_that_was_compared_with_a_good_moment_is_tried_again_at_once() -> None:
    """Throughput falls for good while the first trial runs, which is in truth a gain."""
    auto, begun = Auto(THREADS), False

    def rate(limits: Limits, made: int) -> float:
        nonlocal begun
        begun |= bool(limits.phases)
        return (0.9 if begun else 1.2) * (1.2 if limits.phases else 1.0)

    decisions, _ = drive(auto, rate, 300)
    tried = [d.reason for d in decisions if d.phase == "cpu_msm"]
    assert "back" in tried[1], "compared with the good moment before"
    assert Phase.CPU_MSM in auto.limits.phases


def test_now_and_then_limits_are_compared_with_those_of_the_beginning() -> None:
    """A load that changes little by little, so that no single window shows it: in the end the first ones are better."""
    auto = Auto(THREADS)

    def rate(limits: Limits, made: int) -> float:
        return 1.0 if limits == BEGINNING else max(0.9, 1.15 - made / 20_000)

    decisions, _ = drive(auto, rate, 8000)
    assert any("kept" in d.reason for d in decisions)
    assert auto.limits == BEGINNING


def test_short_memory_halves_synthesis_whatever_else_goes_on() -> None:
    auto = Auto(THREADS)
    drive(auto, lambda *_: 1.0, 20)
    seen = Observation(100.0, leases={Phase.SYNTHESIS: THREADS}, memory_pressure=True)
    assert [(d.phase, d.after) for d in auto.observe(seen)] == [("synthesis", THREADS // 2)]
    assert not auto.observe(seen), "not again before some proofs gave memory back"


def test_a_bus_with_room_to_spare_needs_no_trials() -> None:
    assert not drive(Auto(THREADS), lambda *_: 1.0, 2000, share=1.0)[0]


def test_a_short_session_is_left_alone() -> None:
    assert not drive(Auto(THREADS), lambda *_: 1.0, 40)[0]


def test_bandwidth_is_asked_for_only_when_it_could_decide() -> None:
    auto = Auto(THREADS)
    assert not auto.wants_bandwidth
    drive(auto, lambda *_: 1.0, 75, share=1.0)
    assert auto.wants_bandwidth


def test_yielding_is_tried_where_there_is_something_to_yield_to() -> None:
    auto = Auto(THREADS)
    decisions, _ = drive(auto, lambda limits, _: 1.2 if limits.yields else 1.0, 2000)
    assert auto.limits.yields
    assert any(d.phase == YIELD and d.after == 1 for d in decisions)


def proposed(
    synthesis: list[int],
    *,
    pool: int = THREADS // 2,
    starved: bool = False,
    limits: Limits = BEGINNING,
    share: float = 0.5,
    pools_failed: bool = False,
) -> set[str]:
    """Moves for a node with so many threads in synthesis from look to look, and group sums of `pool` beside them."""
    usage = Usage()
    for count in synthesis:
        usage.add(Observation(0.0, leases={Phase.SYNTHESIS: count, Phase.CPU_MSM: pool}, starved=starved))
    return {move.name for move in moves(THREADS, limits, usage, share, pools_failed)}


def test_synthesis_is_cut_only_where_it_comes_in_bursts_or_has_all_threads() -> None:
    assert "less synthesis at once" in proposed([1, 12, 1, 2])
    assert "less synthesis at once" not in proposed([11, 12, 12, 12])
    assert "less synthesis at once" in proposed([THREADS] * 4)


def test_nothing_upstream_is_slowed_down_for_provers_that_starve() -> None:
    assert {YIELD, "less synthesis at once"} <= proposed([1, 12, 1, 2])
    assert not {YIELD, "less synthesis at once"} & proposed([1, 12, 1, 2], starved=True)


def test_pools_that_work_seldom_are_quartered_where_halving_gained_nothing() -> None:
    quarter = "pools of a quarter of the threads"
    assert quarter in proposed([1], pool=4, pools_failed=True)
    assert quarter not in proposed([1], pool=4)
    assert quarter not in proposed([1], pool=12, pools_failed=True)


def test_on_a_bus_with_room_to_spare_limits_are_only_raised() -> None:
    halved = Limits({Phase.CPU_MSM: 8, Phase.SYNTHESIS: 4}, THREADS)
    assert proposed([4, 4], limits=halved, share=0.97) == {"more synthesis at once", "pools of 16"}
    assert HALVED in proposed([1], share=0.94)


@given(st.integers(0, 1000), st.integers(2, 12))
@settings(max_examples=20, deadline=None)
def test_an_error_covers_bunches_without_taking_them_for_noise(seed: int, bunch: int) -> None:
    """Proofs in bunches at an even pace: what a count may be off by is a bunch, however long it was counted."""
    draw, flow = random.Random(seed), Flow(0.0)
    flow.add(sorted(round(n / bunch) + draw.uniform(0.0, 0.01) for n in range(300)))
    rate = flow.rate()
    assert rate.value == pytest.approx(bunch, rel=2 * bunch / 300)
    assert 0.2 * bunch / 300 < rate.error < 1.5 * bunch / 300


def test_an_error_is_that_of_independent_times() -> None:
    errors = []
    for seed in range(200):
        draw, flow, now = random.Random(seed), Flow(0.0), 0.0
        for _ in range(101):
            now += draw.expovariate(1.0)
            flow.add([now])
        errors.append(flow.rate().error)
    assert median(errors) == pytest.approx(0.1, rel=0.2), "one in the root of 100"


def test_a_trial_that_lived_on_prepared_partitions_is_not_tried_again_at_once() -> None:
    """Proofs come faster while synthesis is limited, but ever fewer are ready for them."""
    auto = Auto(THREADS)
    decisions, _ = drive(
        auto,
        lambda limits, _: 1.1 if limits.phases else 1.0,
        1500,
        prepared=lambda limits: 0.5 if limits.phases else 1.0,
    )
    trials = [d for d in decisions if d.phase == "cpu_msm" and d.reason.endswith(HALVED)]
    waits = [later.t - earlier.t for earlier, later in pairwise(trials) if "back" in earlier.reason]
    assert waits
    assert min(waits) > 0.9 * PATIENCE


def test_the_policy_follows_the_settings() -> None:
    chosen = policy_for(ExecutorSettings(limits={"synthesis": 3}), 8)
    assert (chosen.name, chosen.limits) == ("static", Limits({Phase.SYNTHESIS: 3}, threads=8))
    assert policy_for(ExecutorSettings(policy="off"), 8).limits == off().limits == Limits(lane=None)
    assert policy_for(ExecutorSettings(policy="auto"), 8).limits == static(8, {}).limits
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
