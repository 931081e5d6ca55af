"""The transcript: every absorbed byte and every label changes what is drawn after it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distprove.stark.field import P
from distprove.stark.transcript import KeccakTranscript as Transcript
from distprove.stark.transcript import work_is_done

histories = st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=40)), max_size=4)


def draw(history: list[tuple[bytes, bytes]], purpose: bytes = b"test") -> tuple[int, ...]:
    transcript = Transcript(purpose)
    for label, data in history:
        transcript.absorb(label, data)
    return (*transcript.extension(b"x"), *transcript.indices(b"i", 5, 40))


@given(histories, histories)
def test_different_histories_draw_differently(a: list[tuple[bytes, bytes]], b: list[tuple[bytes, bytes]]) -> None:
    assert (draw(a) == draw(b)) == (a == b)


def test_moving_a_byte_between_fields_changes_everything() -> None:
    assert draw([(b"ab", b"c")]) != draw([(b"a", b"bc")])
    assert draw([(b"a", b""), (b"b", b"")]) != draw([(b"ab", b"")])
    assert draw([], b"p") != draw([], b"q")


def test_challenges_are_canonical_differ_and_depend_on_their_label() -> None:
    transcript, other = Transcript(b"test"), Transcript(b"test")
    drawn = [transcript.extension(b"x") for _ in range(50)]
    assert len(set(drawn)) == 50
    assert all(0 <= c < P for element in drawn for c in element)
    assert other.extension(b"y") != drawn[0]


def test_indices_are_below_their_bound_and_use_it_all() -> None:
    indices = Transcript(b"test").indices(b"i", 400, 3)
    assert set(indices) == set(range(8))


def test_work() -> None:
    seed = bytes(32)
    nonce = next(n for n in range(1 << 20) if work_is_done(seed, n, 8))
    assert not any(work_is_done(seed, n, 8) for n in range(nonce))
    assert work_is_done(seed, nonce + 1, 0)
    assert not work_is_done(bytes([1]) + bytes(31), nonce, 8)
