"""Whether the driver of a job lives and can be reached from another node.

Nobody tells a worker on a node that is cut off whether its job goes on. So it checks by itself that the driver's
process and the head of Ray take a connection. Their systems do that for them, however busy they are.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import NamedTuple

from actors import patience

Address = tuple[str, int]
"""Host and port."""


class DriverAddress(NamedTuple):
    """The addresses by which other nodes see whether a driver lives and can be reached."""

    head: Address
    """Address of the head of the driver's Ray."""
    process: Address
    """An address of the driver's process."""
    name: str = ""
    """The driver's name at the governors."""

    def answers(self) -> bool:
        """Whether both take a connection."""
        wanted = {self.head, self.process}
        return taking(wanted, patience.DRIVER_ANSWERS) == wanted


def by_number(address: Address) -> Address:
    """The address that a host's name stands for here, where it takes a connection; else the address as it is. A node
    that is cut off looks up no names."""
    with suppress(OSError), socket.create_connection(address, patience.DRIVER_ANSWERS) as line:
        host, port = line.getpeername()[:2]
        return host, port
    return address


def taking(addresses: Iterable[Address], seconds: float) -> set[Address]:
    """The addresses that take a connection within that time. One whose name means nothing here takes none. Raises
    OSError where this process can open no socket."""
    found, asked, poll = set(), {}, select.poll()
    with ExitStack() as stack:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            line = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            line.setblocking(False)
            try:
                begun = line.connect_ex(address) in (0, errno.EINPROGRESS)
            except OSError:  # no such name
                begun = False
            if not begun:
                continue
            asked[line.fileno()] = address, line
            poll.register(line, select.POLLOUT)
        late = time.monotonic() + seconds
        # What answered while this process was stopped is seen, however late that is.
        while asked and (ready := poll.poll(max(0.0, late - time.monotonic()) * 1000)):
            for descriptor, _ in ready:
                address, line = asked.pop(descriptor)
                poll.unregister(descriptor)
                if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    found.add(address)
    return found


def end_without(address: DriverAddress, end: Callable[[], object]) -> None:
    """Call `end`, and end this process, once the driver could not be reached for `patience.DRIVER_UNREACHED` seconds. A
    thread of its own checks that. A process that was stopped meanwhile begins to count anew. A driver that was never
    reached, as behind a firewall, does not end it."""

    def answers() -> bool:
        try:
            return address.answers()
        except OSError:  # this process has no descriptor free, which says nothing of the driver
            return True

    def look() -> None:
        reached = before = time.monotonic()
        if not answers():
            return
        while True:
            time.sleep(patience.DRIVER_LOOK)
            now = time.monotonic()
            if answers() or now - before > 2 * patience.DRIVER_LOOK + patience.DRIVER_ANSWERS:
                reached = now
            before = now
            if now - reached >= patience.DRIVER_UNREACHED:
                try:
                    end()
                finally:
                    os._exit(1)

    threading.Thread(target=look, name="distprove-driver-liveness", daemon=True).start()
