"""The backend of a command that computes in this process (`setup`, `bench`): a GPU if there is one, else the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distprove.errors import UsageError

if TYPE_CHECKING:
    from kernels.interface.backend import Backend

NAMES = ("auto", "cpu", "cuda")


@contextmanager
def open_backend(name: str = "auto", *, device: int = 0, threads: int | None = None) -> Iterator[Backend]:
    """The backend, closed at the end. Raises UsageError for one that is not to be had."""
    from actors.backends import BackendChoice, make_backend
    from cluster.executor.devices import cuda_devices
    from distprove.host.machine import inspect_machine

    if name not in NAMES:
        raise UsageError(f"unknown backend {name!r}; known: {', '.join(NAMES)}")
    found = cuda_devices() if name != "cpu" else 0
    if name == "cuda" and device >= found:
        raise UsageError(f"CUDA device {device} asked for, {found} usable here (see distprove doctor)")
    chosen = "cuda" if found else "cpu"
    count = threads or inspect_machine().processor.threads
    backend = make_backend(BackendChoice(chosen, device=device if found else 0, threads=count))
    try:
        yield backend
    finally:
        backend.close()
