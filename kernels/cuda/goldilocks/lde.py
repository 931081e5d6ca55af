"""Plans and runs the low-degree extensions of `cuda/src/goldilocks_lde.cu`: passes, tables, launch shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import product

import numpy as np

from kernels.cuda.device import Argument, ByValue, Device, Stream, grid_for, layout, parallel
from kernels.cuda.goldilocks.root_powers import RootPowers, log2, powers
from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity
from kernels.source import KernelSource

MAX_LOG_N = 24
MAX_LOG_BLOWUP = 6
"""Limits on log2 of rows and blow-up. Larger ones would need longer tables than a plan should keep."""
MAX_STRIDED = 2
"""Most strided passes, that is digits in front of the row's."""
LOG_FINE = 12
"""log2 of the entries of a fine table of roots of unity. Must equal LOG_FINE in goldilocks_lde.cu."""
TABLES = 16
"""Most small tables that share one launch. Must equal TABLES in goldilocks_lde.cu."""
LOG_WARP = 5
RUN_THREADS, MAX_LOG_RUN_TILE = 256, 12
"""Most threads of a block that interpolates runs, and log2 of the most elements that it takes."""
MAX_PLANS = 64
"""Most plans that are kept; the least recently used one goes first."""


class Part(IntEnum):
    """A part of goldilocks_lde.cu, by its number there. All together compile in six seconds: nobody waits for a part
    that its proof does not take."""

    EXTENSIONS = 0
    CODEWORDS = 1
    RUNS = 2

    @classmethod
    def of(cls, kernel: str) -> Part:
        """The part that has this kernel."""
        return {"lde": cls.EXTENSIONS, "encode": cls.CODEWORDS, "interpolate": cls.RUNS}[kernel.partition("_")[0]]


@dataclass(frozen=True)
class LdeProfile:
    """Tuning parameters. The defaults were the fastest of a dozen on an H200, at 2^16 to 2^24 rows."""

    log_elements: int = 4
    """log2 of the elements a thread holds in registers."""
    log_row: int = 12
    """log2 of the most points that are transformed as one row."""
    log_strided: int = 10
    """log2 of the most points that are transformed in one strided pass."""
    log_row_tile: int = 12
    """log2 of the elements of a row pass's tile, which a block holds in shared memory twice."""
    log_strided_tile: int = 13
    """log2 of the elements that a block of a strided pass holds in shared memory."""
    threads_per_sm: int = 1024
    """Threads per multiprocessor that the registers must leave room for: the occupancy."""

    def __post_init__(self) -> None:
        tiles = (self.log_row_tile, self.log_strided_tile)
        if not (
            2 <= self.log_elements <= 5
            and 1 <= self.log_row <= self.log_row_tile
            and 1 <= self.log_strided <= self.log_strided_tile
            and all(self.log_elements <= tile <= 10 + self.log_elements for tile in tiles)
        ):
            raise ValueError(f"{self} is not a shape that the kernels have")

    @cached_property
    def sources(self) -> dict[Part, KernelSource]:
        """The parts of goldilocks_lde.cu, compiled for this profile."""
        defines = {"LOG_ELEMENTS": self.log_elements, "RUN_THREADS": RUN_THREADS}
        for name, tile in (("STRIDED", self.log_strided_tile), ("ROWS", self.log_row_tile)):
            threads = 1 << (tile - self.log_elements)
            defines |= {f"{name}_THREADS": threads, f"{name}_BLOCKS": max(1, self.threads_per_sm // threads)}
        told = [(name, str(value)) for name, value in defines.items()]
        return {part: KernelSource("goldilocks_lde", (*told, ("PART", str(int(part))))) for part in Part}

    def shared_bytes(self, log_tile: int) -> int:
        """Bytes of shared memory of one tile with its padding. Must agree with `slot` in goldilocks_lde.cu."""
        size = 1 << log_tile
        return 8 * (size + (size >> self.log_elements) + (size >> (2 * self.log_elements)))


def plan_passes(log_n: int, profile: LdeProfile) -> tuple[int, ...]:
    """Return log2 of each digit: of the strided passes from the front, then of the row.

    Chooses the fewest passes, then the fewest steps through shared memory, then the most even digits. Raises SizeError.
    """

    def cost(digits: tuple[int, ...]) -> tuple[int, int]:
        return sum(-(-d // profile.log_elements) for d in digits), max(digits) - min(digits)

    for strided in range(MAX_STRIDED + 1):
        heads = product(range(1, profile.log_strided + 1), repeat=strided)
        choices = [(*head, log_n - sum(head)) for head in heads]
        # The tile of a strided pass, its digit times neighbours of the later digits, has at least a thread's elements.
        fitting = [
            c
            for c in choices
            if min(strided, 1) <= c[-1] <= profile.log_row
            and (not strided or min(c[:-1]) + c[-1] >= profile.log_elements)
        ]
        if fitting:
            return min(fitting, key=cost)
    raise SizeError(f"2^{log_n} rows are more than the low-degree extension's passes reach")


_SHAPE = layout(
    ("u4", "log_n log_r log_c log_stride log_cosets reserved"),
    ("u8", "vectors in_pitch out_pitch"),
)
"""The layout of `struct Shape` in goldilocks_lde.cu."""

_POWERS = layout(("u8", "table"), ("u4", "log_low log_order"))
"""The layout of `struct Powers` in goldilocks_lde.cu."""

_ROW_TABLE = layout(("u8", "in out inverse_roots forward_roots scale first_block"), (_SHAPE, "shape"))
_ROW_TABLES = np.dtype([("tables", _ROW_TABLE, (TABLES,)), ("count", "u4"), ("reserved", "u4")])
"""The layout of `struct RowTables` in goldilocks_lde.cu."""


@dataclass(frozen=True)
class Shape:
    """`struct Shape` of goldilocks_lde.cu for one pass, without `log_c`, the columns or rows of a block."""

    log_n: int
    log_r: int
    log_stride: int
    log_cosets: int
    vectors: int
    in_pitch: int
    out_pitch: int

    def argument(self, log_c: int) -> ByValue:
        """Return the struct as a kernel argument, for blocks of 2^log_c columns or rows."""
        return ByValue(np.array(self.record(log_c), dtype=_SHAPE))

    def record(self, log_c: int) -> tuple[int, ...]:
        """Return the struct's fields in order, for blocks of 2^log_c columns or rows."""
        logs = (self.log_n, self.log_r, log_c, self.log_stride, self.log_cosets, 0)
        return (*logs, self.vectors, self.in_pitch, self.out_pitch)


@dataclass(frozen=True)
class Series:
    """Device tables from which a strided pass computes its twiddles."""

    fine: Array
    coarse: Array
    start: Array | None
    ratio: Array | None

    @property
    def arguments(self) -> tuple[Array | None, ...]:
        return self.fine, self.coarse, self.start, self.ratio


@dataclass(frozen=True)
class Plan:
    """Digits and device tables for one size, blow-up and input coset."""

    digits: tuple[int, ...]
    inverse_roots: tuple[Array, ...]
    forward_roots: tuple[Array, ...]
    inverse: tuple[Series, ...]
    forward: tuple[Series, ...]
    scale: Array


@dataclass(frozen=True)
class Extended:
    """One table to extend: `columns` (w, n) on coset * <w_n>, and the array `out` (w, B, n) for their extension."""

    columns: Array = field(repr=False)
    out: Array = field(repr=False)
    coset: int

    @property
    def width(self) -> int:
        return int(self.out.shape[0])

    @property
    def log_blowup(self) -> int:
        return int(self.out.shape[1]).bit_length() - 1

    @property
    def log_n(self) -> int:
        return int(self.out.shape[2]).bit_length() - 1

    @property
    def pitch(self) -> int:
        """Distance between columns of the output, in elements."""
        return 1 << (self.log_n + self.log_blowup)


class Rows:
    """The row pass of one table, whose input has columns that are `in_pitch` elements apart, by tiles of 2^log_tile."""

    def __init__(self, table: Extended, plan: Plan, in_pitch: int, log_tile: int) -> None:
        log_r = plan.digits[-1]
        self.tables = (plan.inverse_roots[-1], plan.forward_roots[-1], plan.scale)
        self.shape = Shape(table.log_n, log_r, 0, table.log_blowup, table.width, in_pitch, table.pitch)
        self.log_c = log_tile - log_r
        self.blocks = grid_for(table.width << (table.log_n - log_r), 1 << self.log_c)


class LdeEngine:
    """Runs the low-degree extensions of one device. Keeps the plans used last."""

    def __init__(self, device: Device, powers: RootPowers, profile: LdeProfile | None = None) -> None:
        self._device = device
        self._powers = powers
        self.profile = profile or LdeProfile()
        self._plans: OrderedDict[tuple[int, int, int], Plan] = OrderedDict()
        self._forward_roots: dict[int, Array] = {}

    def clear(self) -> None:
        """Release the device memory of the plans' tables."""
        self._plans.clear()
        self._forward_roots.clear()

    def run(self, tables: Sequence[Extended]) -> None:
        """Extend checked tables that have columns: small ones share launches, the others run on parallel streams."""
        planned = [(table, self._plan(table.log_n, table.log_blowup, table.coset)) for table in tables]
        small = [(table, plan) for table, plan in planned if len(plan.digits) == 1]
        shared = [small[i : i + TABLES] for i in range(0, len(small), TABLES)]
        large = [(table, plan) for table, plan in planned if len(plan.digits) > 1]
        with parallel(self._device, len(large) + len(shared)) as streams:
            for (table, plan), stream in zip(large, streams, strict=False):
                self._run(table, plan, stream)
            for together, stream in zip(shared, streams[len(large) :], strict=True):
                self._run_together(together, stream)

    def _run(self, table: Extended, plan: Plan, stream: Stream) -> None:
        """Extend one table, pass by pass."""
        out, log_n, pitch = table.out, table.log_n, table.pitch
        *strided, _ = plan.digits
        strides = [log_n - sum(plan.digits[: i + 1]) for i in range(len(strided))]
        source, in_pitch = table.columns, 1 << log_n
        for log_r, log_stride, roots, series in zip(strided, strides, plan.inverse_roots, plan.inverse, strict=False):
            shape = Shape(log_n, log_r, log_stride, 0, table.width, in_pitch, pitch)
            self._strided("lde_strided_inverse", (source, out, roots, *series.arguments), shape, stream)
            source, in_pitch = out, pitch

        log_tile = self.profile.log_row_tile
        rows = Rows(table, plan, in_pitch, log_tile)
        arguments = (source, out, *rows.tables, rows.shape.argument(rows.log_c))
        self._launch("lde_rows", rows.blocks, log_tile, arguments, self._row_bytes, stream)

        log_blowup, log_stride = table.log_blowup, plan.digits[-1]
        for log_r, roots, series in reversed(
            list(zip(plan.digits[:-1], plan.forward_roots, plan.forward, strict=False))
        ):
            shape = Shape(log_n, log_r, log_stride, log_blowup, table.width << log_blowup, pitch, pitch)
            self._strided("lde_strided_forward", (out, out, roots, *series.arguments), shape, stream)
            log_stride += log_r

    def encode(self, coefficients: Array, out: Array) -> None:
        """Evaluate coefficients (w, n), in natural order, on the powers of a root of unity: out (w, B, n)."""
        width, cosets, n = map(int, out.shape)
        log_n, log_cosets = log2(n), log2(cosets)
        digits, pitch = plan_passes(log_n, self.profile), n * cosets
        table, log_low = self._powers.of(log_n + log_cosets)
        given = ByValue(np.array((self._device.address(table), log_low, log_n + log_cosets), dtype=_POWERS))
        log_r = digits[-1]
        rows = width << (log_n - log_r)
        least = max(log_r + (rows - 1).bit_length(), self.profile.log_elements + LOG_WARP)
        log_tile = min(self.profile.log_row_tile, least)
        log_c = log_tile - log_r
        shape = Shape(log_n, log_r, 0, log_cosets, width, n, pitch)
        log_n1 = np.uint32(digits[0] if len(digits) > 1 else 0)
        arguments = (coefficients, out, self._roots_of(log_r), given, log_n1, shape.argument(log_c))
        shared = self.profile.shared_bytes(log_tile)
        stream = self._device.stream
        self._launch("encode_rows", grid_for(rows, 1 << log_c) * cosets, log_tile, arguments, shared, stream)
        log_stride = log_r
        for log_r in reversed(digits[:-1]):
            shape = Shape(log_n, log_r, log_stride, log_cosets, width * cosets, pitch, pitch)
            self._strided("encode_strided", (out, self._roots_of(log_r), given), shape, stream)
            log_stride += log_r

    def interpolate_runs(self, values: Array, log_run: int) -> None:
        """Interpolate each run of 2^log_run values over the powers of a root of unity, in place."""
        words, threads = int(values.size), min(RUN_THREADS, 1 << max(LOG_WARP, MAX_LOG_RUN_TILE - log_run))
        if not log_run:
            return
        kernel = self._device.kernel(self.profile.sources[Part.RUNS], f"interpolate_{log_run}")
        shared = 8 * threads * ((1 << log_run) + 1)
        kernel.launch(grid_for(words, threads << log_run), threads, (values, np.uint64(words)), shared=shared)

    def _run_together(self, tables: Sequence[tuple[Extended, Plan]], stream: Stream) -> None:
        """Extend at most TABLES tables of a single pass each, in one launch."""
        if len(tables) == 1:  # lde_rows takes one shape, which the compiler sees in one place
            self._run(*tables[0], stream)
            return
        log_tile, address = self.profile.log_row_tile, self._device.address
        packed, first = np.zeros((), dtype=_ROW_TABLES), 0
        for i, (table, plan) in enumerate(tables):
            rows = Rows(table, plan, 1 << table.log_n, log_tile)
            arrays = (table.columns, table.out, *rows.tables)
            packed["tables"][i] = (*map(address, arrays), first, rows.shape.record(rows.log_c))
            first += rows.blocks
        packed["count"] = len(tables)
        self._launch("lde_rows_of_many", grid_for(first, 1), log_tile, (ByValue(packed),), self._row_bytes, stream)

    @property
    def _row_bytes(self) -> int:
        """Bytes of shared memory of a block of the row pass."""
        return self.profile.shared_bytes(self.profile.log_row_tile) + (8 << self.profile.log_row_tile)

    def _strided(self, name: str, arguments: tuple[Argument, ...], shape: Shape, stream: Stream) -> None:
        log_c = min(self.profile.log_strided_tile - shape.log_r, shape.log_stride)
        log_tile = shape.log_r + log_c
        grid = grid_for(shape.vectors << (shape.log_n - log_tile), 1)
        given = (*arguments, shape.argument(log_c))
        self._launch(name, grid, log_tile, given, self.profile.shared_bytes(log_tile), stream)

    def _launch(
        self, name: str, grid: int, log_tile: int, arguments: tuple[Argument, ...], shared: int, stream: Stream
    ) -> None:
        kernel = self._device.kernel(self.profile.sources[Part.of(name)], name)
        kernel.launch(grid, 1 << (log_tile - self.profile.log_elements), arguments, shared=shared, stream=stream)

    def _plan(self, log_n: int, log_blowup: int, coset: int) -> Plan:
        key = (log_n, log_blowup, coset)
        if key not in self._plans:
            self._plans[key] = self._make_plan(*key)
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return self._plans[key]

    def _make_plan(self, log_n: int, log_blowup: int, coset: int) -> Plan:
        digits = plan_passes(log_n, self.profile)
        first = GENERATOR * pow(coset, -1, P) % P
        shifts = [first * pow(root_of_unity(log_n + log_blowup), t, P) % P for t in range(1 << log_blowup)]
        inverse, forward, done = [], [], 0
        for log_r in digits[:-1]:
            root = root_of_unity(log_n - done)
            bases = [pow(s, 1 << done, P) for s in shifts]
            log_apart = max(0, log_r - self.profile.log_elements)
            inverse.append(self._series(pow(root, -1, P), log_n - done, None, log_apart))
            forward.append(self._series(root, log_n - done, bases, log_apart))
            done += log_r
        n_inverse = pow(1 << log_n, -1, P)
        scale = [powers(pow(s, 1 << done, P), 1 << digits[-1], first=n_inverse) for s in shifts]
        return Plan(
            digits,
            tuple(self._roots(log_r, inverse=True) for log_r in digits),
            tuple(self._roots_of(log_r) for log_r in digits),
            tuple(inverse),
            tuple(forward),
            self._device.upload(np.concatenate(scale)),
        )

    def _series(self, root: int, log_order: int, bases: list[int] | None, log_apart: int) -> Series:
        fine = powers(root, 1 << min(log_order, LOG_FINE))
        coarse = powers(pow(root, 1 << LOG_FINE, P), 1 << max(0, log_order - LOG_FINE))
        upload = self._device.upload
        if bases is None:
            return Series(upload(fine), upload(coarse), None, None)
        start = np.concatenate([powers(base, 1 << log_apart) for base in bases])
        ratio = np.array([pow(base, 1 << log_apart, P) for base in bases], dtype=np.uint64)
        return Series(upload(fine), upload(coarse), upload(start), upload(ratio))

    def _roots_of(self, log_r: int) -> Array:
        """The roots of a forward pass, which every plan shares."""
        if log_r not in self._forward_roots:
            self._forward_roots[log_r] = self._roots(log_r, inverse=False)
        return self._forward_roots[log_r]

    def _roots(self, log_r: int, *, inverse: bool) -> Array:
        """Return `Pass::roots`: w^(p j) for each step but the last, with w of the order that is left and p fastest."""
        tables = []
        left = log_r
        for bits in step_bits(log_r, self.profile.log_elements, inverse=inverse):
            if bits == left:
                break
            root = pow(root_of_unity(left), -1 if inverse else 1, P)
            tables += [powers(pow(root, j, P), 1 << (left - bits)) for j in range(1 << bits)]
            left -= bits
        return self._device.upload(np.concatenate(tables) if tables else np.ones(1, dtype=np.uint64))


def step_bits(log_r: int, log_elements: int, *, inverse: bool) -> Iterator[int]:
    """Yield log2 of the points that each step of a pass transforms: a short step is first if inverse, else last."""
    full, odd = divmod(log_r, log_elements)
    if odd and inverse:
        yield odd
    yield from [log_elements] * full
    if odd and not inverse:
        yield odd
