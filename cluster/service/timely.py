"""Answers of HTTP that end: whoever answers may otherwise send a byte now and then, or a head without an end, for ever.

A socket's own timeout is for each piece that comes; here it is for the whole head, and for the body with as much time
as its bytes take at the slowest rate that is waited for.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

SLOWEST = 1 << 16
"""Bytes a second of a body, at which it is waited for beyond the timeout."""


class TimelyResponse(http.client.HTTPResponse):
    """An answer whose head comes within the timeout that the socket has when it is made. Reading raises TimeoutError
    once an answer is late."""

    fp: io.BufferedReader

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._timely = _Timely(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._timely)

    def allow(self, most: int) -> None:
        """Give the body its time: of at most so many bytes, about. To be called when the head is there."""
        self._timely.left_to_gain = most / SLOWEST


class _Timely(io.RawIOBase):
    """What a socket receives, until it is late."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._socket = raw, sock
        self._due = time.monotonic() + (sock.gettimeout() or 0.0)
        self.left_to_gain = 0.0
        """Seconds by which what comes may still put the end off."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._due - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer is late")
        self._socket.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        gained = min((count or 0) / SLOWEST, self.left_to_gain)
        self._due, self.left_to_gain = self._due + gained, self.left_to_gain - gained
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
