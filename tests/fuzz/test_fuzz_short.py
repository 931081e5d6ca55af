"""A short run of the fuzzer, the same every time; and that it finds what it is for. `make fuzz` runs it for an hour."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

from distprove.errors import FormatError
from tests.fuzz import fuzz
from tests.fuzz.fuzz import EVERY, Plan, check, make, warm_up
from tests.fuzz.fuzz_mutations import sections
from tests.fuzz.fuzz_targets import MIB, TARGETS, Target

SEED = 2026


@pytest.mark.parametrize("parser", TARGETS)
def test_typed_errors_in_bounded_memory_and_time(parser: str) -> None:
    warm_up([parser])
    for number in range(TARGETS[parser].short):
        fault = check(parser, number, make(parser, SEED, number), traced=number % EVERY == 0)
        assert fault is None, f"{fault.kind}\n{fault.detail}"


@pytest.mark.parametrize("parser", TARGETS)
def test_inputs_are_known_by_their_number(parser: str) -> None:
    made = [make(parser, SEED, number) for number in range(20)]
    assert made == [make(parser, SEED, number) for number in range(20)]
    assert len(set(made)) > 10


def test_changed_sections_get_past_the_section_table() -> None:
    """What it is for to know the structure: lengths are right, so that what is inside is looked at."""
    told = set()
    for number in range(300):
        try:
            TARGETS["r1cs"].use(sections(random.Random(number), TARGETS["r1cs"].seeds()))
        except FormatError as error:
            told.add(str(error).partition("(")[2].partition(")")[0])
    assert len(told) >= 3


def misbehave(data: bytes) -> None:
    if data == b"raise":
        raise ValueError("not typed")
    if data == b"fill":
        bytearray(16 * MIB)
    if data == b"spin":
        begin = time.process_time()
        while time.process_time() - begin < 60:
            pass
    if data == b"crash":
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def bad_parser(monkeypatch: pytest.MonkeyPatch) -> str:
    inputs = [b"fine", b"raise", b"fill", b"spin", b"crash"]
    bad = Target(lambda: inputs[:1], misbehave, (lambda rng, seeds: rng.choice(inputs),))
    monkeypatch.setitem(TARGETS, "bad", bad)
    monkeypatch.setattr(fuzz, "CPU_SECONDS", 0.2)
    return "bad"


@pytest.mark.parametrize(("data", "kind"), [(b"raise", "ValueError at"), (b"fill", "memory"), (b"spin", "slow")])
def test_what_a_bad_parser_does_is_found(bad_parser: str, data: bytes, kind: str) -> None:
    fault = check(bad_parser, 7, data, traced=True)
    assert fault is not None
    assert fault.kind.startswith(kind)
    assert check(bad_parser, 8, b"fine", traced=True) is None


def test_faults_are_kept_with_what_makes_them_again(bad_parser: str, tmp_path: Path) -> None:
    assert "fork" in multiprocessing.get_all_start_methods()
    kinds = fuzz.fuzz(Plan([bad_parser], 5, 2, time.monotonic() + 280, 30, tmp_path))
    found = {kind for _, kind in kinds}
    assert {"slow", f"exit {-signal.SIGKILL}"} <= found
    assert any(kind.startswith("ValueError") for kind in found)
    for path in tmp_path.glob("*.input"):
        number = int(path.stem.rsplit("-", 1)[1])
        assert path.read_bytes() == make(bad_parser, 5, number)
        assert f"--replay {path}" in path.with_suffix(".txt").read_text()
    raised = next(path for path in tmp_path.glob("*.input") if path.read_bytes() == b"raise")
    assert fuzz.replay(raised) == 1
