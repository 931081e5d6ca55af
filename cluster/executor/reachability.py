"""Whether a Ray can be reached: before it is joined, and for as long as a job uses it.

Ray itself waits ten minutes and longer for an address where nothing answers. When the head or the raylet of a driver is
gone, Ray ends the driver's process a minute later, without a word to Python. A node whose network is cut off is dead to
Ray after more than a minute, and no call of one of its actors ends before. So this module connects to all of them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from actors import patience
from actors.driver_liveness import Address, by_number, taking
from cluster.executor.placement import Node
from distprove.errors import ClusterError

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4
"""The kind of frame with which whoever speaks HTTP/2, as Ray's head does, answers that."""


LOOPBACK_ENV = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""A variable that Ray reads when it is imported. With "0" Ray listens on the loopback interface alone, where a driver
then looks for it."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def require_ray(address: str) -> None:
    """Raise ClusterError, within seconds, unless a Ray answers at `address`. What is no host:port is left to Ray."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=patience.RAY_CONNECTS) as line:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return
            line.settimeout(patience.RAY_ANSWERS)
            line.sendall(_PREFACE)
            answer = line.recv(9)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ClusterError(f"no Ray to join at {address}: nothing answers there ({reason})") from None
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise ClusterError(f"no Ray to join at {address}: what answers there is not the head of a Ray")
    if os.environ.get(LOOPBACK_ENV) != "0" and only_on_loopback(address):
        raise ClusterError(
            f"no Ray to join at {address}: it listens on the loopback interface alone, and Ray would look for it at "
            f"{_own_host()}; set {LOOPBACK_ENV}=0 here before Ray is imported, as for its head"
        )


def only_on_loopback(address: str) -> bool:
    """Whether `address` is on the loopback interface, and something answers there that does not answer at this
    machine's own address. Ray takes the latter in place of the former, and would wait there for minutes."""
    host, _, port = address.rpartition(":")
    if host.strip("[]") not in LOOPBACK or not port.isdecimal():
        return False
    return _takes(host.strip("[]"), int(port)) and not _takes(_own_host(), int(port))


def _takes(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=patience.RAY_CONNECTS):
            return True
    except (OSError, OverflowError):
        return False


def _own_host() -> str:
    """The address at which other machines reach this one, as Ray finds it: that of the route to the outside."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect(("8.8.8.8", 80))  # sends nothing
            return str(route.getsockname()[0])
    except OSError:
        return LOOPBACK[0]


def head_address() -> Address:
    """The address of the head of the Ray that this process is connected to. By number where it answers: to look up a
    name takes a driver that is cut off up to a minute."""
    import ray

    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    return by_number((host.strip("[]"), int(port)))


@contextmanager
def watching(lost: Callable[[str], None], nodes: Nodes, head: Address, raylet: Address, *, own: bool) -> Iterator[None]:
    """Inside the block, call `lost` once with the reason when the head of the Ray that this process is connected to, or
    its raylet here, is gone; and look at its `nodes`. `own`: that Ray was started here."""
    over = threading.Event()
    after = patience.RAY_LOST_HERE if own else patience.RAY_LOST

    def look() -> None:
        since: dict[str, float] = {}
        while not over.wait(patience.RAY_LOOK):
            with suppress(OSError):  # no descriptor is free, which says nothing of them: there is another look
                for name, where in (("head", head), ("raylet", raylet)):
                    reason = _silent(where, own)
                    began = since.setdefault(name, time.monotonic()) if reason else since.pop(name, None)
                    if reason and began is not None and time.monotonic() - began >= after:
                        lost(f"its {name} does not answer ({reason})")
                        return
                nodes.look()

    thread = threading.Thread(target=look, name="distprove-ray-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def reachable(host: str) -> Iterator[Address | None]:
    """Inside the block, an address of this machine's `host` that takes connections for as long as this process lives:
    others see by it whether it does, and are told nothing. None where there can be none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    over = threading.Event()
    try:
        server = socket.create_server((host, 0), family=family, backlog=4096)
    except OSError:
        yield None
        return

    def take() -> None:
        while not over.is_set():
            try:
                server.accept()[0].close()
            except OSError:  # no descriptor is free
                over.wait(patience.RAY_LOOK)

    thread = threading.Thread(target=take, name="distprove-reachable", daemon=True)
    thread.start()
    try:
        yield server.getsockname()[:2]
    finally:
        over.set()
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()


class Nodes:
    """The nodes of a Ray, and which of them cannot be reached any more. A node that never answered here, as behind a
    firewall, says nothing by its silence."""

    def __init__(self, listed: Callable[[], Iterable[Node]]) -> None:
        self._listed = listed
        self._heard: dict[str, float] = {}
        self._silent: frozenset[str] = frozenset()

    def lacks(self, node: str) -> bool:
        """Whether that node answered before and does not answer now."""
        return node in self._silent

    def look(self) -> None:
        """Ask all of them, for up to `patience.RAY_LOOK` seconds."""
        nodes = [node for node in self._listed() if node.port]
        found, now = answering(nodes, patience.RAY_LOOK), time.monotonic()
        self._heard |= dict.fromkeys(found, now)
        late = now - patience.NODE_SILENT
        self._silent = frozenset(node.id for node in nodes if self._heard.get(node.id, now) <= late)


def answering(nodes: Iterable[Node], seconds: float) -> set[str]:
    """The nodes whose raylets take a connection within that time. Their systems do so, however busy they are."""
    asked = {(node.address, node.port): node.id for node in nodes}
    return {asked[address] for address in taking(asked, seconds)}


def _silent(where: Address, own: bool) -> str | None:
    """The reason why nothing listens there; None where something does, or, on this machine, may yet. Raises OSError
    where no descriptor is free."""
    with socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_STREAM) as line:
        line.settimeout(patience.RAY_LISTENS)
        try:
            line.connect(where)
        except ConnectionRefusedError as error:
            return error.strerror
        except OSError as error:  # slow perhaps
            return None if own else error.strerror or str(error)
    return None
