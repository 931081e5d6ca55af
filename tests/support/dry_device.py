"""A device that takes memory and launches nothing: what a prover allocates, at any size, without its computations.

It hands out memory in the blocks of a GPU's arena.
Its memory is never touched, so that terabytes of it cost nothing. Nothing that it computes means anything: proofs made
on it are of the right shape and false.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any
from unittest import mock

import numpy as np

from distprove.stark.field import P
from distprove.stark.multilinear import prover
from distprove.stark.multilinear.challenges import ProofTranscript
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.program import Program, Trace
from distprove.steps import Steps
from kernels.cuda.backend import CudaBackend
from kernels.cuda.compiler import KernelResources
from kernels.cuda.device import Argument, Shape, Stream
from kernels.cuda.goldilocks import multilinear
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray
from kernels.interface.device_blocks import block_bytes
from kernels.source import KernelSource
from tests.support.emulated_device import EmulatedDevice

MAP_NORESERVE = 0x4000  # of Linux; the module mmap of Python 3.11 has no name for it
UNRESERVED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
"""Pages that nobody touches, and of which the system promises none."""


class DryKernel:
    """A kernel that does nothing."""

    def __init__(self, name: str) -> None:
        self.resources = KernelResources(name, 0, 0, 0, 0, 0)
        self.launches = 0

    def block(self, *, limit: int = 1024) -> int:
        return min(limit, 256)

    def blocks_per_sm(self, block: int) -> int:
        return 2

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        self.launches += 1

    def launch_items(
        self, items: int, args: tuple[Argument, ...], *, spread: bool = False, stream: Stream | None = None
    ) -> None:
        self.launches += 1


class DryDevice(EmulatedDevice):
    """A device that hands out untouched memory of a budget in bytes, and launches nothing."""

    def __init__(self, budget: int = 1 << 50) -> None:
        super().__init__(budget=budget, sm_count=132)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        nbytes = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        if self._used + nbytes > self._budget:
            raise OutOfMemory(f"{nbytes} bytes of device memory needed; {self._budget - self._used} are free")
        raw = np.frombuffer(mmap(-1, max(nbytes, 1), flags=UNRESERVED), dtype=np.uint8, count=nbytes)
        taken = block_bytes(nbytes)
        self._count(taken)
        weakref.finalize(raw, self._count, -taken)
        return raw.view(dtype).reshape(shape)

    @property
    def used(self) -> int:
        """Bytes of memory in use."""
        return self._used

    def clear(self, array: Array) -> None:
        return

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        return

    def download(self, array: Array) -> HostArray:
        """Elements of the field that are not zero, which a prover may divide by."""
        if array.dtype != np.uint64:
            return super().download(array)
        return np.random.default_rng(array.size).integers(1, P, array.shape, dtype=np.uint64)

    def kernel(self, source: KernelSource, name: str) -> Any:
        return DryKernel(name)


def _zeros(base: int, count: int, *, first: int = 1) -> HostArray:
    return np.zeros(count, dtype=np.uint64)


@dataclass
class PeakSteps(Steps):
    """Notes the most memory in use in each step."""

    device: DryDevice = field(default_factory=DryDevice)
    peaks: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.device.watch_memory()
        yield
        self.peaks[name] = max(self.peaks.get(name, 0), self.device.memory_peak())


@dataclass(frozen=True)
class Measured:
    """What a proof of some shape takes, in bytes."""

    key: int
    held: int
    """Between commitment and proof, without the key."""
    peaks: dict[str, int]
    """By step, without the key."""
    plan: str


def measured(
    program: Program,
    heights: Sequence[int | None],
    params: Parameters,
    budget: int = 1 << 50,
    *,
    leaves_alone: bool = False,
) -> Measured:
    """Commit to a partition of these heights (log2) and prove it, on a device of `budget` bytes. The trace is made out
    of nothing, and no lookups are counted. Dropped codewords are all made again, as plans predict it, or with
    `leaves_alone` those of the opened leaves. Raises OutOfMemory."""
    device = DryDevice(budget)
    backend = CudaBackend(device=device)
    pk = make_key(program, params, backend)
    key = device.used

    def trace(inputs: Any, backend: Any) -> Trace:
        given = zip(pk.key.tables, heights, strict=True)
        columns = [None if h is None else backend.empty((t.main_width, 1 << h)) for t, h in given]
        return Trace(columns, (0,) * pk.key.statement.public_values)

    with (
        mock.patch.object(program, "trace", trace),
        mock.patch.object(type(program.counting), "counts", ()),
        mock.patch.object(backend.goldilocks, "_grind", return_value=0),
        mock.patch.object(ProofTranscript, "resume"),
        mock.patch("kernels.cuda.goldilocks.lde.powers", _zeros),  # of a table that takes seconds
        nullcontext() if leaves_alone else mock.patch(f"{multilinear.__name__}.takes", return_value=False),
    ):
        steps = PeakSteps(device=device)
        committed = prover.commit(pk, "part", {}, steps, expected=tuple(heights))
        held = device.used - key
        assert committed.nbytes <= held < committed.nbytes + (1 << 20)
        prover.prove(pk, committed, bytes(32), steps)
    return Measured(key, held, {name: peak - key for name, peak in steps.peaks.items()}, committed.plan.name)
