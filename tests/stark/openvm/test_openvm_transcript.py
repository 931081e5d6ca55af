"""The transcript against that of stark-backend, its permutation, and its proof of work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from distprove.errors import InvalidProof
from distprove.stark.openvm.transcript import FEW_BITS, Transcript
from kernels.cpu.poseidon2_babybear import absorbed, compress, hash_rows, least_witness, permuted
from kernels.errors import SizeError
from kernels.maths import poseidon2_babybear as maths
from kernels.maths.babybear import P
from tests.support.openvm_golden import GOLDEN

VECTORS: dict[str, Any] = json.loads((GOLDEN / "vectors.json").read_text())


def test_draws_are_those_of_stark_backend() -> None:
    transcript = Transcript()
    for step in VECTORS["transcript"]["steps"]:
        transcript.observe_words(np.array(step["observe"], dtype=np.uint32))
        assert [transcript.sample() for _ in step["sample"]] == step["sample"]
    assert transcript.sample_ext() == tuple(VECTORS["transcript"]["then_extension"])
    assert transcript.sample_bits(10) == VECTORS["transcript"]["then_10_bits"]
    assert transcript.grind(8) == VECTORS["transcript"]["then_smallest_witness_of_8_bits"]


@pytest.mark.parametrize("vector", VECTORS["permutation"])
def test_permutation(vector: dict[str, list[int]]) -> None:
    assert permuted(vector["input"]) == vector["output"]


@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 21])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_hashes_are_those_of_the_maths(count: int, width: int) -> None:
    rows = np.arange(P - count * width, P, dtype=np.uint32).reshape(count, width)
    assert hash_rows(rows).tolist() == maths.hash_rows(rows).tolist()
    left, right = maths.hash_rows(rows), maths.hash_rows(rows[::-1].copy())
    assert compress(left, right).tolist() == maths.compress(left, right).tolist()


def test_sizes_are_checked() -> None:
    with pytest.raises(SizeError):
        permuted([0] * 15)
    with pytest.raises(SizeError):
        least_witness([0] * 17, 0, 1)
    with pytest.raises(SizeError):
        absorbed([0] * 15, 0, np.zeros(1, dtype=np.uint32))
    with pytest.raises(SizeError):
        absorbed([0] * 16, 8, np.zeros(1, dtype=np.uint32))
    with pytest.raises(SizeError):
        compress(np.zeros((1, 8), dtype=np.uint32), np.zeros((2, 8), dtype=np.uint32))


@pytest.mark.parametrize("before", [0, 1, 7])
@pytest.mark.parametrize("count", [0, 7, 8, 9, 40, 41])
def test_many_words_are_observed_as_each(before: int, count: int) -> None:
    words = np.arange(P - count, P, dtype=np.uint32)
    one, other = Transcript(), Transcript()
    for transcript in (one, other):
        transcript.observe_words(words[:before])
        transcript.sample()
        transcript.observe_words(words[:before])
    one.observe_words(words)
    for word in words.tolist():
        other.observe(word)
    assert one.state == other.state


def test_an_element_of_the_extension_is_four_elements() -> None:
    one, other = Transcript(), Transcript()
    one.observe_ext((1, 2, 3, 4))
    other.observe_words(np.array([[1, 2], [3, 4]], dtype=np.uint32))
    assert one.sample_ext() == tuple(other.sample() for _ in range(4))
    assert one.state == other.state


@pytest.mark.parametrize("before", range(9))
def test_work_is_the_least_and_binds_what_was_observed(before: int) -> None:
    """`before`: elements observed before the witness, which then lies at each place of the sponge."""
    transcript = Transcript()
    transcript.observe_words(np.arange(before, dtype=np.uint32))
    ground = transcript.copy()
    witness = ground.grind(6)
    assert [transcript.copy().check(6, w) for w in range(witness + 1)] == [*[False] * witness, True]
    verifier = transcript.copy()
    verifier.need_work(6, witness, "")
    assert verifier.state == ground.state
    with pytest.raises(InvalidProof, match="of the queries is not done"):
        transcript.copy().need_work(6, witness - 1 if witness else 1, "of the queries")


def test_a_search_of_ones_own_replaces_ours_and_is_checked() -> None:
    transcript = Transcript()
    transcript.observe(5)
    bits = FEW_BITS + 1
    found = least_witness(transcript.state[0], transcript.state[1], bits)
    assert transcript.copy().grind(bits, lambda state, position, bits: found) == found
    with pytest.raises(ValueError, match="does not do the work"):
        transcript.copy().grind(bits, lambda state, position, bits: found - 1 if found else 1)


def test_little_work_is_done_on_the_callers_thread() -> None:
    def search(state: Sequence[int], position: int, bits: int) -> int:
        raise AssertionError("a search of its own for little work")

    assert Transcript().grind(FEW_BITS, search) == Transcript().grind(FEW_BITS)


def test_no_work_has_one_witness_and_leaves_the_transcript() -> None:
    transcript = Transcript()
    assert transcript.grind(0) == 0
    assert transcript.check(0, 0)
    assert not transcript.check(0, 1)
    assert transcript.state == Transcript().state


def test_bits_are_the_low_ones_of_an_element() -> None:
    drawn, elements = Transcript(), Transcript()
    for bits in (0, 3, 30):
        assert drawn.sample_bits(bits) == elements.sample() & ((1 << bits) - 1)
    with pytest.raises(ValueError, match="no 31 bits"):
        drawn.sample_bits(31)
