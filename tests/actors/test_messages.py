"""How a channel reads its messages: short and long ones, in whatever pieces they arrive; and its end."""

from __future__ import annotations

import os
import pickle
import random
import struct
import threading
import weakref
from collections.abc import Iterator
from multiprocessing import Pipe

import pytest

from actors.channel import HELD, READ, Channel, ChannelClosed, _messages

SIZES = [0, 1, 5, READ - 5, READ - 4, READ - 3, READ, READ + 1, 3 * READ + 7, 40 * READ]


def framed(message: bytes) -> bytes:
    return struct.pack("!i", len(message)) + message


def read_back(content: bytes, pieces: random.Random) -> list[bytes]:
    """What is read of a pipe into which `content` is written, piece by piece."""
    out, into = os.pipe()

    def write() -> None:
        view, most = memoryview(content), pieces.choice([3, 1000, READ, 1 << 22])
        while view:
            view = view[os.write(into, view[: pieces.randint(1, most if len(view) < 10_000 else READ)]) :]
        os.close(into)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        return [bytes(message) for message in _messages(out)]
    finally:
        writing.join()
        os.close(out)


@pytest.mark.parametrize("seed", range(8))
def test_messages_are_read_as_they_were_sent(seed: int) -> None:
    pieces = random.Random(seed)
    messages = [pieces.randbytes(pieces.choice(SIZES)) for _ in range(30)]
    assert read_back(b"".join(map(framed, messages)), pieces) == messages


def test_a_long_message_lies_where_the_one_before_did_unless_that_is_very_large() -> None:
    sizes = [3 * READ, 2 * READ, HELD + 1, 3 * READ]
    out, into = os.pipe()
    writing = threading.Thread(target=lambda: [os.write(into, framed(bytes(size))) for size in sizes])
    writing.start()
    reads = _messages(out)
    places = []
    for size in sizes:
        message = next(reads)
        assert isinstance(message, memoryview)
        assert len(message) == size
        places.append(message.obj)  # kept, so that no other place has its identity
    writing.join()
    os.close(into)
    assert next(reads, None) is None
    os.close(out)
    assert places[1] is places[0]
    assert places[3] is not places[2]


@pytest.mark.parametrize("size", [10, 3 * READ])
@pytest.mark.parametrize("cut", [1, 4])
def test_a_message_that_does_not_come_to_its_end_is_none(size: int, cut: int) -> None:
    whole, half = random.Random(1).randbytes(READ), framed(random.Random(2).randbytes(size))
    assert read_back(framed(whole) + half[:-cut], random.Random(3)) == [whole]


def test_a_very_long_message_is_not_held_until_the_next_long_one() -> None:
    """Short messages may follow it for as long as the process lives."""
    out, into = os.pipe()
    content = b"".join(map(framed, [bytes(HELD + 1), b"short"]))
    writing = threading.Thread(target=os.write, args=(into, content))
    writing.start()
    try:
        messages = _messages(out)
        long = next(messages)
        held = weakref.ref(long)
        del long
        assert next(messages) == b"short"
        assert held() is None
    finally:
        writing.join()
        os.close(into)
        os.close(out)


class Taker:
    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def take(self, message: bytes) -> None:
        self.taken.append(message)


def test_the_reader_of_a_channel_holds_no_message_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    def messages(descriptor: int) -> Iterator[memoryview]:
        message = memoryview(pickle.dumps(("tell", 0, Taker.take, ((b"long",), {}))))
        known = weakref.ref(message)
        yield message
        del message
        held.append(known() is not None)

    monkeypatch.setattr("actors.channel._messages", messages)
    taker, ended = Taker(), threading.Event()
    ours, theirs = Pipe()
    Channel(ours, taker, ended.set)
    assert ended.wait(60)
    theirs.close()
    assert taker.taken == [b"long"]
    assert held == [False]


def test_who_cannot_send_knows_that_the_other_side_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the reader does: a process that was killed as it had nothing to do was else taken to live, asked for
    something once more, and given up."""
    reads = threading.Event()

    def read_late(descriptor: int) -> Iterator[bytes]:
        reads.wait(60)
        yield from ()

    monkeypatch.setattr("actors.channel._messages", read_late)
    ours, theirs = Pipe()
    channel = Channel(ours, None)
    theirs.close()
    try:
        assert not channel.ended
        with pytest.raises(ChannelClosed):
            channel.call(Taker.take, b"anything")
        assert channel.ended
    finally:
        reads.set()
