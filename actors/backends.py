"""Backends by name, made where they are used: in the process, and on the thread, that will compute. A Ray actor imports
this too, and computes nothing: NumPy is not imported here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.grants import Governor
from distprove.errors import UsageError
from kernels.interface.entry import BackendEntry

if TYPE_CHECKING:
    from kernels.cpu.leased_pool import Lease
    from kernels.host.arena import HostArena
    from kernels.interface.backend import Backend


@dataclass(frozen=True)
class BackendChoice:
    """Choice of a prover's backend. Plain data, so that it can be sent to an actor."""

    name: str
    """A name that `find_backend` knows."""
    device: int = 0
    """Device number as the process sees it; an actor with one GPU sees it as 0."""
    threads: int = 1
    """CPU threads: of the CPU backend's kernels; of a GPU's compilation and staging."""
    budget: int | None = None
    """Bytes of the device's memory, for all that share it; None leaves it to the backend."""
    host_threads: int = 1
    """CPU threads for what is computed on the CPU beside a GPU."""
    share: int = 1
    """Number of provers that share the device: each may take that part of the budget, or else of the device's memory.
    """


def leased(governor: Governor | None, threads: int) -> Lease | None:
    """What computations on the CPU lease of `governor`: `threads`, or fewer while others hold some, but at least half
    of them: with one or two of many it would still be at one operation long after the others are done. None without a
    governor: they need no lease."""
    if governor is None:
        return None

    @contextmanager
    def lease() -> Iterator[int]:
        with governor.lease(threads=threads, least=max(1, threads // 2)) as held:
            yield held.threads

    return lease


BACKENDS = {"cuda": "kernels.cuda.entry:ENTRY", "cpu": "kernels.cpu.backend:CpuBackend"}
"""The backends that ship: a `BackendEntry` for what has devices, else the factory."""


def find_backend(name: str) -> Any:
    """The `BackendEntry` or factory of a backend: one that ships, or "module:name". A factory computes on the CPUs.

    Raises UsageError for an unknown name or a backend that is not installed.
    """
    module, _, attribute = BACKENDS.get(name, name).partition(":")
    if not attribute:
        raise UsageError(f'unknown backend {name!r}; known: {", ".join(sorted(BACKENDS))}, or "module:factory"')
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"backend {name} is not installed here: {error}") from None


def device_backend(asked: str) -> tuple[str, BackendEntry] | None:
    """The backend, by name, that has a prover on each device where `asked` is asked for ("auto": the first that has
    devices at all); None where provers are on the CPUs."""
    for name in BACKENDS if asked == "auto" else (asked,):
        found = find_backend(name)
        if isinstance(found, BackendEntry):
            return name, found
    return None


class Ahead(NamedTuple):
    """A device that a process opens before it is told for what."""

    backend: str
    device: int
    early: str
    """As in `BackendEntry`."""


def ahead_of(backend: str, device: int) -> Ahead | None:
    """What a process needs to know to open that device ahead; None where there is nothing to open."""
    entry = find_backend(backend)
    return Ahead(backend, device, entry.early) if isinstance(entry, BackendEntry) else None


def refused(ahead: Ahead) -> tuple[str, str]:
    """(why a device is not to be used on this machine, or ""; why that is not known, or ""). No library is loaded where
    no device was ever given up."""
    from distprove.host.set_aside import remembered  # here: every worker imports this module as it starts

    devices, trouble = remembered()
    found = None
    with suppress(Exception):  # what fails here fails again, and is told, when the device is opened
        entry = find_backend(ahead.backend) if devices else None
        found = devices.get(entry.identify(ahead.device)) if isinstance(entry, BackendEntry) else None
    return str(found or ""), trouble


def open_ahead(ahead: Ahead) -> None:
    """Open a device, in the process that will use it. Whatever fails here fails again, and is told, when the backend is
    made."""
    with suppress(Exception):
        entry = find_backend(ahead.backend)
        if isinstance(entry, BackendEntry):
            entry.ahead(ahead.device)


def make_backend(choice: BackendChoice, arena: HostArena | None = None, lease: Lease | None = None) -> Backend:
    """The backend, with those of device, threads, budget, share, arena and lease that its factory names, or else the
    first three. One on the CPU has its vectors in `arena` and computes under `lease`.

    Raises UsageError for an unknown name or a backend that is not installed, BackendError from it.
    """
    make = find_backend(choice.name)
    if isinstance(make, BackendEntry):
        make = find_backend(make.factory)
    budget = None if choice.budget is None else choice.budget // choice.share
    plain = {"device": choice.device, "threads": choice.threads, "budget": budget}
    every = {**plain, "share": choice.share, "arena": arena, "lease": lease}
    named = {name: every[name] for name in signature(make).parameters if name in every}
    backend: Backend = make(**(named or plain))
    return backend
