"""What each multilinear kernel must compute, by the vectors of `distprove.stark.field`, which shares no code with it.

Every case is a function of a backend; sizes are drawn from a seed. The tests of the CPU, of the emulated GPU and of a
GPU run all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distprove.stark.field import (
    ONE,
    ZERO,
    Ext,
    P,
    Words,
    add,
    e_add,
    e_mul,
    e_sub,
    element,
    ext_mul,
    mul,
    root_of_unity,
    sub,
    total,
)
from kernels.errors import SizeError
from kernels.interface.backend import Backend
from kernels.interface.multilinear import COORDINATES, POINTS, SETS, eq_prefix

EDGES = [0, 1, P - 1, P - 2, 0xFFFFFFFF, 1 << 32, (1 << 63) + 1]
Case = Callable[[Backend, np.random.Generator], None]


def random(rng: np.random.Generator, *shape: int) -> Words:
    """Random elements, some of them at the edges."""
    values = rng.integers(0, P, shape, dtype=np.uint64)
    flat = values.reshape(-1)
    places = rng.integers(0, max(1, flat.size), min(flat.size, len(EDGES)))
    flat[places] = np.array(EDGES, dtype=np.uint64)[: len(places)]
    return values


def elements(rng: np.random.Generator, count: int) -> list[Ext]:
    return [element(words) for words in random(rng, count, 3)]


def last(vectors: Words) -> Words:
    """Vectors (3, ..) with the coordinates last, as `field` has them."""
    return np.moveaxis(vectors, 0, -1)


def first(vectors: Words) -> Words:
    return np.ascontiguousarray(np.moveaxis(vectors, -1, 0))


def times(vector: Words, factor: Ext) -> Words:
    return ext_mul(vector, np.broadcast_to(np.array(factor, dtype=np.uint64), vector.shape))


def between(even: Words, odd: Words, r: Ext) -> Words:
    return add(even, times(sub(odd, even), r))


def table(point: list[Ext], scale: Ext, *, eq: bool) -> Words:
    """The products at all indices, (n, 3)."""
    found = [scale]
    for bit, x in enumerate(point):
        lows = [e_mul(v, e_sub(ONE, x)) for v in found] if eq else found
        found = lows + [e_mul(v, x) for v in found]
        assert len(found) == 2 << bit
    return np.array(found, dtype=np.uint64).reshape(-1, 3)


def sum_of(vector: Words) -> Ext:
    return element(total(vector.reshape(-1, 3)))


def on(backend: Backend, host: Words) -> Any:
    return backend.to_device(np.ascontiguousarray(host))


def same(backend: Backend, found: Any, expected: Words) -> None:
    assert np.array_equal(np.asarray(backend.to_host(found)), expected)


def encoding(backend: Backend, rng: np.random.Generator) -> None:
    log_n, log_blowup, width = int(rng.integers(0, 14)), int(rng.integers(0, 3)), int(rng.integers(1, 4))
    coefficients = random(rng, width, 1 << log_n)
    found = backend.to_host(backend.multilinear.encode(on(backend, coefficients), log_blowup))
    assert found.shape == (width, 1 << log_blowup, 1 << log_n)
    for c, row in enumerate(coefficients.tolist()):
        for i in rng.integers(0, 1 << log_n + log_blowup, 4).tolist():
            x, value = pow(root_of_unity(log_n + log_blowup), i, P), 0
            for a in reversed(row):
                value = (value * x + a) % P
            assert int(found[c, i % (1 << log_blowup), i >> log_blowup]) == value


def matrices_on_runs(backend: Backend, rng: np.random.Generator) -> None:
    kernels, size = backend.multilinear, 1 << int(rng.integers(0, 7))
    width, rows, runs = int(rng.integers(1, 4)), int(rng.integers(1, 8)), 1 << int(rng.integers(0, 6))
    columns, matrix, weights = random(rng, width, size * runs), random(rng, rows, size), random(rng, size, 3)
    of_runs = columns.reshape(-1, 1, size)
    expected = total(mul(of_runs, matrix[None]), axis=2)
    same(backend, kernels.apply_runs(on(backend, columns), matrix), expected.reshape(width, -1))
    bound = total(mul(of_runs, np.ascontiguousarray(weights.T)[None]), axis=2)
    same(backend, kernels.bind_runs(on(backend, columns), weights), bound.T.reshape(3, width, runs))
    sets = int(rng.integers(1, SETS + 1))
    given = random(rng, sets, 3, width * runs)
    found = kernels.sum_runs(on(backend, columns), on(backend, given), size)
    for own, each in zip(found, given, strict=True):
        assert np.array_equal(own.T, total(mul(each[:, :, None], columns.reshape(1, -1, size)), axis=1))


def products(backend: Backend, rng: np.random.Generator) -> None:
    kernels, bits, eq = backend.multilinear, int(rng.integers(0, 11)), bool(rng.integers(0, 2))
    point, (scale,) = elements(rng, bits), elements(rng, 1)
    made, expected, n = kernels.products(point, scale, eq=eq), table(point, scale, eq=eq), 1 << bits
    same(backend, kernels.tabulate(made), first(expected))
    given, at = random(rng, 3, n + 5), int(rng.integers(0, 6))
    out = on(backend, given.copy())
    kernels.tabulate(made, out, at=at, add=True)
    given[:, at : at + n] = add(given[:, at : at + n], first(expected))
    same(backend, out, given)
    values = random(rng, 3, n)
    assert kernels.dot(on(backend, values), made) == sum_of(ext_mul(last(values), expected))
    count = int(rng.integers(0, n + 1))
    if eq:
        assert eq_prefix(point, scale, count) == (sum_of(expected[:count]) if count else ZERO)


def leaves(backend: Backend, rng: np.random.Generator) -> None:
    kernels, log_n, uses = backend.multilinear, int(rng.integers(0, 8)), int(rng.integers(1, 5))
    n = 1 << log_n
    found, total_ = random(rng, 4 * uses, n), (uses + 1) * n
    chosen = [(use, at * n) for at, use in enumerate(rng.permutation(uses)[: int(rng.integers(1, uses + 1))].tolist())]
    out = on(backend, random(rng, 3, 2, total_))
    expected = np.array(backend.to_host(out))
    kernels.place_leaves(on(backend, found), uses, chosen, out)
    for use, at in chosen:
        expected[:, 0, at : at + n] = 0
        expected[0, 0, at : at + n] = found[use]
        expected[:, 1, at : at + n] = found[uses + 3 * use :][:3]
    same(backend, out, expected)
    kernels.place_leaves(on(backend, found), uses, [], out)
    same(backend, out, expected)


def even(vectors: Words, batch: Ext | None = None) -> Words:
    """Fractions (3, 2, n), or halves (3, 4, n), with a fraction 0/1 if there is an odd number."""
    if vectors.shape[-1] % 2 == 0:
        return vectors
    pad = np.zeros((*vectors.shape[:-1], 1), dtype=np.uint64)
    pad[0, vectors.shape[1] // 2 :] = 1
    if batch is not None:
        pad[:, 1, 0] = batch
    return np.concatenate([vectors, pad], axis=-1)


def layers(backend: Backend, rng: np.random.Generator) -> None:
    kernels, n = backend.multilinear, int(rng.integers(1, 600))
    (batch,), fractions = elements(rng, 1), random(rng, 3, 2, n)
    whole = even(fractions)
    p_0, p_1, q_0, q_1 = (last(whole[:, k, start::2]) for k in (0, 1) for start in (0, 1))
    above = np.stack([first(add(ext_mul(p_0, q_1), ext_mul(p_1, q_0))), first(ext_mul(q_0, q_1))], axis=1)
    same(backend, kernels.layer(on(backend, fractions)), above)
    halves = np.stack([first(v) for v in (p_0, add(p_1, times(q_1, batch)), q_0, q_1)], axis=1)
    made = kernels.halves(on(backend, fractions), batch)
    same(backend, made, halves)
    bits = max(0, (-(-halves.shape[-1] // 2) - 1).bit_length()) + 1
    r: Ext | None = None
    for _ in range(3):
        point, (scale,) = elements(rng, bits), elements(rng, 1)
        if r is not None:
            padded = last(even(halves, batch))
            halves = first(between(padded[:, 0::2], padded[:, 1::2], r))
        at_zero, square, made = kernels.layer_round(made, r, batch, kernels.products(point, scale, eq=True))
        same(backend, made, halves)
        padded = last(even(halves, batch))
        low, step = padded[:, 0::2], sub(padded[:, 1::2], padded[:, 0::2])
        weights = table(point, scale, eq=True)[: low.shape[1]]
        for found, v in ((at_zero, low), (square, step)):
            assert found == sum_of(ext_mul(add(ext_mul(v[0], v[3]), ext_mul(v[1], v[2])), weights))
        (r,), bits = elements(rng, 1), max(0, bits - 1)


def cells(backend: Backend, rng: np.random.Generator) -> None:
    kernels, n = backend.multilinear, 1 << int(rng.integers(0, 8))
    given = [random(rng, int(rng.integers(1, 5)), n) for _ in range(int(rng.integers(1, 3)))]
    columns = np.concatenate(given)
    chosen = sorted(rng.permutation(len(columns))[: int(rng.integers(0, 3))].tolist())
    selectors = bool(rng.integers(0, 2))
    expected = [columns, np.roll(columns[chosen], -1, axis=1)]
    if selectors:
        own = np.zeros((3, n), dtype=np.uint64)
        own[0, 0] = own[1, -1] = own[2, :] = 1
        own[2, -1] = 0
        expected.append(own)
    found = kernels.cells([on(backend, m) for m in given], chosen, selectors=selectors)
    same(backend, found, np.concatenate(expected))


def rows(backend: Backend, rng: np.random.Generator) -> None:
    kernels, log_run, bits = backend.multilinear, int(rng.integers(0, 7)), int(rng.integers(0, 6))
    size, point, n = 1 << log_run, elements(rng, bits), 1 << bits
    eq = kernels.products(point, eq=True)
    weights, values = table(point, ONE, eq=True), random(rng, 3, n * size)
    room = kernels.sums_of(2, size)
    kernels.run_sums(on(backend, values), eq, log_run, room[1])
    weighted = ext_mul(last(values), np.repeat(weights, size, axis=0))
    assert np.array_equal(backend.to_host(room)[1], total(weighted.reshape(n, size, 3)))

    width, points = int(rng.integers(1, 6)), sorted(rng.permutation(20)[: int(rng.integers(1, POINTS + 1))].tolist())
    matrix = random(rng, width, 2 * n)
    steps = sub(matrix[:, 1::2], matrix[:, 0::2])
    expected = np.stack([add(matrix[:, 0::2], mul(steps, np.full_like(steps, t))) for t in points], axis=1)
    same(backend, kernels.between(on(backend, matrix), points), expected)

    (nu,), constraints, interactions = elements(rng, 1), random(rng, 3, len(points), n), random(rng, 3, len(points), n)
    for mask in range(4):
        given = [v if mask >> i & 1 else None for i, v in enumerate((constraints, interactions))]
        sums = kernels.sums_of(1)[0]
        kernels.rule_sums(*(None if v is None else on(backend, v) for v in given), nu, eq, sums)
        found = backend.to_host(sums)
        for k in range(len(points)):
            value = np.zeros((n, 3), dtype=np.uint64)
            if given[0] is not None:
                value = add(value, last(constraints[:, k]))
            if given[1] is not None:
                value = add(value, times(last(interactions[:, k]), nu))
            assert element(found[k]) == sum_of(ext_mul(value, weights))

    vectors, (r,) = random(rng, 3, width, 2 * n), elements(rng, 1)
    whole = last(vectors)
    same(backend, kernels.fold_values(on(backend, vectors), r), first(between(whole[:, 0::2], whole[:, 1::2], r)))


def stacks(backend: Backend, rng: np.random.Generator) -> None:
    kernels, n = backend.multilinear, 1 << int(rng.integers(0, 8))
    given = [random(rng, int(rng.integers(1, 4)), n >> int(rng.integers(0, n.bit_length()))) for _ in range(3)]
    flat = np.concatenate([m.reshape(-1) for m in given])
    width = -(-flat.size // n) + int(rng.integers(0, 2))
    expected = np.zeros(width * n, dtype=np.uint64)
    expected[: flat.size] = flat
    same(backend, kernels.stack([on(backend, m) for m in given], width, n), expected.reshape(width, n))

    bits, count, total_ = int(rng.integers(0, 6)), int(rng.integers(1, 4)), 256
    point, (final,) = elements(rng, bits), elements(rng, 1)
    entries = random(rng, count, 7)
    entries[:, 0] = rng.permutation(total_ >> bits)[:count] << bits
    entries[rng.integers(0, count), 4:] = 0
    room = kernels.kinds(SETS, total_)
    kernels.opened_weights(kernels.products(point, eq=True), final, entries, room)
    weights, kinds = table(point, ONE, eq=True), np.zeros((SETS, 3, total_), dtype=np.uint64)
    moved = times(sub(np.roll(weights, 1, axis=0), weights), final)
    for at, *factors in entries.tolist():
        span, factor, after = slice(at, at + (1 << bits)), tuple(factors[:3]), tuple(factors[3:])
        for kind, weight, own in ((0, weights, factor), (1, weights, after), (2, moved, after)):
            kinds[kind, :, span] = first(times(weight, own))
    same(backend, room, kinds)
    scales, out = elements(rng, SETS), kernels.kinds(1, total_)[0]
    kernels.combine(room, scales, out)
    sums = np.zeros((total_, 3), dtype=np.uint64)
    for kind, scale in zip(kinds, scales, strict=True):
        sums = add(sums, times(last(kind), scale))
    same(backend, out, first(sums))


def pairs(backend: Backend, rng: np.random.Generator) -> None:
    kernels, bits, width = backend.multilinear, int(rng.integers(1, 10)), int(rng.integers(1, 6))
    pair = random(rng, 2, 3, width << bits)
    made, r = on(backend, pair), None
    for left in range(bits, 0, -1):
        if r is not None:
            pair = np.stack([first(add(last(v)[0::2], times(last(v)[1::2], r))) for v in pair])
        h_1, h_2, made = kernels.pair_round(made, r)
        assert pair.shape[-1] == width << left
        same(backend, made, pair)
        (v, odd_v), (u, odd_u) = ((last(w)[0::2], last(w)[1::2]) for w in pair)
        assert h_1 == e_add(sum_of(ext_mul(v, odd_u)), sum_of(ext_mul(odd_v, u)))
        assert h_2 == sum_of(ext_mul(odd_v, odd_u))
        (r,) = elements(rng, 1)
    assert r is not None
    folded = np.stack([first(add(last(v)[0::2], times(last(v)[1::2], r))) for v in pair])
    same(backend, kernels.fold_pair(made, r), folded)


def additions(backend: Backend, rng: np.random.Generator) -> None:
    kernels, bits, step = backend.multilinear, int(rng.integers(0, 8)), 1 << int(rng.integers(0, 4))
    source, target = random(rng, 3, 1 << bits), random(rng, 3, step << bits)
    room = on(backend, target.copy())
    kernels.add_to(room, on(backend, source), step=step)
    target[:, ::step] = add(target[:, ::step], source)
    same(backend, room, target)
    short = random(rng, 3, 1 << bits)
    room = on(backend, short.copy())
    kernels.add_to(room, on(backend, target))
    same(backend, room, add(short, target[:, : 1 << bits]))
    places = rng.permutation(step << bits)[: int(rng.integers(1, (step << bits) + 1))].astype(np.uint64)
    values, expected = random(rng, len(places), 3), np.zeros((3, step << bits), dtype=np.uint64)
    expected[:, places] = values.T
    same(backend, kernels.scattered(places, values, step << bits), expected)


def refusals(backend: Backend, rng: np.random.Generator) -> None:
    kernels = backend.multilinear

    def given(*shape: int) -> Any:
        return on(backend, random(rng, *shape))

    refused: list[Callable[[], Any]] = [
        lambda: kernels.encode(given(1, 3), 1),
        lambda: kernels.encode(given(1, 4), 31),
        lambda: kernels.apply_runs(given(1, 4), random(rng, 2, 3)),
        lambda: kernels.bind_runs(given(1, 4), random(rng, 8, 3)),
        lambda: kernels.sum_runs(given(1, 4), given(1, 3, 4), 2),
        lambda: kernels.sum_runs(given(1, 4), given(SETS + 1, 3, 2), 2),
        lambda: kernels.products([ONE] * (COORDINATES + 1), eq=True),
        lambda: kernels.tabulate(kernels.products([ONE], eq=True), given(3, 2), at=1),
        lambda: kernels.dot(given(3, 4), kernels.products([ONE], eq=True)),
        lambda: kernels.layer_round(given(3, 4, 9), None, ONE, kernels.products([ONE], eq=True)),
        lambda: kernels.place_leaves(given(4, 4), 1, [(1, 0)], given(3, 2, 8)),
        lambda: kernels.place_leaves(given(4, 4), 1, [(0, 8)], given(3, 2, 8)),
        lambda: kernels.pair_round(given(2, 3, 2), ONE),
        lambda: kernels.pair_round(given(2, 3, 3), None),
        lambda: kernels.fold_pair(given(2, 3, 3), ONE),
        lambda: kernels.fold_values(given(3, 2, 1), ONE),
        lambda: kernels.opened_weights(kernels.products([ONE], eq=True), ONE, random(rng, 1, 6), given(3, 3, 4)),
        lambda: kernels.scattered(np.array([4], dtype=np.uint64), random(rng, 1, 3), 4),
    ]
    for call in refused:
        with pytest.raises(SizeError):
            call()


CASES: list[Case] = [
    encoding,
    matrices_on_runs,
    products,
    leaves,
    layers,
    cells,
    rows,
    stacks,
    pairs,
    additions,
    refusals,
]
