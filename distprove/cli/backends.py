"""The backend of a command that computes in this process (`setup`, `bench`): a GPU if there is one, else the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distprove.errors import UsageError

if TYPE_CHECKING:
    from kernels.interface.backend import Backend


@contextmanager
def open_backend(name: str = "auto", *, device: int = 0, threads: int | None = None) -> Iterator[Backend]:
    """The backend, closed at the end. Raises UsageError for one that is not to be had."""
    from actors.backends import BACKENDS, BackendChoice, device_backend, entry_of, make_backend
    from distprove.host.machine import inspect_machine

    if name not in ("auto", *BACKENDS):
        raise UsageError(f"unknown backend {name!r}; known: auto, {', '.join(BACKENDS)}")
    chosen = device_backend(name) or "cpu"
    count = entry_of(chosen).devices
    found = count() if count else 0
    if name == chosen and count and device >= found:
        raise UsageError(
            f"{entry_of(chosen).title} device {device} asked for, {found} usable here (see distprove doctor)"
        )
    cpus = threads or inspect_machine().processor.threads
    backend = make_backend(BackendChoice(chosen if found else "cpu", device=device if found else 0, threads=cpus))
    try:
        yield backend
    finally:
        backend.close()
