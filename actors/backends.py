"""Backends by name, made where they are used: in the process, and on the thread, that will compute."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from distprove.errors import UsageError
from kernels.backend import Backend


@dataclass(frozen=True)
class BackendChoice:
    """Which backend a prover gets. Plain data, so that it can be sent to an actor."""

    name: str
    """"cpu", "cuda", or "module:factory": a callable with the keyword arguments device, threads and budget."""
    device: int = 0
    """CUDA device number as the process sees it; an actor with one GPU sees it as 0."""
    threads: int = 1
    """CPU threads: of the CPU backend's kernels; of a GPU's compilation and staging."""
    budget: int | None = None
    """Bytes of the backend's memory; None leaves it to the backend."""


def make_backend(choice: BackendChoice) -> Backend:
    """The backend. Raises UsageError for an unknown name or a backend that is not installed, BackendError from it."""
    module, _, factory = {"cpu": "kernels.cpu:CpuBackend", "cuda": "kernels.cuda:CudaBackend"}.get(
        choice.name, choice.name
    ).partition(":")
    if not factory:
        raise UsageError(f'unknown backend {choice.name!r}; known: cpu, cuda, or "module:factory"')
    try:
        make = getattr(import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"backend {choice.name} is not installed here: {error}") from None
    arguments: dict[str, Any] = {"device": choice.device, "threads": choice.threads, "budget": choice.budget}
    if choice.name == "cpu":
        del arguments["device"]
    backend: Backend = make(**arguments)
    return backend
