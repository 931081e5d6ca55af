"""Where the driver of a job is, and whether it can still be reached from where this is asked.

What serves a job on a node that is cut off is told nothing: neither that the job is over nor that it goes on. It looks
for itself whether the systems of the driver's node and of the head take a connection, which they do however busy they
are.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import NamedTuple

Address = tuple[str, int]
"""Host and port."""

ANSWERS = 1.2
"""Seconds that a system has to take a connection: the first packet may be lost, and is sent again after one."""
LOOK = 3.0
"""Seconds between two looks of a worker for the driver of its job."""
UNREACHED = 15.0
"""Seconds after which a worker whose driver cannot be reached ends. A driver that lost its head has given up after ten;
one that is cut off for less finds its workers where they were."""


class Home(NamedTuple):
    """Where a driver is."""

    head: Address
    """The head of its Ray."""
    raylet: Address
    """The raylet of its node."""

    def answers(self, seconds: float = ANSWERS) -> bool:
        """Whether both take a connection within that time."""
        wanted = {self.head, self.raylet}
        return taking(wanted, seconds) == wanted


def taking(addresses: Iterable[Address], seconds: float) -> set[Address]:
    """The addresses that take a connection within that time."""
    found, asked, poll = set(), {}, select.poll()
    with ExitStack() as stack:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            line = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            line.setblocking(False)
            if line.connect_ex(address) not in (0, errno.EINPROGRESS):
                continue
            asked[line.fileno()] = address, line
            poll.register(line, select.POLLOUT)
        late = time.monotonic() + seconds
        while asked and (left := late - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                address, line = asked.pop(descriptor)
                poll.unregister(descriptor)
                if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    found.add(address)
    return found


def end_without(home: Home, end: Callable[[], object]) -> None:
    """Call `end`, and end this process, once the driver there could not be reached for `UNREACHED` seconds. Looked at
    on a thread of its own. A process that was stopped meanwhile begins to count anew, and where the driver could not be
    reached from the first, as behind a firewall, that says nothing."""

    def look() -> None:
        reached = before = time.monotonic()
        if not home.answers():
            return
        while True:
            time.sleep(LOOK)
            now = time.monotonic()
            if home.answers() or now - before > 2 * LOOK + ANSWERS:
                reached = now
            before = now
            if now - reached >= UNREACHED:
                end()
                os._exit(1)

    threading.Thread(target=look, name="distprove-home", daemon=True).start()
