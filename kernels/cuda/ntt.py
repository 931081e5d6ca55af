"""Plans and runs the NTTs of `cuda/src/ntt.cu`: passes, tables, launch shapes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from kernels.cuda.device import Argument, ByValue, Device, grid_for, layout
from kernels.cuda.field import field_source
from kernels.errors import OutOfMemory, SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.vectors import Transform, TransformBytes
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints, pack
from kernels.source import KernelSource

MAX_PASSES = 3
"""Most passes of a transform: the kernel's addressing has three digits."""
REVERSED_INPUT, NEGATED_INPUT, REVERSED_OUTPUT, FIRST_PASS, LAST_PASS = 1, 2, 4, 8, 16
"""Bits of `Pass::flags`. Must equal those of the same names in ntt.cu."""
PLAIN, PAIRED, PLANES = 0, 1, 2
"""Forms of a table. Must equal those of the same names in ntt.cu."""
LOG_PAIRED = 24
"""log2 of the largest transform whose twiddles between passes are pairs. Larger ones have no memory for these: a table
of pairs takes 8 GiB at 2^27."""
TABLE_SHARE = 8
"""Twiddle tables may take 1 / TABLE_SHARE of the device's budget, or as much as one transform needs."""


@dataclass(frozen=True)
class NttProfile:
    """Tuning parameters. The defaults were the fastest of twelve tried on an H200 at 2^20, both curves, and took at
    most 4 % longer than the fastest of six from 2^16 to 2^24."""

    log_tile: int = 9
    """log2 of the elements a block holds in shared memory."""
    log_radix: int = 9
    """log2 of the most points that are transformed in one pass."""
    log_elements: int = 2
    """log2 of the elements a thread holds in registers."""
    blocks_per_sm: int = 6
    """Blocks per multiprocessor that the registers must leave room for."""
    pairs: bool = True
    """Whether the twiddles between passes are pairs, as those inside a pass are: faster, and twice the memory."""

    def __post_init__(self) -> None:
        if not (
            2 <= self.log_elements <= 3
            and self.log_min_tile <= self.log_tile <= min(12, 10 + self.log_elements)
            and self.log_elements <= self.log_radix <= self.log_tile
        ):
            raise ValueError(f"{self} is not a shape that the kernel has")

    @property
    def log_limit(self) -> int:
        """log2 of the largest transform that the profile is for."""
        reached = MAX_PASSES * self.log_radix
        return min(reached, LOG_PAIRED) if self.pairs else reached

    @property
    def log_min_tile(self) -> int:
        """log2 of the smallest tile: a block has at least one warp."""
        return self.log_elements + 5

    def source(self, field: Field) -> KernelSource:
        """Return ntt.cu, compiled for `field` and this profile."""
        base = field_source("ntt", field)
        shape = {
            "LOG_ELEMENTS": self.log_elements,
            "MAX_THREADS": 1 << (self.log_tile - self.log_elements),
            "MIN_BLOCKS": self.blocks_per_sm,
            "PAIRS": int(self.pairs),
        }
        return KernelSource(base.name, (*base.defines, *((name, str(value)) for name, value in shape.items())))


LARGER = (NttProfile(pairs=False), NttProfile(log_tile=10, log_radix=10, blocks_per_sm=3, pairs=False))
"""The profiles of transforms that the default is not for: to 2^27 elements, and to the 2^30 that three passes reach."""


@dataclass(frozen=True)
class PassTables:
    """Device tables of one pass; None if it needs none."""

    load_scale: Array | None
    twiddles: Array | None
    log_twiddle_stride: int
    twiddle_mask: int

    @property
    def nbytes(self) -> int:
        return sum(int(t.nbytes) for t in (self.load_scale, self.twiddles) if t is not None)


@dataclass(frozen=True)
class PassLaunch:
    """One launch of `ntt_pass`: its shape and all arguments except the data's addresses."""

    grid: int
    block: int
    shared: int
    constants: tuple[Argument, ...]


@dataclass
class Tables:
    """Device tables for one size, direction and coset, and the launches that were planned with them."""

    passes: list[PassTables]
    launches: dict[tuple[int, bool, bool], list[PassLaunch]]
    """Launches by (batch, bit-reversed input, bit-reversed output)."""


def log_roots(profile: NttProfile, field: Field) -> int:
    """Return log2 of the order of the roots of unity that the steps inside a pass take."""
    return min(profile.log_radix, field.two_adicity)


def plan_passes(log_n: int, log_radix: int) -> tuple[int, ...]:
    """Return log2 of each pass's radix, as even as possible, the larger ones first. Raises SizeError."""
    count = max(1, -(-log_n // log_radix))
    if count > MAX_PASSES:
        raise SizeError(f"2^{log_n} elements need {count} passes of radix 2^{log_radix}; there are {MAX_PASSES}")
    small, larger = divmod(log_n, count)
    return tuple(small + (i < larger) for i in range(count))


class NttEngine:
    """Runs the NTTs of one device. Keeps the tables of the sizes and cosets used last."""

    def __init__(self, device: Device, profile: NttProfile | None = None) -> None:
        self._device = device
        self._profiles = (profile or NttProfile(), *LARGER)
        self._roots: dict[tuple[Field, int, int], Array] = {}
        self._tables: OrderedDict[tuple[Field, int, bool, int | None], Tables] = OrderedDict()

    def prepare(self, field: Field) -> None:
        """Begin to compile the kernel for `field` in the background."""
        self._device.prepare(self._profiles[0].source(field))

    def run(self, field: Field, a: Array, transform: Transform) -> None:
        """Run `transform` on a contiguous array (n, limbs) or (batch, n, limbs), in place."""
        batch = int(a.shape[0]) if a.ndim == 3 else 1
        if transform.log_n == 0 or batch == 0:
            return
        launches = self._launches(field, batch, transform)
        kernel = self._device.kernel(self._profile(transform.log_n).source(field), "ntt_pass")
        scratch = self._device.empty(a.shape) if len(launches) > 1 else None
        for index, launch in enumerate(launches):
            source = a if index == 0 else scratch
            target = a if index == len(launches) - 1 else scratch
            kernel.launch(launch.grid, launch.block, (source, target, *launch.constants), shared=launch.shared)

    def clear(self) -> None:
        """Release the device memory of the tables."""
        self._tables.clear()
        self._roots.clear()

    def _profile(self, log_n: int) -> NttProfile:
        """Return the first profile that is for transforms of 2^log_n elements, or the last one."""
        return next((profile for profile in self._profiles if log_n <= profile.log_limit), self._profiles[-1])

    def _launches(self, field: Field, batch: int, transform: Transform) -> list[PassLaunch]:
        """Return the passes of a transform; made once, because making them takes longer than a small transform."""
        log_n, inverse, coset = transform.log_n, transform.inverse, transform.coset
        reversed_input, reversed_output = transform.bit_reversed_input, transform.bit_reversed_output
        key = (field, log_n, inverse, coset)
        tables = self._tables.get(key)
        if tables is None:
            self._make_room(self._table_bytes(field, log_n))
            try:
                passes = self._make_tables(field, log_n, inverse, coset)
            except OutOfMemory:  # this transform matters more than the tables of other sizes
                self._tables.clear()
                passes = self._make_tables(field, log_n, inverse, coset)
            tables = self._tables[key] = Tables(passes, {})
        self._tables.move_to_end(key)
        order = (batch, reversed_input, reversed_output)
        if order not in tables.launches:
            flags = NEGATED_INPUT * inverse + REVERSED_INPUT * reversed_input, REVERSED_OUTPUT * reversed_output
            tables.launches[order] = self._plan(field, log_n, batch, *flags, tables.passes)
        return tables.launches[order]

    def _plan(
        self, field: Field, log_n: int, batch: int, first_flags: int, last_flags: int, tables: list[PassTables]
    ) -> list[PassLaunch]:
        profile = self._profile(log_n)
        passes = plan_passes(log_n, profile.log_radix)
        eighth = field.root_of_unity(min(3, field.two_adicity))
        eighths = ByValue(prepared(field, [pow(eighth, k, field.modulus) for k in (1, 2, 3)]))
        launches = []
        done = 0
        for index, (log_r, table) in enumerate(zip(passes, tables, strict=True)):
            columns = batch << (log_n - log_r)
            log_c = min(profile.log_tile - log_r, (columns - 1).bit_length())
            log_c = max(0, log_c, profile.log_min_tile - log_r)
            flags = 0
            if index == 0:
                flags |= FIRST_PASS | first_flags
            if index == len(passes) - 1:
                flags |= LAST_PASS | last_flags
            shape = np.zeros(1, dtype=_PASS)
            shape["log_n"], shape["log_r"], shape["log_c"] = log_n, log_r, log_c
            shape["log_stride"] = log_n - done - log_r
            shape["log_rows_1"], shape["log_rows_2"] = passes[0], done - passes[0] if index else 0
            shape["log_twiddle_stride"], shape["twiddle_mask"] = table.log_twiddle_stride, table.twiddle_mask
            shape["log_roots"] = log_roots(profile, field)
            shape["flags"], shape["columns"] = flags, columns
            tile = 1 << (log_r + log_c)
            constants = (self._roots_of(profile, field), table.load_scale, table.twiddles, eighths, ByValue(shape))
            shared = 2 * 16 * (tile + tile // 8)
            launches.append(PassLaunch(grid_for(columns, 1 << log_c), tile >> profile.log_elements, shared, constants))
            done += log_r
        return launches

    def _roots_of(self, profile: NttProfile, field: Field) -> Array:
        """Return the twiddles between the steps inside a pass, in the layout of `struct Roots`, made once."""
        highest, log_e = log_roots(profile, field), profile.log_elements
        key = field, highest, log_e
        if key not in self._roots:
            out = self._device.empty((4, 2 << highest, 2))
            for level in range(1, highest + 1):
                columns = level - (level % log_e or log_e)
                root = field.root_of_unity(level)
                self._table(profile, field, PLANES, level, columns, out=out, begin=1 << level, root=root)
            self._roots[key] = out
        return self._roots[key]

    def _make_room(self, nbytes: int) -> None:
        """Drop the least recently used tables until `nbytes` more fit the share of memory for tables."""
        used = sum(t.nbytes for tables in self._tables.values() for t in tables.passes)
        while self._tables and used + nbytes > self._table_limit():
            _, dropped = self._tables.popitem(last=False)
            used -= sum(t.nbytes for t in dropped.passes)

    def transform_bytes(self, field: Field, log_n: int, kinds: int) -> TransformBytes:
        """As `Vectors.transform_bytes`."""
        profile, each = self._profile(log_n), self._table_bytes(field, log_n)
        kept = max(1, min(kinds, self._table_limit() // max(1, each)))
        roots = 4 * field.bytes << log_roots(profile, field)  # pairs, and as many places for all levels below the last
        return TransformBytes(field.bytes << log_n if log_n > profile.log_radix else 0, kept * each + roots)

    def _table_limit(self) -> int:
        return self._device.info().memory_budget // TABLE_SHARE

    def _table_bytes(self, field: Field, log_n: int) -> int:
        """Bytes of the tables of one direction and coset, at most."""
        profile, total, rest = self._profile(log_n), 0, log_n
        for log_r in plan_passes(log_n, profile.log_radix):
            total += field.bytes << (rest + profile.pairs)  # of the last pass too, which scales by a coset
            rest -= log_r
        return total

    def _make_tables(self, field: Field, log_n: int, inverse: bool, coset: int | None) -> list[PassTables]:
        """Make the tables of each pass: forward scales input i by coset^i, inverse scales output k by coset^-k / n."""
        p, profile = field.modulus, self._profile(log_n)
        tables = []
        done = 0
        for index, log_r in enumerate(plan_passes(log_n, profile.log_radix)):
            log_rest = log_n - done - log_r
            load_scale = None
            first, other, by_row = 1, 1, False
            if coset is not None and not inverse and index == 0:
                load_scale = self._table(profile, field, PLAIN, log_r, log_r, other=pow(coset, 1 << log_rest, p))
                other = coset
            if inverse:
                if index == 0:
                    first = pow(1 << log_n, -1, p)
                if coset is not None:
                    other, by_row = pow(coset, -(1 << done), p), True
            twiddles = None
            if log_rest or (inverse and (coset is not None or index == 0)):
                # If no digit follows, the table is a plain scaling of the output: root 1, one column.
                root = field.root_of_unity(log_rest + log_r)
                form, size = PAIRED if profile.pairs else PLAIN, log_r + log_rest
                twiddles = self._table(
                    profile, field, form, size, log_rest, first=first, root=root, other=other, by_row=by_row
                )
            tables.append(PassTables(load_scale, twiddles, log_rest, (1 << log_rest) - 1))
            done += log_r
        return tables

    def _table(
        self,
        profile: NttProfile,
        field: Field,
        form: int,
        log_size: int,
        log_columns: int,
        *,
        out: Array | None = None,
        begin: int = 0,
        first: int = 1,
        root: int = 1,
        other: int = 1,
        by_row: bool = False,
    ) -> Array:
        """Return the table with first * root^(k m) * other^(k if by_row else m) at row k, column m.

        Planes are written to `out`, from `begin` on; the other forms have an array of their own.
        """
        out = self._device.empty((1 << log_size, field.limbs << form)) if out is None else out
        bits = 64 * field.limbs
        sizes = map(np.uint32, (log_columns, by_row, form, out.shape[1], begin))
        minus_inverse = pack([-pow(field.modulus, -1, 1 << bits) % (1 << bits)], field.limbs)
        bases = squares(field, root, 32), squares(field, other, 32)
        constants = map(ByValue, (minus_inverse, field_from_ints(field, [first]), *bases))
        kernel = self._device.kernel(profile.source(field), "ntt_table")
        kernel.launch_items(1 << log_size, (out, np.uint64(1 << log_size), *sizes, *constants))
        return out


_PASS = layout(
    ("u4", "log_n log_r log_c log_stride log_rows_1 log_rows_2"),
    ("u4", "log_twiddle_stride twiddle_mask log_roots flags"),
    ("u8", "columns"),
)
"""The layout of `struct Pass` in ntt.cu."""


def prepared(field: Field, values: list[int]) -> HostArray:
    """Return constants as `struct Twiddle` of twiddle.h has them, (n, 2 limbs) on the host."""
    shift = 64 * field.limbs
    pairs = [word for w in values for word in (w, (w << shift) // field.modulus)]
    return pack(pairs, field.limbs).reshape(len(values), 2 * field.limbs)


def squares(field: Field, base: int, count: int) -> Array:
    """Return base^(2^k) for k < count in Montgomery form, (count, limbs) on the host."""
    values = []
    power = base % field.modulus
    for _ in range(count):
        values.append(power)
        power = power * power % field.modulus
    return field_from_ints(field, values)
