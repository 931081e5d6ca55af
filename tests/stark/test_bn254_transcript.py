"""The transcript of Poseidon2 over BN254: its histories do not meet, and what it draws is as its specification says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.stark.field import P
from distprove.stark.transcript import INDICES, QUOTIENTS, Bn254Transcript, make_transcript, work_is_done
from kernels.interface.tree_hash import GRIND_TAG, TreeHash
from kernels.maths.poseidon2_bn254 import R
from tests.support import plain_poseidon2_bn254 as plain
from tests.support.second_verifier import Bn254Transcript as Second

BOUND = QUOTIENTS * P**3
words = st.lists(st.sampled_from([0, 1, P - 1, 7 << 32]), max_size=5).map(lambda v: ("words", v))
octets = st.binary(max_size=30).map(lambda v: ("bytes", v))
roots = st.sampled_from([b"", bytes(32), (R - 1).to_bytes(32, "little")]).map(lambda v: ("root", v))
histories = st.lists(st.tuples(st.sampled_from(["a", "b", "ab"]), st.one_of(words, octets, roots)), max_size=4)


def replay(history: list, ours: Bn254Transcript, second: Second) -> None:
    for label, (kind, value) in history:
        if kind == "words":
            ours.absorb_words(label.encode(), np.array(value, dtype=np.uint64))
            second.absorb_words(label, b"".join(v.to_bytes(8, "little") for v in value))
        elif kind == "bytes":
            ours.absorb(label.encode(), value)
            second.absorb(label, value)
        else:
            ours.absorb_root(label.encode(), value)
            second.absorb_root(label, value)


def draw(history: list) -> tuple[int, ...]:
    """Draw from both transcripts, which must agree."""
    ours, second = Bn254Transcript(b"test"), Second(b"test")
    replay(history, ours, second)
    drawn = ours.extension(b"x")
    assert drawn == second.extension("x")
    indices = ours.indices(b"i", 7, 32)
    assert indices == second.indices("i", 7, 32)
    assert ours.grinding_seed() == second.seed()
    return (*drawn, *indices)


@settings(max_examples=40, deadline=None)
@given(histories, histories)
def test_different_histories_draw_differently(a: list, b: list) -> None:
    assert (draw(a) == draw(b)) == (a == b)


def test_kinds_lengths_and_labels_are_told_apart() -> None:
    """The elements of all of these are the same zeros."""
    same = [("words", [0] * n) for n in range(5)] + [("bytes", bytes(n)) for n in (0, 1, 23, 24, 32)]
    same += [("root", b""), ("root", bytes(32))]
    assert len({draw([(label, each)]) for each in same for label in ("a", "b", "aa")}) == 3 * len(same)


def test_a_state_goes_on_elsewhere() -> None:
    transcript, other = make_transcript(b"one", TreeHash.POSEIDON2_BN254), Bn254Transcript(b"another")
    for label in (b"x", b"yy"):  # at both positions
        transcript.absorb(label, b"data")
        state = transcript.words()
        assert state.shape == (18,)
        other.resume(state)
        assert other.extension(b"z") == transcript.extension(b"z")


class Fixed(Bn254Transcript):
    """A transcript whose permutation gives chosen elements."""

    def __init__(self, *outputs: int) -> None:
        super().__init__(b"test")
        self.outputs = list(outputs)

    def _permute(self) -> None:
        super()._permute()
        if hasattr(self, "outputs") and self.outputs:
            self._state[:2] = self.outputs[:2]
            del self.outputs[:2]


@pytest.mark.parametrize("refused", [0, 1, 2, 3])
def test_elements_at_the_bound_are_passed_over(refused: int) -> None:
    """Such a one would make some challenges likelier; as a number it has the digits of another one below the bound."""
    outputs = [BOUND, R - 1, BOUND + 5, 17 + 3 * P + 5 * P**2 + 7 * P**3]
    drawn = Fixed(*outputs[:refused], *[outputs[3]] * (4 - refused)).extension(b"x")
    assert drawn == (17, 3, 5)
    assert Fixed(BOUND - 1, 0).extension(b"x") == (P - 1, P - 1, P - 1)


def test_indices_are_the_lowest_bits_of_pieces_of_32() -> None:
    y = 0xAAAAAAAA + (0xBBBBBBBB << 32) + (0xCCCCCCCC << 64) + (0xDDDDDDDD << 96)
    assert Fixed(y, y + 1).indices(b"i", 4, 8) == [0xAA, 0xBB, 0xCC, 0xAB]
    with pytest.raises(ValueError, match="32 bits"):
        Fixed(y, y).indices(b"i", 1, 33)
    assert R.bit_length() - 1 - 32 * INDICES > 128  # bits of the bias


def test_work() -> None:
    seed = bytes(range(32))
    number = int.from_bytes(seed, "little")
    done = [n for n in range(64) if work_is_done(seed, n, 3, TreeHash.POSEIDON2_BN254)]
    assert done == [n for n in range(64) if plain.permute([number, n, GRIND_TAG])[0] % 8 == 0]
    assert 0 < len(done) < 32
