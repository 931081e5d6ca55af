"""The inputs of one OpenVM proof: traces and public values of the AIRs that are present, from a file.

The format is `tests/interop/openvm-judge/FORMAT.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.stark.openvm.container import TRACES_MAGIC, Container, Writer, digest, fields, integers
from distprove.stark.openvm.key import OpenVmAir, OpenVmKey
from distprove.stark.openvm.proof import TraceShape
from distprove.stark.openvm.shape import Shape
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.staged import Staged
from kernels.maths.babybear import Elements, P
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.poseidon2_babybear import DIGEST

TRACES_FORMAT = "openvm-traces"
MAX_LOG_HEIGHT = 27


@dataclass(frozen=True)
class CachedMain:
    """A part of a main trace that has a commitment of its own."""

    root: Elements
    """Commitment to it, (8,)."""
    columns: Elements = field(repr=False)
    """(width, height)"""


@dataclass(frozen=True)
class AirTrace:
    """The trace of an AIR. It is secret but for its public values."""

    air: int
    """Number of the AIR in the key."""
    public_values: tuple[int, ...]
    common: Elements = field(repr=False)
    """The columns that are committed together with those of all other AIRs, (width, height)."""
    cached: tuple[CachedMain, ...] = field(repr=False)

    @property
    def height(self) -> int:
        """Number of rows, a power of two."""
        return int(self.common.shape[1])

    @property
    def shape(self) -> TraceShape:
        """What a proof states of it, beside its public values."""
        roots = np.array([part.root for part in self.cached], dtype=np.uint32).reshape(-1, DIGEST)
        return TraceShape(log2_of(self.height), roots)

    def load(self, kernels: OpenVmKernels) -> Array:
        """Return the common columns in the backend's memory, for one proof."""
        return kernels.load(self.common)

    def release(self) -> None:
        """Let go of the loaded columns, beside which nothing of them is kept here. May be called again."""


@dataclass(frozen=True)
class StagedTrace(AirTrace):
    """A trace whose common columns are on their way to a backend. It serves one proof."""

    staged: Staged = field(repr=False)
    """The columns as they are in `common`."""

    def load(self, kernels: OpenVmKernels) -> Array:
        """Return the common columns in the backend's memory, which the staged ones are turned into."""
        return kernels.adopt(self.staged.array())

    def release(self) -> None:
        """Let go of the staged columns: their memory comes back once the device has read them."""
        self.staged.release()

    @classmethod
    def of(cls, trace: AirTrace, backend: Backend) -> StagedTrace:
        """Begin to copy a trace. Raises OutOfMemory."""
        staged = backend.stage(trace.common)
        return cls(trace.air, trace.public_values, trace.common, trace.cached, staged)


def read_traces(path: Path, key: OpenVmKey) -> tuple[AirTrace, ...]:
    """Read a traces' file. Raises InputError, or FormatError if it is malformed or not of the key's shape."""
    return parse_traces(Container.read(path, TRACES_MAGIC, TRACES_FORMAT), key)


def traces_to_bytes(traces: Sequence[AirTrace]) -> bytes:
    """Return the file of traces, which are by ascending number of the AIR: the same bytes as openvm-judge writes."""
    writer = Writer()
    header = [
        {
            "air": trace.air,
            "height": trace.height,
            "public_values": list(trace.public_values),
            "cached_mains": [
                {"commit": part.root.tolist(), "trace": writer.add(part.columns)} for part in trace.cached
            ],
            "common_main": writer.add(trace.common),
        }
        for trace in traces
    ]
    return writer.assembled(TRACES_MAGIC, TRACES_FORMAT, {"traces": header})


def parse_traces(file: Container, key: OpenVmKey) -> tuple[AirTrace, ...]:
    """Parse traces, by ascending number of the AIR. Raises FormatError if they are not of the key's shape."""
    header = fields(file.header, {"traces": list}, file.what)
    found = tuple(_trace(file, each, key, f"{file.what}: trace {i}") for i, each in enumerate(header["traces"]))
    file.end()
    check_traces(found, key, file.what)
    return found


def check_traces(traces: tuple[AirTrace, ...], key: OpenVmKey, what: str) -> None:
    """Raise FormatError unless the traces are in order, and the key allows a proof of their shape."""
    if any(a.air >= b.air for a, b in pairwise(traces)):
        raise FormatError(f"{what}: the traces are not by ascending number of the AIR")
    try:
        shape_of(key, traces)
    except UsageError as error:
        raise FormatError(f"{what}: {error}") from None


def shape_of(key: OpenVmKey, traces: Sequence[AirTrace]) -> Shape:
    """Return the shape of the proof of traces. Raises UsageError where the key allows none: a trace that is missing or
    too tall, or more rows or stacked columns together than it has room for."""
    by_air = {trace.air: trace.shape for trace in traces}
    try:
        return Shape.of(key, [by_air.get(number) for number in range(len(key.airs))])
    except InvalidProof as error:
        raise UsageError(f"the key allows no proof of these traces: {error}") from None


def _trace(file: Container, header: object, key: OpenVmKey, what: str) -> AirTrace:
    kinds = {"air": int, "height": int, "public_values": list, "common_main": dict, "cached_mains": list}
    trace = fields(header, kinds, what)
    [number] = integers([trace["air"]], len(key.airs), f"{what}: air")
    air, height = key.airs[number], trace["height"]
    if height < 1 or height & (height - 1) or height > 1 << MAX_LOG_HEIGHT:
        raise FormatError(f"{what}: {count_of(height, 'row')}, which is no power of two up to 2^{MAX_LOG_HEIGHT}")
    _check_height(air, height, key.params.log_skip, what)
    what = f"{what}: AIR {number} of the key, {air.name}"
    public = integers(trace["public_values"], P, f"{what}: public_values", air.public_values)
    if len(trace["cached_mains"]) != len(air.widths.cached):
        raise FormatError(
            f"{what}: {count_of(len(trace['cached_mains']), 'cached part')} instead of {len(air.widths.cached)}"
        )
    common = file.elements(trace["common_main"], air.widths.common, height)
    cached = tuple(
        CachedMain(digest(part["commit"], what), file.elements(part["trace"], width, height))
        for part, width in zip(
            (fields(part, {"commit": list, "trace": dict}, what) for part in trace["cached_mains"]),
            air.widths.cached,
            strict=True,
        )
    )
    return AirTrace(number, public, np.ascontiguousarray(common), cached)


def _check_height(air: OpenVmAir, height: int, log_skip: int, what: str) -> None:
    if air.preprocessed is not None and height.bit_length() - 1 != air.preprocessed.n + log_skip:
        rows = 1 << (air.preprocessed.n + log_skip)
        raise FormatError(f"{what}: {count_of(height, 'row')}, but the preprocessed trace of {air.name} has {rows}")
