"""Distinct numbers as NumPy has them, without what NumPy imports for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels.maths.distinct import distinct, distinct_with_places

ROOT = Path(kernels.__file__).parents[1]


@pytest.mark.parametrize("size", [0, 1, 2, 50, 1000])
@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.uint64])
def test_distinct_numbers(size: int, kind: type) -> None:
    numbers = np.random.default_rng(size).integers(0, 40, size).astype(kind)
    expected, places = np.unique(numbers, return_inverse=True)
    for found in (distinct(numbers), distinct_with_places(numbers)[0]):
        assert found.dtype == kind
        assert np.array_equal(found, expected)
    assert np.array_equal(distinct_with_places(numbers)[1], places)
    assert np.array_equal(distinct(numbers[: size // 2 * 2].reshape(-1, 2)), np.unique(numbers[: size // 2 * 2]))


def test_nothing_else_is_imported() -> None:
    code = (
        "import sys, numpy as np\n"
        "from kernels.maths.distinct import distinct, distinct_with_places\n"
        "distinct(np.arange(9)), distinct_with_places(np.arange(9))\n"
        "assert 'numpy.ma' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "folder", ["kernels", "actors", "distprove/stark/multilinear", "distprove/stark/recursion", "distprove/stark/riscv"]
)
def test_no_proof_has_numpy_do_it(folder: str) -> None:
    using = [path for path in (ROOT / folder).rglob("*.py") if "np.unique(" in path.read_text()]
    assert using == []
