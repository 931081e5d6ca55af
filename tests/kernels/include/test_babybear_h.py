"""The device's arithmetic of BabyBear in Montgomery form, built for the host, against NumPy."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernels.maths.babybear import Elements, P, add, ext_mul, ext_scale, mul, sub, total
from tests.support.emulated_device import SHIM, compiler

INCLUDE = Path(__file__).resolve().parents[3] / "kernels" / "include"
RADIX = np.uint32((1 << 32) % P)
INVERSE = np.uint32(pow(1 << 32, -1, P))

SOURCE = """
#include "field/babybear.h"
using namespace dp;
using namespace dp::bb::m;
using E = const Ext*;
extern "C" void ext_products(E a, E b, Ext* out, int n) { for (int i = 0; i < n; ++i) out[i] = mul(a[i], b[i]); }
extern "C" void ext_squares(E a, Ext* out, int n) { for (int i = 0; i < n; ++i) out[i] = square(a[i]); }
extern "C" void ext_scaled(E a, const u32* b, Ext* out, int n) { for (int i = 0; i < n; ++i) out[i] = mul(a[i], b[i]); }
extern "C" void ext_between(E a, E b, E x, Ext* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = between(a[i], b[i], x[i]);
}
extern "C" void base_products(const u32* a, const u32* b, u32* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = mul(a[i], b[i]);
}
extern "C" void sums(const u32* a, const u32* b, int n, u32* out) {
  Sum one = Sum::zero(), two = Sum::zero();
  for (int i = 0; i < n; ++i) one.add(a[i], b[i]);
  for (int i = 0; i + 1 < n; i += 2) two.add(a[i], b[i], a[i + 1], b[i + 1]);
  out[0] = one.result(), out[1] = two.result();
}
extern "C" void scaled_sums(E a, const u32* b, int n, Ext* out) {
  ExtSum one = ExtSum::zero(), two = ExtSum::zero();
  ExtProducts three = ExtProducts::zero();
  for (int i = 0; i < n; ++i) one.add(a[i], b[i]), three.add(a[i], b[i]);
  for (int i = 0; i + 1 < n; i += 2) two.add(a[i], b[i], a[i + 1], b[i + 1]);
  out[0] = one.result(), out[1] = two.result(), out[2] = three.result();
}
extern "C" void product_sum(E a, E b, int n, Ext* out) {
  ExtProducts sum = ExtProducts::zero();
  for (int i = 0; i < n; ++i) sum.add(a[i], b[i]);
  *out = sum.result();
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    program = compiler()
    if program is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("babybear")
    source, out = folder / "babybear.cpp", folder / "babybear.so"
    source.write_text(SOURCE)
    flags = ["-std=c++17", "-O1", "-DDP_EMULATE", f"-I{INCLUDE}", "-include", str(SHIM), "-shared", "-fPIC"]
    subprocess.run([program, *flags, "-o", out, source], check=True)
    return ctypes.CDLL(str(out))


def call(function: object, inputs: list[Elements], sizes: list[int], shape: tuple[int, ...], last: bool) -> Elements:
    """Call with inputs in Montgomery form; the result is canonical. `last`: the result comes after the sizes."""
    arrays = [np.ascontiguousarray(mul(each, RADIX)) for each in inputs]
    out = np.full(shape, 0xFFFFFFFF, dtype=np.uint32)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in arrays]
    result, numbers = [ctypes.c_void_p(out.ctypes.data)], [ctypes.c_int(size) for size in sizes]
    function(*pointers, *(numbers + result if last else result + numbers))  # type: ignore[operator]
    assert (out < P).all()
    return mul(out, INVERSE)


def samples() -> Elements:
    """Extension elements (n, 4): all of extreme words in Montgomery form, and random ones."""
    extremes = mul(np.array([0, 1, P - 1, P - 2], dtype=np.uint32), INVERSE)
    edges = np.array(list(itertools.product(extremes, repeat=4)), dtype=np.uint32)
    drawn = np.random.default_rng(5).integers(0, P, (1000, 4), dtype=np.uint32)
    return np.concatenate((edges, drawn))


def test_products(library: ctypes.CDLL) -> None:
    a = samples()
    b = np.random.default_rng(6).permutation(a)
    n = len(a)
    assert np.array_equal(call(library.ext_products, [a, b], [n], a.shape, False), ext_mul(a, b))
    assert np.array_equal(call(library.ext_products, [a, a], [n], a.shape, False), ext_mul(a, a))
    assert np.array_equal(call(library.ext_squares, [a], [n], a.shape, False), ext_mul(a, a))
    assert np.array_equal(call(library.ext_scaled, [a, b[:, 0]], [n], a.shape, False), ext_scale(a, b[:, 0]))
    assert np.array_equal(call(library.base_products, [a[:, 1], b[:, 2]], [n], (n,), False), mul(a[:, 1], b[:, 2]))
    x = b[::-1].copy()
    expected = add(a, ext_mul(sub(b, a), x))
    assert np.array_equal(call(library.ext_between, [a, b, x], [n], a.shape, False), expected)


@pytest.mark.parametrize("largest", [False, True])
def test_sums_of_many_products(library: ctypes.CDLL, largest: bool) -> None:
    n = 5000
    a = np.random.default_rng(7).integers(0, P, (n, 4), dtype=np.uint32)
    b = np.random.default_rng(8).integers(0, P, (n, 4), dtype=np.uint32)
    if largest:
        a[...] = b[...] = mul(np.uint32(P - 1), INVERSE)
    products = mul(a[:, 0], b[:, 0])
    assert (call(library.sums, [a[:, 0], b[:, 0]], [n], (2,), True) == total(products, 0)).all()
    scaled = call(library.scaled_sums, [a, b[:, 0]], [n], (3, 4), True)
    assert (scaled == total(ext_scale(a, b[:, 0]), 0)).all()
    assert np.array_equal(call(library.product_sum, [a, b], [n], (4,), True), total(ext_mul(a, b), 0))
