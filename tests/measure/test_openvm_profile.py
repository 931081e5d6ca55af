"""Segments of a profile of stark-backend: the keys that its own runner makes, and their proofs stage by stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.cli.openvm_profile import choose
from distprove.errors import FormatError, UsageError
from distprove.measure import openvm_profile as bench
from distprove.measure.openvm_segments import Segment, key_of, log_stacked, read_profile, scaled, traces_of
from distprove.stark.openvm.traces import check_traces
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from tests.support.emulated_device import EmulatedDevice, compiler

EXCERPT = Path(__file__).parent / "openvm" / "reth-excerpt.jsonl"
"""Three of 209 lines of benchmarks/synthetic/reth-block-23992138-profile.jsonl of stark-backend 2.0.1."""
THEIR_HASHES = {
    3: [1489732049, 857557854, 864616672, 751957667, 242409893, 714108258, 539309053, 1219895367],
    115: [345876971, 1288336034, 199256651, 384519602, 699944998, 1350620920, 897894845, 779700366],
    204: [643789453, 1629405994, 533339109, 229946561, 346020189, 779492848, 1152898883, 946153686],
}
"""Hashes of the keys that stark-backend 2.0.1 generates from its own `SyntheticAir` for these segments."""


@pytest.fixture(scope="module")
def segments() -> tuple[Segment, ...]:
    return read_profile(EXCERPT)


def test_keys_are_those_of_their_runner(segments: tuple[Segment, ...]) -> None:
    assert {each.number: key_of(each, log_stacked(0)).pre_hash.tolist() for each in segments} == THEIR_HASHES


def test_traces_fit_the_key(segments: tuple[Segment, ...]) -> None:
    small = scaled(segments[1], -14)
    key, traces = key_of(small, log_stacked(-14)), traces_of(small)
    check_traces(traces, key, "traces")
    assert [trace.common.shape for trace in traces] == [(shape.width, 1 << height) for shape, height in small.airs]
    assert {trace.height for trace in traces} == {2, 4, 8, 16, 32, 64, 128, 256}
    assert not any(trace.common.any() for trace in traces)
    assert small.cells == sum(trace.common.size for trace in traces)


def test_which_segments(segments: tuple[Segment, ...]) -> None:
    numbers = {which: [each.number for each in choose(segments, which)] for which in ("all", "median", "2", "0:2")}
    assert numbers == {"all": [3, 115, 204], "median": [115], "2": [204], "0:2": [3, 115]}
    for wrong in ("", "x", "3", "2:1", "-1", "1:"):
        with pytest.raises(UsageError, match="--segments"):
            choose(segments, wrong)


def _spoiled(path: Path, spoil: Callable[[dict[str, Any]], object]) -> Path:
    line = json.loads(EXCERPT.read_text().splitlines()[0])
    spoil(line)
    path.write_text(json.dumps(line))
    return path


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line.update(schema="v1"), "schema v2"),
        (lambda line: line.update(airs=[]), "no AIR"),
        (lambda line: line["airs"][0].pop("width"), "no width"),
        (lambda line: line["airs"][1].update(num_constraints=-1), "num_constraints"),
        (lambda line: line["airs"][1].update(log_height=True), "log_height"),
        (lambda line: line["airs"][1]["buses"].pop(), "buses"),
        (lambda line: line["airs"][1].update(interaction_message_lens=5), "no list"),
        (lambda line: line["airs"][1]["interaction_message_lens"].__setitem__(0, 0), "empty message"),
        (lambda line: line["airs"][0].update(num_interactions=0, buses=[], interaction_message_lens=[],
                                             interaction_count_weights=[]), "neither"),
    ],
)  # fmt: skip
def test_no_profile(spoil: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read_profile(_spoiled(tmp_path / "profile.jsonl", spoil))


def test_a_profile_without_a_segment(tmp_path: Path) -> None:
    (tmp_path / "profile.jsonl").write_text("{")
    with pytest.raises(FormatError):
        read_profile(tmp_path / "profile.jsonl")


def test_segments_are_proven_stage_by_stage(segments: tuple[Segment, ...]) -> None:
    said: list[str] = []
    small = [scaled(segments[i], -20) for i in (0, 2)]
    with CpuBackend(threads=2) as backend:
        rows = bench.bench_segments(backend, small, log_stacked(-20), 1, said.append)
    assert [row.facts["segment"] for row in rows] == [3, 204]
    assert len(said) == 2
    for row in rows:
        assert {"main_stack", "buses", "constraints", "reduction", "opening"} <= row.steps.keys()
        assert row.facts["security_bits"] >= 100
        assert row.facts["verify_seconds"] > 0
        outer = [seconds for name, seconds in row.steps.items() if "." not in name and name != bench.LOADING]
        assert sum(outer) <= row.timing.median
    found = bench.summary(rows)
    assert found["segments"] == 2
    assert found["cells"] == sum(each.cells for each in small)
    assert found["stages"].keys() == rows[0].steps.keys()


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")
def test_launches_and_waits_are_counted_by_stage() -> None:
    with CudaBackend(EmulatedDevice()) as backend:
        steps = bench.CountedSteps(traffic=backend.traffic)
        with steps("load"):
            array = backend.openvm.load(np.arange(5, dtype=np.uint32))
        for _ in range(2):
            with steps("read"):
                assert backend.openvm.download(array).tolist() == [0, 1, 2, 3, 4]
    assert (steps.counts["load"].launches, steps.counts["load"].waits, steps.counts["load"].to_device) == (1, 0, 20)
    assert (steps.counts["read"].waits, steps.counts["read"].to_host) == (2, 40)
