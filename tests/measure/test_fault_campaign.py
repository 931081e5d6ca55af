"""Some of the schedules of faults of `distprove.measure.campaign.faults`; it plays hundreds when it is asked to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.record.run import Run, _partition_content
from distprove.measure.campaign.fault_schedules import Schedule
from distprove.measure.campaign.faults import as_text, play, seeds_of, shares, unverified
from tests.support import LONG, ROOT


@pytest.mark.parametrize(
    ("transport", "seed"), [("threads", 0), ("threads", 3), ("threads", 6), ("threads", 9), ("processes", 2)]
)
def test_a_job_comes_out_right_whatever_befalls_it(transport: str, seed: int, tmp_path: Path) -> None:
    outcome = play(Schedule.of(seed, transport), tmp_path, leak=60.0)  # of a machine that does much else
    assert outcome.why == []
    assert outcome.outcome in ("proved", "resumed", "refused")


@LONG
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_over_ray_outlives_an_actor_a_node_and_a_network(tmp_path: Path) -> None:
    """In a process of its own: what a Ray reads when it is imported differs from that of other tests."""
    seeds = [4, 16, 0]
    assert [Schedule.of(seed, "ray").faults[-1][0] for seed in seeds] == ["kill_actor", "lost_node", "cut_for_good"]
    command = [sys.executable, "-m", "distprove.measure.campaign.faults", "--transport", "ray", "--leak", "60"]
    command += ["--seeds", ",".join(map(str, seeds)), "--lines", str(tmp_path / "outcomes")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [json.loads(line) for line in (tmp_path / "outcomes").read_text().splitlines()]
    assert [outcome["why"] for outcome in outcomes] == [[], [], []]
    found = [outcome["outcome"] for outcome in outcomes]
    assert found[:2] == ["proved", "proved"]
    assert found[2] in ("proved", "skipped"), "it is skipped where no network namespaces can be made"


def test_a_seed_makes_the_same_schedule_each_time() -> None:
    assert [Schedule.of(seed, "ray") for seed in range(50)] == [Schedule.of(seed, "ray") for seed in range(50)]


def test_half_of_a_trees_faults_strike_its_nodes() -> None:
    trees = [each for seed in range(200) if (each := Schedule.of(seed, "processes")).tree]
    assert 50 < len(trees) < 110
    assert {each.checks for each in trees} == {False, True}
    assert {each.barrier for each in trees} == {False, True}
    assert all(name in each.needs for each in trees for _, name in each.faults)
    struck = [bool(each.needs[name]) for each in trees for _, name in each.faults]
    assert 0.4 < sum(struck) / len(struck) < 0.6


def test_what_needs_a_refused_partition_fails_with_it() -> None:
    """Without a barrier these alone; with one all leaves, and so all, where a leaf is refused."""
    free = next(each for seed in range(200) if (each := Schedule.of(seed, "threads")).tree and not each.barrier)
    free = replace(free, partitions=8, faults=(("bad_input", "leaf-05"),))
    assert free.refused == {"leaf-05", "node-1", "root"}
    assert replace(free, barrier=True).refused == set(free.needs)
    assert replace(free, barrier=True, faults=(("bad_input", "node-0"),)).refused == {"node-0", "root"}
    plain = replace(free, tree=False, faults=(("bad_input", "p2"),))
    assert plain.refused == {"p2"}
    assert replace(plain, barrier=True).refused == {f"p{i}" for i in range(8)}


def test_a_node_on_disk_of_other_proofs_than_those_of_its_children_is_found(tmp_path: Path) -> None:
    schedule = Schedule(0, "threads", 8, 1, False, False, (), 0.0, tree=True)
    assert play(schedule, tmp_path).outcome == "proved"
    assert unverified(schedule, tmp_path) == []
    other = tmp_path / "other"
    other.mkdir()
    assert play(schedule, other).outcome == "proved"
    with Run.open(other / "run") as run:
        leaf = next(p for p in schedule.sound_system(other / "faults").plan() if p.name == "leaf-01")
        proof = run.load(leaf)
    assert proof is not None
    (tmp_path / "run" / "partitions" / "leaf-01.msgpack").write_bytes(_partition_content(proof))
    assert unverified(schedule, tmp_path) == ["node-0 is on disk, made of other proofs than those of its children"]


def test_many_processes_share_the_seeds_and_the_transports() -> None:
    kinds = shares(["threads", "processes", "ray", "own-ray"], 12, 4)
    assert Counter(kinds) == {"ray": 2, "own-ray": 2, "threads": 4, "processes": 4}
    assert Counter(shares(["ray"], 3, 1)) == {"ray": 3}, "there is nothing else to play"
    assert Counter(shares(["threads"], 3, 1)) == {"threads": 3}
    for seeds in (range(0, 100, 7), [3, 5, 8], range(5)):
        assert [*seeds_of(as_text(seeds))] == [*seeds]


@pytest.mark.slow
def test_a_campaign_of_many_processes_counts_all_that_they_played(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "distprove.measure.campaign.faults", "--transport", "threads", "--seeds", "1:5"]
    command += ["--processes", "2", "--leak", "60", "--lines", str(tmp_path / "lines"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out").read_text())
    assert found["schedules"] == {"threads": 4}
    assert found["trees"] == {"threads": 2}
    assert found["wrong"] == found["cut_short"] == found["players_that_failed"] == []
    assert sorted(json.loads(line)["seed"] for line in (tmp_path / "lines").read_text().splitlines()) == [1, 2, 3, 4]
