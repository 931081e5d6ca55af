"""Field vectors, transforms and sparse products of the CPU backend, against Python integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernels.cpu import fields as host_fields
from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError, SizeError
from kernels.interface.matrix import CsrMatrix
from kernels.maths import encoding
from kernels.maths.curves import BLS12_381, BN254, Field
from tests.support.cpu_cases import BACKENDS, FIELDS, backend_id, edge_values, unaligned

SCALAR_FIELDS = [BN254.fr, BLS12_381.fr]


@pytest.fixture(params=BACKENDS, ids=backend_id)
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    variant, threads = request.param
    return CpuBackend(threads, variant)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_elementwise_against_integers(backend: CpuBackend, field: Field) -> None:
    rng = random.Random(field.name)
    p = field.modulus
    base = edge_values(field, 40, rng)
    x = [a for a in base for _ in base]
    y = [b for _ in base for b in base]
    z = x[7:] + x[:7]
    a, b, c = (encoding.field_from_ints(field, v) for v in (x, y, z))

    def ints(array: np.ndarray) -> list[int]:
        return encoding.field_to_ints(field, array)

    assert ints(backend.vectors.add(field, a, b)) == [(u + v) % p for u, v in zip(x, y, strict=True)]
    assert ints(backend.vectors.sub(field, a, b)) == [(u - v) % p for u, v in zip(x, y, strict=True)]
    assert ints(backend.vectors.mul(field, a, b)) == [u * v % p for u, v in zip(x, y, strict=True)]
    assert ints(backend.vectors.mul_sub(field, a, b, c)) == [(u * v - w) % p for u, v, w in zip(x, y, z, strict=True)]
    assert ints(backend.vectors.batch_inverse(field, a)) == [pow(u, -1, p) if u else 0 for u in x]
    assert encoding.unpack(backend.vectors.from_montgomery(field, a)) == x
    assert np.array_equal(backend.vectors.to_montgomery(field, encoding.pack(x, field.limbs)), a)
    in_place = a.copy()
    assert backend.vectors.mul(field, in_place, in_place, out=in_place) is in_place
    assert ints(in_place) == [u * u % p for u in x]


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_single_inversions(backend: CpuBackend, field: Field) -> None:
    """One at a time, so that each value goes through the inversion itself: powers of two and their neighbours."""
    p = field.modulus
    values = {(1 << k) + d for k in range(field.bits) for d in (-1, 0, 1)}
    for value in sorted({v % p for v in values} | {p - v for v in values if 0 < v < p}):
        got = backend.vectors.batch_inverse(field, encoding.field_from_ints(field, [value]))
        assert encoding.field_to_ints(field, got) == [pow(value, -1, p) if value else 0]


@pytest.mark.parametrize("n", [0, 1, 3, 511, 512, 513, 5000])
def test_lengths_and_powers(backend: CpuBackend, n: int) -> None:
    field = BN254.fr
    p = field.modulus
    rng = random.Random(n)
    x = edge_values(field, n, rng)
    a = encoding.field_from_ints(field, x)
    base, first = rng.randrange(p), rng.randrange(p)
    powers = encoding.field_to_ints(field, backend.vectors.scale_powers(field, a, base, first))
    assert powers == [v * first * pow(base, i, p) % p for i, v in enumerate(x)]
    assert encoding.field_to_ints(field, backend.vectors.add(field, a, a)) == [2 * v % p for v in x]
    inverse = backend.vectors.batch_inverse(field, a)
    assert encoding.field_to_ints(field, backend.vectors.mul(field, inverse, a)) == [int(v != 0) for v in x]


def dft(field: Field, x: list[int], shift: int) -> list[int]:
    p, w = field.modulus, field.root_of_unity(len(x).bit_length() - 1)
    points = [shift * pow(w, i, p) % p for i in range(len(x))]
    out = []
    for point in points:
        value = 0
        for coefficient in reversed(x):
            value = (value * point + coefficient) % p
        out.append(value)
    return out


def reversal(n: int) -> list[int]:
    bits = n.bit_length() - 1
    return [int(format(i, f"0{bits}b")[::-1], 2) if bits else 0 for i in range(n)]


@pytest.mark.parametrize("field", SCALAR_FIELDS, ids=lambda f: f.name)
@pytest.mark.parametrize("log_n", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("coset", [None, 7])
def test_ntt_is_the_dft(backend: CpuBackend, field: Field, log_n: int, coset: int | None) -> None:
    n = 1 << log_n
    x = edge_values(field, n, random.Random(log_n))
    y = dft(field, x, coset or 1)
    order = reversal(n)
    natural_x, natural_y = (encoding.field_from_ints(field, v) for v in (x, y))
    for reversed_in in (False, True):
        for reversed_out in (False, True):
            for source, target, inverse in ((natural_x, natural_y, False), (natural_y, natural_x, True)):
                given = source[order].copy() if reversed_in else source.copy()
                got = backend.vectors.ntt(
                    field,
                    given,
                    inverse=inverse,
                    coset=coset,
                    bit_reversed_input=reversed_in,
                    bit_reversed_output=reversed_out,
                )
                assert got is given
                assert np.array_equal(got, target[order] if reversed_out else target)


@pytest.mark.parametrize("log_n", [11, 16, 18])
def test_large_ntt_beyond_the_table_of_roots(log_n: int) -> None:
    """2^18 needs four times the roots that are kept, and blocks beyond the cache; some outputs checked by Horner."""
    field = BN254.fr
    p, n = field.modulus, 1 << log_n
    backend = CpuBackend(2)
    rng = np.random.default_rng(log_n)
    a = rng.integers(0, 1 << 63, size=(n, 4), dtype=np.uint64)
    a[:, 3] >>= np.uint64(3)
    out = backend.vectors.ntt(field, a.copy(), coset=5, bit_reversed_output=True)
    x, order = encoding.field_to_ints(field, a), reversal(n)
    root = field.root_of_unity(log_n)
    for position in (0, 1, n // 2 + 1, n - 1):
        point = 5 * pow(root, order[position], p) % p
        value = 0
        for coefficient in reversed(x):
            value = (value * point + coefficient) % p
        assert encoding.field_to_ints(field, out[position : position + 1]) == [value]
    back = backend.vectors.ntt(field, out, inverse=True, coset=5, bit_reversed_input=True)
    assert np.array_equal(back, a)


def test_batched_ntt_transforms_each_vector(backend: CpuBackend) -> None:
    field = BLS12_381.fr
    vectors = encoding.field_from_ints(field, edge_values(field, 48, random.Random(3))).reshape(3, 16, 4)
    together = backend.vectors.ntt(field, vectors.copy())
    for row, vector in zip(together, vectors, strict=True):
        assert np.array_equal(row, backend.vectors.ntt(field, vector.copy()))


@pytest.mark.parametrize("field", SCALAR_FIELDS, ids=lambda f: f.name)
@pytest.mark.parametrize("standard_form", [False, True])
def test_spmv_against_integers(backend: CpuBackend, field: Field, standard_form: bool) -> None:
    """Empty rows, one row with most entries, values 1 and -1 and others, zeros and ones in the vector."""
    rng = random.Random(5)
    p, rows, cols = field.modulus, 300, 80
    values = [1, p - 1, 2, rng.randrange(p), 0]
    lengths = [rng.choice([0, 0, 1, 2, 3]) for _ in range(rows)]
    lengths[17] = 5000
    row_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    columns = [rng.randrange(cols) for _ in range(row_ptr[-1])]
    index = [rng.randrange(len(values)) for _ in columns]
    x = [rng.choice([0, 1, p - 1, rng.randrange(p)]) for _ in range(cols)]
    expected = [
        sum(values[index[k]] * x[columns[k]] for k in range(row_ptr[i], row_ptr[i + 1])) % p for i in range(rows)
    ]
    matrix = backend.sparse.load_matrix(
        field,
        CsrMatrix(
            rows,
            cols,
            row_ptr,
            np.array(columns, dtype=np.uint32),
            np.array(index, dtype=np.uint32),
            encoding.field_from_ints(field, values),
        ),
    )
    vector = encoding.pack(x, 4) if standard_form else encoding.field_from_ints(field, x)
    got = backend.sparse.spmv(matrix, vector, standard_form=standard_form)
    assert encoding.field_to_ints(field, got) == expected
    shifted = unaligned(vector).view(np.uint64) if vector.dtype == np.uint8 else vector
    assert np.array_equal(backend.sparse.spmv(matrix, shifted, standard_form=standard_form), got)


def test_unaligned_read_only_operands(backend: CpuBackend) -> None:
    field = BN254.fr
    a = encoding.field_from_ints(field, range(100))
    view = unaligned(a).view(np.uint64)
    assert not view.flags.aligned
    assert np.array_equal(backend.vectors.add(field, view, view), backend.vectors.add(field, a, a))


def test_bad_threads_and_builds_are_refused() -> None:
    with pytest.raises(BackendError, match="thread"):
        CpuBackend(0)
    with pytest.raises(BackendError, match="build"):
        CpuBackend(1, "z80")


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_host_forms_and_polynomials(field: Field) -> None:
    rng, p = random.Random(5), field.modulus
    rows = [[0, 1, p - 1], [p - 1, p - 1, rng.randrange(p)], [rng.randrange(p) for _ in range(3)]]
    words = encoding.pack((v for row in rows for v in row), field.limbs).reshape(3, 3, field.limbs)
    form = host_fields.to_montgomery(field, words)
    assert np.array_equal(
        form.reshape(-1, field.limbs), encoding.field_from_ints(field, (v for row in rows for v in row))
    )
    assert np.array_equal(host_fields.from_montgomery(field, form), words)
    for at in (0, 1, p - 1, rng.randrange(p)):
        expected = [sum(row[k] * pow(at, j, p) for j, row in enumerate(rows)) % p for k in range(3)]
        assert host_fields.evaluate_columns(field, words, at) == expected
    assert host_fields.evaluate_columns(field, words[:, :0], 5) == []
    assert host_fields.evaluate_columns(field, words[:0], 5) == [0, 0, 0]
    with pytest.raises(SizeError):
        host_fields.evaluate_columns(field, words[0], 5)
    with pytest.raises(SizeError):
        host_fields.to_montgomery(field, words[..., :2])
