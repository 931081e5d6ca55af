"""Calls between two processes of one machine, in both directions, over one connection.

Each side serves one object, whose methods the other side calls (`actors.protocol`). A call waits on the thread that
made it, so any number may be under way; they are served on threads of the channel's own, in no order. What is told
(`tell`) has no answer, and is served in the order in which it was sent, before anything that was sent after it begins.

Messages are pickled: both ends are processes of one program, and one was started by the other.
"""

from __future__ import annotations

import itertools
import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Concatenate

from actors.protocol import P, R, Served, Verb, invoke

READ = 1 << 16
"""Most bytes that are read at once."""
HELD = 1 << 22
"""Bytes of a long message whose place is used for the next one, at most: the pages of a new place cost more than what
is read into them."""


class ChannelClosed(Exception):
    """The other side is gone."""


class RemoteError(Exception):
    """An error of the other side that cannot be sent: its type's name."""


class Channel:
    """One end. It ends with the process at the other one."""

    def __init__(self, connection: Connection, served: object, on_end: Callable[[], None] = lambda: None) -> None:
        """The other side calls methods of what is `served`. `on_end` is called once, on the channel's own thread, when
        the connection has ended and every call of ours has been told so."""
        self._connection = connection
        self._served = served
        self._on_end = on_end
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, _Answer] = {}
        self._threads = _Threads()
        self.ended = False
        """Whether the other side is known to be gone."""
        self._reader = threading.Thread(target=self._read, name="distprove-channel", daemon=True)
        self._reader.start()

    def call(self, verb: Callable[Concatenate[Served, P], R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a verb of the other side and return what it returns. Raises what it raises, or ChannelClosed."""
        answer, number = _Answer(), next(self._numbers)
        with self._lock:
            if self.ended:
                raise ChannelClosed
            self._waiting[number] = answer
        try:
            self._send(("call", number, verb, (arguments, named)))
            answer.ready.acquire()
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer.error is not None:
            raise answer.error
        value: R = answer.value
        return value

    def tell(self, verb: Callable[Concatenate[Served, P], object], *arguments: P.args, **named: P.kwargs) -> None:
        """Call a verb of the other side, which must be quick, without an answer. Raises ChannelClosed where the end is
        known."""
        self._send(("tell", 0, verb, (arguments, named)))

    def send_within(self, seconds: float) -> None:
        """End the connection where a message cannot be sent for so long, because the other side does not read."""
        with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *divmod(int(seconds * 1e6), 10**6))
            )

    def cut(self) -> None:
        """End the connection from this side: calls under way raise ChannelClosed."""
        with suppress(OSError, ValueError), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def _send(self, message: tuple[Any, ...]) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)  # before the lock: it may be long
        with self._sending:
            try:
                self._connection.send_bytes(data)
            except (OSError, ValueError):  # the latter: a peer that went while it was being written to
                self.cut()  # nothing that follows half a message is understood
                self.ended = True  # and not when the reader hears of it: who is told may ask at once
                raise ChannelClosed from None

    def _read(self) -> None:
        try:
            for message in _messages(self._connection.fileno()):
                self._take(*pickle.loads(message))
                del message  # it may be very long, and the next one far
        except OSError:
            pass
        finally:
            with self._lock:
                self.ended = True
                waiting = list(self._waiting.values())
            with self._sending:
                self._connection.close()
            for answer in waiting:
                answer.give(None, ChannelClosed())
            self._threads.end()
            self._on_end()

    def _take(self, kind: str, number: int, verb: Verb, body: Any) -> None:
        if kind == "tell":
            invoke(self._served, verb, *body)
        elif kind == "call":
            self._threads.run(lambda: self._serve(number, verb, body))
        else:
            with self._lock:
                answer = self._waiting.pop(number, None)  # so that the end finds only those who still wait
            if answer is not None:
                answer.give(*body)

    def _serve(self, number: int, verb: Verb, body: tuple[Any, Any]) -> None:
        value, error = None, None
        try:
            value = invoke(self._served, verb, *body)
        except BaseException as raised:  # whatever it is, the caller must hear of it
            error = sendable(raised)
        try:
            self._send(("answer", number, None, (value, error)))
        except ChannelClosed:
            pass
        except Exception as unsendable:  # of the value
            self._send(("answer", number, None, (None, sendable(unsendable))))


def _messages(descriptor: int) -> Iterator[bytes | memoryview]:
    """Messages as `Connection.send_bytes` frames them, until the other side ends.

    One call reads all that has arrived, where `recv_bytes` makes two or three for each message: after each call this
    thread waits for the interpreter, which beside a prover is seldom free. A long message is read to a place of its
    own, and is there until the next one is asked for: to append what arrives to what there is, and then to copy it,
    took twice the time.
    """
    buffer, place = bytearray(), bytearray()
    while data := os.read(descriptor, READ):
        buffer += data
        while (start := 4) <= len(buffer):
            size = int.from_bytes(buffer[:4], "big", signed=True)
            if size == -1:  # a message of 2 GiB or more has its length behind that
                start = 12
                size = int.from_bytes(buffer[4:12], "big") if len(buffer) >= start else READ
            if len(buffer) >= start + size:
                yield bytes(memoryview(buffer)[start : start + size])
                del buffer[: start + size]
                continue
            if size > READ:
                if len(place) < size:
                    place = bytearray(size)
                long, filled = memoryview(place)[:size], len(buffer) - start
                long[:filled] = buffer[start:]
                buffer.clear()
                while filled < size:
                    if not (count := os.readv(descriptor, [long[filled:]])):
                        return
                    filled += count
                yield long
                del long
                if size > HELD:
                    place = bytearray()
            break


class _Answer:
    """Result or error of a call."""

    def __init__(self) -> None:
        self.ready = threading.Lock()
        self.ready.acquire()
        self.value: Any = None
        self.error: BaseException | None = None

    def give(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error = value, error
        self.ready.release()


class _Threads:
    """Daemon threads, as many as there are calls at once; those without one wait for the next."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0

    def run(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._work, name=f"distprove-call-{self._count}", daemon=True).start()
        self._calls.put(call)

    def end(self) -> None:
        """Idle threads end, and the others when they are done."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # what it held shall not live on until the next comes
            with self._lock:
                self._idle += 1


def sendable(error: BaseException) -> BaseException:
    """The error, without its traceback, or its name where it cannot be sent."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    return again if isinstance(again, BaseException) else RemoteError(type(error).__name__)
