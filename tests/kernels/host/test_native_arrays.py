"""Native functions take arrays as they are: of another type, or with gaps, they refuse them and convert nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kernels.host import native
from kernels.maths.curves import BN254
from tests.support import ROOT

SOURCES = ROOT / "kernels" / "cpu" / "src"
Call = tuple[Callable[..., Any], Sequence[Any]]


def zeros(kind: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype=kind)


def calls(build: Any) -> dict[str, Call]:
    """A function of each file of bindings that takes arrays of words, and arguments that it accepts."""
    pool, instructions = build.Pool(1), build.gl_instruction_sets()[0]
    rows = build.Rows(pool, build.row_kernels()[0])
    u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64
    return {
        "babybear": (build.bb_ext_powers, [zeros(u32, 4), zeros(u32, 8)]),
        "indices": (build.bb_eq_of_places, [zeros(u32, 4), zeros(i64, 2), zeros(i64, 2), zeros(u32, 8)]),
        "sums": (build.bb_canonical_sums, [zeros(u64, 2), zeros(u32, 2)]),
        "goldilocks": (build.gl_add, [pool, instructions, zeros(u64, 4), zeros(u64, 4), zeros(u64, 4)]),
        "fields": (build.copy, [pool, zeros(u8, 4), zeros(u8, 4)]),
        "groups": (build.join_sums, [BN254.name, zeros(u64, 0), zeros(u32, 0), zeros(u64, 0)]),
        "rows": (rows.divide, [zeros(u64, 3, 2), np.ones((3, 2), dtype=u64), zeros(u64, 3, 2)]),
        "pairing": (build.combine_g1, [BN254.name, zeros(u64, 1, 8), zeros(u64, 1, 4), zeros(u64, 1, 8)]),
    }


@pytest.fixture(scope="module", params=native.variants())
def build(request: pytest.FixtureRequest) -> Any:
    return native.load(request.param)


@pytest.mark.parametrize("name", calls(native.load()))
def test_arrays_of_another_type_or_layout_are_refused(build: Any, name: str) -> None:
    function, given = calls(build)[name]
    function(*given)
    for place, array in enumerate(given):
        if not isinstance(array, np.ndarray):
            continue
        others = [array.astype(np.float64), array.astype(np.int16), array.tolist()]
        if array.size:
            others.append(np.repeat(array, 2, axis=-1)[..., ::2])
        for other in others:
            with pytest.raises(TypeError, match="incompatible function arguments"):
                function(*given[:place], other, *given[place + 1 :])


def test_all_bindings_take_arrays_by_that_rule() -> None:
    """`Array` in bindings.h, of which an array of nanobind is the base."""
    files = {path.name for path in SOURCES.iterdir() if "nb::ndarray<" in path.read_text(encoding="utf-8")}
    assert files == {"bindings.h"}
