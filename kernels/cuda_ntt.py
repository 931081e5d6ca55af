"""Plans and runs the transforms of `cuda/ntt.cu`: passes, tables, launch shapes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from kernels.backend import Array, SizeError
from kernels.cuda_sources import field_source
from kernels.curves import Field
from kernels.device import ByValue, Device, grid_for
from kernels.encoding import field_from_ints

LOG_ELEMENTS = 3
"""log2 of the elements a thread holds; as in ntt.cu."""
LOG_MIN_TILE = LOG_ELEMENTS + 5
"""A block has at least one warp."""
MAX_PASSES = 3
"""The kernel's digits; enough for 2^32, which no device holds twice."""
LOG_ROOTS = 11
"""log2 of the twiddles kept for the steps inside a pass: the largest radix that a plan can ask for."""
REVERSED_INPUT, NEGATED_INPUT, REVERSED_OUTPUT, FIRST_PASS, LAST_PASS = 1, 2, 4, 8, 16
TABLE_SHARE = 4
"""Twiddle tables may take one part in this many of the memory that is free when the first is made."""


@dataclass(frozen=True)
class NttProfile:
    """What may be tuned. Tile: elements a block holds in shared memory; radix: points transformed in one pass."""

    log_tile: int = 11
    log_radix: int = 10

    def __post_init__(self) -> None:
        if not LOG_MIN_TILE <= self.log_tile <= 12 or not LOG_ELEMENTS <= self.log_radix <= self.log_tile:
            raise ValueError(f"{self} is not a shape that the kernel has")


@dataclass(frozen=True)
class PassTables:
    """Device tables of one pass; None where it needs none."""

    load_scale: Array | None
    twiddles: Array | None
    log_twiddle_stride: int
    twiddle_mask: int

    @property
    def nbytes(self) -> int:
        return sum(int(t.nbytes) for t in (self.load_scale, self.twiddles) if t is not None)


def plan_passes(log_n: int, log_radix: int) -> tuple[int, ...]:
    """log2 of each pass's radix, even, the larger ones first; above `log_radix` where three passes would not do."""
    count = min(MAX_PASSES, max(1, -(-log_n // log_radix)))
    small, larger = divmod(log_n, count)
    return tuple(small + (i < larger) for i in range(count))


class NttEngine:
    """The transforms of one device. Keeps the tables of the sizes and cosets used last."""

    def __init__(self, device: Device, profile: NttProfile | None = None) -> None:
        self._device = device
        self.profile = profile or NttProfile()
        self._roots: dict[Field, Array] = {}
        self._tables: OrderedDict[tuple[Field, int, bool, int | None], list[PassTables]] = OrderedDict()
        self._table_limit: int | None = None

    def run(
        self,
        field: Field,
        a: Array,
        *,
        inverse: bool,
        coset: int | None,
        bit_reversed_input: bool,
        bit_reversed_output: bool,
    ) -> Array:
        """`Backend.ntt` on a checked, contiguous array (n, limbs) or (batch, n, limbs)."""
        n = int(a.shape[-2])
        log_n = n.bit_length() - 1
        if n != 1 << log_n or log_n > field.two_adicity:
            raise SizeError(f"a transform over {field.name} takes 2^0 to 2^{field.two_adicity} elements, not {n}")
        if coset is not None and coset % field.modulus == 0:
            raise SizeError("the coset 0 has no transform")
        batch = int(a.shape[0]) if a.ndim == 3 else 1
        if log_n == 0 or batch == 0:
            return a
        passes = plan_passes(log_n, self.profile.log_radix)
        tables = self._tables_for(field, log_n, inverse, None if coset is None else coset % field.modulus, passes)
        scratch = self._device.empty(a.shape) if len(passes) > 1 else None
        eighth = field.root_of_unity(3) if field.two_adicity >= 3 else 1
        eighths = ByValue(field_from_ints(field, [pow(eighth, k, field.modulus) for k in (1, 2, 3)]))
        roots = self._roots_of(field)
        kernel = self._device.kernel(field_source("ntt", field), "ntt_pass")
        done = 0
        for index, log_r in enumerate(passes):
            first, last = index == 0, index == len(passes) - 1
            columns = batch << (log_n - log_r)
            wanted = max(LOG_MIN_TILE - log_r, min(self.profile.log_tile - log_r, (columns - 1).bit_length()))
            log_c = max(0, wanted)
            flags = (
                FIRST_PASS * first
                + LAST_PASS * last
                + NEGATED_INPUT * (first and inverse)
                + REVERSED_INPUT * (first and bit_reversed_input)
                + REVERSED_OUTPUT * (last and bit_reversed_output)
            )
            table = tables[index]
            shape = np.zeros(1, dtype=_PASS)
            shape["log_n"], shape["log_r"], shape["log_c"] = log_n, log_r, log_c
            shape["log_stride"] = log_n - done - log_r
            shape["log_rows_1"], shape["log_rows_2"] = passes[0], done - passes[0] if index else 0
            shape["log_twiddle_stride"], shape["twiddle_mask"] = table.log_twiddle_stride, table.twiddle_mask
            shape["log_roots"] = min(LOG_ROOTS, field.two_adicity)
            shape["flags"], shape["columns"] = flags, columns
            tile = 1 << (log_r + log_c)
            arguments = (
                a if first else scratch,
                a if last else scratch,
                roots,
                table.load_scale,
                table.twiddles,
                eighths,
                ByValue(shape),
            )
            kernel.launch(
                grid_for(columns, 1 << log_c), tile >> LOG_ELEMENTS, arguments, shared=2 * 16 * (tile + tile // 8)
            )
            done += log_r
        return a

    def clear(self) -> None:
        """Give the tables' memory back."""
        self._tables.clear()
        self._roots.clear()

    def _roots_of(self, field: Field) -> Array:
        """w^e for e < 2^log_roots: the twiddles between the steps inside a pass."""
        if field not in self._roots:
            log_roots = min(LOG_ROOTS, field.two_adicity)
            # The exponent of `other` is the column, and all of the table is one row.
            self._roots[field] = self._table(field, log_roots, log_roots, other=field.root_of_unity(log_roots))
        return self._roots[field]

    def _tables_for(
        self, field: Field, log_n: int, inverse: bool, coset: int | None, passes: tuple[int, ...]
    ) -> list[PassTables]:
        key = (field, log_n, inverse, coset)
        if key not in self._tables:
            tables = self._make_tables(field, log_n, inverse, coset, passes)
            self._make_room(sum(t.nbytes for t in tables))
            self._tables[key] = tables
        self._tables.move_to_end(key)
        return self._tables[key]

    def _make_room(self, nbytes: int) -> None:
        """Forget the tables not used for longest until `nbytes` more fit the share of memory for tables."""
        if self._table_limit is None:
            self._table_limit = self._device.memory_free() // TABLE_SHARE
        used = sum(t.nbytes for tables in self._tables.values() for t in tables)
        while self._tables and used + nbytes > self._table_limit:
            _, dropped = self._tables.popitem(last=False)
            used -= sum(t.nbytes for t in dropped)

    def _make_tables(
        self, field: Field, log_n: int, inverse: bool, coset: int | None, passes: tuple[int, ...]
    ) -> list[PassTables]:
        """Forward: input i scaled by coset^i. Inverse: output k scaled by coset^-k / n. See ntt.cu for the digits."""
        p = field.modulus
        tables = []
        done = 0
        for index, log_r in enumerate(passes):
            log_rest = log_n - done - log_r
            load_scale = None
            first, other, by_row = 1, 1, False
            if coset is not None and not inverse and index == 0:
                load_scale = self._table(field, log_r, log_r, other=pow(coset, 1 << log_rest, p))
                other = coset
            if inverse:
                if index == 0:
                    first = pow(1 << log_n, -1, p)
                if coset is not None:
                    other, by_row = pow(coset, -(1 << done), p), True
            twiddles = None
            if log_rest or (inverse and (coset is not None or index == 0)):
                # Without a digit that follows, the table is a plain scaling of the output: root 1, one column.
                root = field.root_of_unity(log_rest + log_r)
                twiddles = self._table(
                    field, log_r + log_rest, log_rest, first=first, root=root, other=other, by_row=by_row
                )
            tables.append(PassTables(load_scale, twiddles, log_rest, (1 << log_rest) - 1))
            done += log_r
        return tables

    def _table(
        self,
        field: Field,
        log_size: int,
        log_columns: int,
        *,
        first: int = 1,
        root: int = 1,
        other: int = 1,
        by_row: bool = False,
    ) -> Array:
        """first * root^(k m) * other^(k if by_row else m) at row k, column m."""
        out = self._device.empty((1 << log_size, field.limbs))
        kernel = self._device.kernel(field_source("ntt", field), "ntt_table")
        arguments = (
            out,
            np.uint64(1 << log_size),
            np.uint32(log_columns),
            np.uint32(by_row),
            ByValue(field_from_ints(field, [first])),
            ByValue(squares(field, root, 32)),
            ByValue(squares(field, other, 32)),
        )
        kernel.launch_items(1 << log_size, arguments)
        return out


_PASS = np.dtype(
    [
        ("log_n", "u4"),
        ("log_r", "u4"),
        ("log_c", "u4"),
        ("log_stride", "u4"),
        ("log_rows_1", "u4"),
        ("log_rows_2", "u4"),
        ("log_twiddle_stride", "u4"),
        ("twiddle_mask", "u4"),
        ("log_roots", "u4"),
        ("flags", "u4"),
        ("columns", "u8"),
    ]
)
"""`struct Pass` of ntt.cu."""


def squares(field: Field, base: int, count: int) -> Array:
    """base^(2^k) for k < count, Montgomery form, (count, limbs) on the host."""
    values = []
    power = base % field.modulus
    for _ in range(count):
        values.append(power)
        power = power * power % field.modulus
    return field_from_ints(field, values)
