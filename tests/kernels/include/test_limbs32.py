"""The device's 32-bit arithmetic (even and odd accumulators, carry chains), built for the host, against Python ints."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.maths.curves import BLS12_381, BN254, Field
from tests.support.emulated_device import SHIM

INCLUDE = Path(__file__).resolve().parents[3] / "kernels" / "include"

SOURCE = """
#include "curve/curves.h"
using namespace dp;
template <class F> static void run(int op, u32* r, const u32* a, const u32* b) {
  constexpr int N = F::N;
  switch (op) {
    case 0: mont_mul<typename F::Params, N>(r, a, b); break;
    case 1: mont_sqr<typename F::Params, N>(r, a); break;
    case 2: rows::mul_wide<N>(r, a, b); break;
    case 3: rows::square_wide<N>(r, a); break;
    case 4: mont_reduce<typename F::Params, N>(r, a); break;
    case 5: {
      F x;
      memcpy(&x, a, sizeof x);
      x = x.inverse();
      memcpy(r, &x, sizeof x);
      break;
    }
  }
}
template <class F> static void run2(int op, u32* r, const u32* a, const u32* b) {
  Fp2<F> x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  Fp2<F> z = op ? x.sqr() : x * y;
  if (op == 2) z = {difference_of_products(x.c0, y.c0, x.c1, y.c1), F::zero()};
  memcpy(r, &z, sizeof z);
}
extern "C" void run_extension(int field, int op, u32* r, const u32* a, const u32* b) {
  if (field == 1) run2<Bn254::Fq>(op, r, a, b);
  if (field == 3) run2<Bls12381::Fq>(op, r, a, b);
}
extern "C" void run_field(int field, int op, u32* r, const u32* a, const u32* b) {
  switch (field) {
    case 0: run<Bn254::Fr>(op, r, a, b); break;
    case 1: run<Bn254::Fq>(op, r, a, b); break;
    case 2: run<Bls12381::Fr>(op, r, a, b); break;
    case 3: run<Bls12381::Fq>(op, r, a, b); break;
  }
}
"""

FIELDS = [BN254.fr, BN254.fq, BLS12_381.fr, BLS12_381.fq]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("limbs32")
    source, out = folder / "limbs32.cpp", folder / "limbs32.so"
    source.write_text(SOURCE)
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O1",
            "-DDP_EMULATE",
            f"-I{INCLUDE}",
            "-include",
            SHIM,
            "-shared",
            "-fPIC",
            *("-o", out, source),
        ],
        check=True,
    )
    return ctypes.CDLL(str(out))


def call(library: ctypes.CDLL, field: Field, op: int, a: int, b: int = 0, *, extension: bool = False) -> int:
    words = 4 * field.limbs
    to_words = lambda v: (ctypes.c_uint32 * words).from_buffer_copy(v.to_bytes(4 * words, "little"))  # noqa: E731
    out = (ctypes.c_uint32 * words)()
    run = library.run_extension if extension else library.run_field
    run(FIELDS.index(field), op, out, to_words(a), to_words(b))
    return int.from_bytes(bytes(out), "little")


def samples(field: Field) -> list[int]:
    rng = random.Random(field.name)
    p = field.modulus
    edges = [0, 1, 2, p - 1, p - 2, (p + 1) // 2, (1 << (field.bits - 1)) - 1, field.r, 0xFFFFFFFF, 0xFFFFFFFF << 64]
    return edges + [rng.randrange(p) for _ in range(40)]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_products(library: ctypes.CDLL, field: Field) -> None:
    p, r_inverse = field.modulus, pow(field.r, -1, field.modulus)
    values = samples(field)
    for a in values:
        assert call(library, field, 1, a) == a * a * r_inverse % p
        assert call(library, field, 3, a) == a * a
        for b in values:
            assert call(library, field, 0, a, b) == a * b * r_inverse % p
            assert call(library, field, 2, a, b) == a * b


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_wide_values_at_their_bounds(library: ctypes.CDLL, field: Field) -> None:
    r = 1 << (64 * field.limbs)
    p, r_inverse = field.modulus, pow(r, -1, field.modulus)
    for t in [0, 1, p, r - 1, r, p * r - 1, (p - 1) * r, p * p]:
        assert call(library, field, 4, t) == t * r_inverse % p
    assert call(library, field, 3, r - 1) == (r - 1) ** 2
    assert call(library, field, 2, r - 1, r - 1) == (r - 1) ** 2


@pytest.mark.parametrize("field", [BN254.fq, BLS12_381.fq], ids=lambda f: f.name)
def test_quadratic_extension(library: ctypes.CDLL, field: Field) -> None:
    p, shift = field.modulus, 64 * field.limbs
    r_inverse = pow(field.r, -1, p)
    rng = random.Random(2)
    edges = [(x, y) for x in (0, 1, p - 1) for y in (0, 1, p - 1)]
    values = edges + [(rng.randrange(p), rng.randrange(p)) for _ in range(20)]
    for a0, a1 in values:
        a = a0 | a1 << shift
        square = ((a0 * a0 - a1 * a1) * r_inverse % p, 2 * a0 * a1 * r_inverse % p)
        assert call(library, field, 1, a, extension=True) == square[0] | square[1] << shift
        for b0, b1 in values:
            product = ((a0 * b0 - a1 * b1) * r_inverse % p, (a0 * b1 + a1 * b0) * r_inverse % p)
            got = call(library, field, 0, a, b0 | b1 << shift, extension=True)
            assert got == product[0] | product[1] << shift


@pytest.mark.parametrize("field", [BN254.fq, BLS12_381.fq], ids=lambda f: f.name)
def test_differences_of_products(library: ctypes.CDLL, field: Field) -> None:
    p, shift = field.modulus, 64 * field.limbs
    r_inverse = pow(field.r, -1, p)
    rng = random.Random(3)
    edges = [0, 1, p - 1, (1 << (field.bits - 1)) - 1]
    fours = [(a, b, c, d) for a in edges for b in edges for c in edges for d in edges]
    fours += [(rng.randrange(p), rng.randrange(p), rng.randrange(p), rng.randrange(p)) for _ in range(200)]
    for a, b, c, d in fours:
        got = call(library, field, 2, a | c << shift, b | d << shift, extension=True)
        assert got == (a * b - c * d) * r_inverse % p


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_inverses(library: ctypes.CDLL, field: Field) -> None:
    p, r = field.modulus, 1 << (64 * field.limbs)
    assert call(library, field, 5, 0) == 0
    for a in samples(field):
        if a % p:
            assert call(library, field, 5, a * r % p) == pow(a, -1, p) * r % p
