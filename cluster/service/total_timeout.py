"""HTTP answers under a total timeout: a server may otherwise send a byte now and then, or a head without an end, for
ever.

A socket's own timeout starts again with each piece that arrives. Here one timeout is for the whole head, and the body
adds the time that its bytes take at the slowest rate accepted.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

SLOWEST = 1 << 16
"""Bytes a second of a body, at which the client waits beyond the timeout."""


class TimedResponse(http.client.HTTPResponse):
    """An answer whose head arrives within the timeout that the socket has at first. Reading raises TimeoutError once
    the answer is late."""

    fp: io.BufferedReader

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._timed = _TimedReader(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._timed)

    def allow(self, most: int) -> None:
        """Extend the timeout for a body of at most about `most` bytes. Call this when the head has arrived."""
        self._timed.left_to_gain = most / SLOWEST


class _TimedReader(io.RawIOBase):
    """Reads a socket until its deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw, self._socket = raw, sock
        self._due = time.monotonic() + (sock.gettimeout() or 0.0)
        self.left_to_gain = 0.0
        """Seconds by which further bytes may still put the deadline off."""

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
