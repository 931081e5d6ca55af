"""The backend of a command that computes in this process (`setup`, `bench`): a GPU if there is one, else the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.option_groups import OptionGroup
from distprove.errors import UsageError

if TYPE_CHECKING:
    from kernels.interface.backend import Backend


@dataclass(frozen=True)
class Computing(OptionGroup):
    """Options on where a command computes."""

    backend: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto"
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None

    def opened(self, *, device: int = 0) -> AbstractContextManager[Backend]:
        """The backend, closed at the end. Raises as `open_backend`."""
        return open_backend(self.backend, device=device, threads=self.threads)


@dataclass(frozen=True)
class Measure(Computing):
    """Options that say on which backend a benchmark runs, and how often."""

    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Samples; the median counts.")] = 7
    device: Annotated[int, typer.Option(min=0, help="CUDA device.")] = 0


@contextmanager
def open_backend(
    name: str = "auto", *, device: int = 0, threads: int | None = None, budget: int | None = None
) -> Iterator[Backend]:
    """The backend, closed at the end. `budget` bounds a device's memory in bytes. Raises UsageError for one that is not
    to be had, OutOfMemory for a budget that is not there."""
    from actors.backends import BACKENDS, BackendChoice, device_backend, make_backend
    from distprove.host.machine import inspect_machine
    from kernels.host.arena import HostArena

    if name not in ("auto", *BACKENDS):
        raise UsageError(f"unknown backend {name!r}; known: auto, {', '.join(sorted(BACKENDS))}")
    chosen = device_backend(name)
    found = chosen[1].devices() if chosen else 0
    if chosen and chosen[0] == name and device >= found:
        raise UsageError(f"{chosen[1].title} device {device} asked for, {found} usable here (see distprove doctor)")
    with_device = (chosen[0], device) if chosen and found else ("cpu", 0)
    cpus = threads or inspect_machine().processor.threads
    with HostArena() as arena:  # as a worker has
        backend = make_backend(BackendChoice(*with_device, threads=cpus, budget=budget), arena)
        try:
            yield backend
        finally:
            backend.close()
