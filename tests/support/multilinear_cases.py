"""What each multilinear kernel must compute, by the vectors of `distprove.stark.field`, which shares no code with it.

Every case is a function of a backend; sizes are drawn from a seed. The tests of the CPU, of the emulated GPU and of a
GPU run all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
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
    e_inv,
    e_mul,
    e_powers,
    e_scale,
    e_sub,
    element,
    embed,
    ext_mul,
    mul,
    root_of_unity,
    sub,
    total,
)
from distprove.stark.multilinear.cells import CellPrograms
from distprove.stark.multilinear.key import compile_key
from distprove.stark.multilinear.params import Parameters
from distprove.stark.programs import load_program
from distprove.stark.transcript import make_transcript
from kernels.errors import SizeError
from kernels.interface.backend import Backend
from kernels.interface.multilinear import (
    MAX_LOG_RUN,
    SETS,
    CellTable,
    LayerClaim,
    LeafPlace,
    LeafTask,
)
from kernels.interface.multilinear_rows import RowClaim, TableRules
from kernels.interface.row_program import Op, RowProgram
from kernels.interface.steps import COORDINATES, TRANSCRIPT
from kernels.interface.tree_hash import TreeHash
from tests.support import ROOT
from tests.support.stark_programs import Ring

EDGES = [0, 1, P - 1, P - 2, 0xFFFFFFFF, 1 << 32, (1 << 63) + 1]
ZERO_STATE = np.zeros(TRANSCRIPT, dtype=np.uint64)
Case = Callable[[Backend, np.random.Generator], None]


def any_hash(rng: np.random.Generator) -> TreeHash:
    """A hash of one of the three transcripts."""
    return (TreeHash.KECCAK, TreeHash.POSEIDON2, TreeHash.POSEIDON2_BN254)[int(rng.integers(0, 3))]


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


def interpolated_runs(backend: Backend, rng: np.random.Generator) -> None:
    log_run = int(rng.integers(0, MAX_LOG_RUN + 1))
    size, width, runs = 1 << log_run, int(rng.integers(1, 4)), 1 << int(rng.integers(0, 10 - log_run))
    columns, root = random(rng, width, size * runs), pow(root_of_unity(log_run), -1, P)
    scale = pow(size, -1, P)
    matrix = [[scale * pow(root, k * a % size, P) % P for a in range(size)] for k in range(size)]
    expected = total(mul(columns.reshape(-1, 1, size), np.array(matrix, dtype=np.uint64)[None]), axis=2)
    given = on(backend, columns)
    backend.multilinear.interpolate_runs(given, log_run)
    same(backend, given, expected.reshape(width, -1))


def weights_on_runs(backend: Backend, rng: np.random.Generator) -> None:
    kernels, size = backend.multilinear, 1 << int(rng.integers(0, 7))
    width, runs = int(rng.integers(1, 4)), 1 << int(rng.integers(0, 6))
    columns, weights = random(rng, width, size * runs), random(rng, size, 3)
    of_runs = columns.reshape(-1, 1, size)
    bound = total(mul(of_runs, np.ascontiguousarray(weights.T)[None]), axis=2)
    room = on(backend, np.zeros((3, width * runs), dtype=np.uint64))
    kernels.bind_runs(on(backend, columns), weights, room)
    same(backend, room, bound.T)
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


def even(fractions: Words) -> Words:
    """Fractions (3, 2, n), with a fraction 0/1 if there is an odd number."""
    if fractions.shape[-1] % 2 == 0:
        return fractions
    pad = np.zeros((3, 2, 1), dtype=np.uint64)
    pad[0, 1] = 1
    return np.concatenate([fractions, pad], axis=-1)


def layers(backend: Backend, rng: np.random.Generator) -> None:
    """The layers above some scopes' leaves; then their proof, by what its verifier does."""
    kernels, depth, scopes = backend.multilinear, int(rng.integers(1, 10)), int(rng.integers(1, 3))
    leaves = [random(rng, 3, 2, int(rng.integers(1, (1 << depth) + 1))) for _ in range(scopes)]
    kernels.single_block = int(rng.integers(1, 64))
    built = kernels.sum_layers([on(backend, own) for own in leaves], depth)
    made = leaves
    for level in range(depth):
        above = []
        for fractions in made:
            whole = even(fractions)
            p_0, p_1, q_0, q_1 = (last(whole[:, k, start::2]) for k in (0, 1) for start in (0, 1))
            sums = add(ext_mul(p_0, q_1), ext_mul(p_1, q_0))
            above.append(np.stack([first(sums), first(ext_mul(q_0, q_1))], axis=1))
        made = above
        for found, expected in zip(built[level + 1], made, strict=True):
            same(backend, found, expected)
    roots = [(element(root[:, 0, 0]), element(root[:, 1, 0])) for root in made]
    point = tuple(elements(rng, scopes - 1))
    numerator, denominator = (evaluated([root[k] for root in roots], point) for k in (0, 1))
    tree_hash = any_hash(rng)
    transcript = make_transcript(b"test", tree_hash)
    try:
        sent, left = kernels.prove_layers(built[:-1], LayerClaim(transcript.words(), numerator, denominator, point))
    finally:
        del kernels.single_block
    values = iter(element(words) for words in sent)
    for _ in range(depth):
        batch, drawn = transcript.extension(b"layer"), []
        c = e_add(numerator, e_mul(batch, denominator))
        for x in point:
            t_1, t_2 = given = [next(values), next(values)]
            t_0 = e_sub(c, e_mul(x, e_add(t_1, t_2)))
            transcript.absorb_words(b"gkr", np.array(given, dtype=np.uint64))
            drawn.append(r := transcript.extension(b"rho"))
            c = e_add(t_0, e_mul(r, e_add(t_1, e_mul(r, t_2))))
        a_0, a_1, b_0, b_1 = children = [next(values) for _ in range(4)]
        assert c == e_add(e_add(e_mul(a_0, b_1), e_mul(a_1, b_0)), e_mul(batch, e_mul(b_0, b_1)))
        transcript.absorb_words(b"children", np.array(children, dtype=np.uint64))
        mu = transcript.extension(b"child")
        point = (mu, *drawn)
        numerator, denominator = evaluated([a_0, a_1], [mu]), evaluated([b_0, b_1], [mu])
    assert next(values, None) is None
    assert (left.numerator, left.denominator, left.point) == (numerator, denominator, point)
    after = make_transcript(b"another", tree_hash)
    after.resume(left.transcript)
    assert after.extension(b"next") == transcript.extension(b"next")
    for k, value in ((0, numerator), (1, denominator)):
        padded = [[element(w) for w in own[:, k].T] + [(k, 0, 0)] * ((1 << depth) - own.shape[-1]) for own in leaves]
        assert evaluated([v for own in padded for v in own], point) == value


def evaluated(values: Sequence[Ext], point: Sequence[Ext]) -> Ext:
    """The multilinear polynomial with these values on the cube, the lowest variable first, at a point."""
    for r in point:
        values = [e_add(a, e_mul(r, e_sub(b, a))) for a, b in zip(values[0::2], values[1::2], strict=True)]
    (value,) = values
    return value


def cells(backend: Backend, rng: np.random.Generator) -> None:
    kernels, made = backend.multilinear, []
    for _ in range(int(rng.integers(1, 5))):
        n = 1 << int(rng.integers(0, 8))
        given = [random(rng, int(rng.integers(1, 5)), n) for _ in range(int(rng.integers(1, 3)))]
        columns = np.concatenate(given)
        chosen = sorted(rng.permutation(len(columns))[: int(rng.integers(0, 3))].tolist())
        selectors = bool(rng.integers(0, 2))
        parts = [columns, np.roll(columns[chosen], -1, axis=1)]
        if selectors:
            own = np.zeros((3, n), dtype=np.uint64)
            own[0, 0] = own[1, -1] = own[2, :] = 1
            own[2, -1] = 0
            parts.append(own)
        expected = np.concatenate(parts)
        out = kernels.vector(expected.size + 3)[3:].reshape(expected.shape)
        made.append((CellTable([on(backend, m) for m in given], chosen, selectors, out), expected))
    kernels.cells([table for table, _ in made])
    for table, expected in made:
        same(backend, table.out, expected)


@cache
def rule_tables() -> tuple[CellPrograms, ...]:
    """Tables of programs that ship, and of a test's, with rules of all kinds."""
    guest = {"elf": str(ROOT / "tests" / "stark" / "riscv" / "guests" / "fibonacci.elf"), "segment": 4096}
    given = [load_program("riscv", guest), load_program("range-check", {"values": 16, "bits": 4}), Ring(3)]
    keys = [compile_key(program, Parameters(1, 0, (1,) * 8, 0, 0)) for program in given]
    return tuple(CellPrograms(table) for key in keys for table in key.tables)


def outputs(program: RowProgram, spans: Sequence[tuple[int, int]], cells: Words, scalars: Words) -> Words:
    """The outputs of a program on a coset, (outputs, n, 3), or their fold (1, n, 3), of cells (cells, n, 3)."""
    values: list[Words] = []
    for op, a, b, _ in program.instructions():
        if op == Op.LOAD:
            value = cells[spans[a][0] + b]
        elif op == Op.CONST:
            value = embed(np.full(cells.shape[1], program.constants[a], dtype=np.uint64))
        elif op == Op.SCALAR:
            value = np.broadcast_to(scalars[a], cells.shape[1:])
        elif op == Op.BASE_SCALAR:
            value = embed(np.full(cells.shape[1], scalars[a, 0], dtype=np.uint64))
        else:
            value = {Op.ADD: add, Op.SUB: sub, Op.MUL: ext_mul}[Op(op)](values[a], values[b])
        values.append(value)
    found = np.array([values[v] for v in program.outputs])
    if program.fold is None:
        return found
    weights = scalars[program.fold :][: len(found)]
    return total(ext_mul(found, np.broadcast_to(weights[:, None], found.shape)))[None]


def base_scalars(rng: np.random.Generator, program: RowProgram) -> Words:
    return random(rng, program.scalars, 3)


def leaves(backend: Backend, rng: np.random.Generator) -> None:
    """Several tables of different heights in one call, as in a proof."""
    kernels, log_run = backend.multilinear, int(rng.integers(0, 3))
    tables = [rule_tables()[i] for i in rng.permutation(len(rule_tables()))[:3]]
    runs = sorted((int(rng.integers(0, 4)) for _ in tables), reverse=True)
    sizes = [own.cells << bits + log_run for own, bits in zip(tables, runs, strict=True)]
    flat, firsts = random(rng, sum(sizes)), np.cumsum([0, *sizes]).tolist()
    room = on(backend, flat)
    heights = [1 << bits + log_run for bits in runs]
    whole = [flat[at : at + k].reshape(-1, n) for at, k, n in zip(firsts, sizes, heights, strict=False)]
    given = [room[at : at + k].reshape(-1, n) for at, k, n in zip(firsts, sizes, heights, strict=False)]

    found = [(i, own.leaves) for i, own in enumerate(tables) if own.leaves is not None]
    words_ = [base_scalars(rng, program.on_coset) for _, program in found]
    uses = [len(tables[i].rules.uses) for i, _ in found]
    fractions = np.zeros((3, 2, 5 + sum(k * heights[i] for (i, _), k in zip(found, uses, strict=True))), np.uint64)
    out, at_, leaf_tasks = on(backend, fractions.copy()), 5, []
    told = kernels.bind([(program, words) for (_, program), words in zip(found, words_, strict=True)])
    for (i, program), own, k, words in zip(found, told, uses, words_, strict=True):
        places: list[LeafPlace | None] = []
        made = outputs(program.on_coset, program.spans, embed(whole[i]), words)
        for use in range(k):
            if rng.integers(0, 5) == 0:
                places.append(None)
                continue
            places.append(LeafPlace(out, at_))
            fractions[:, 0, at_ : at_ + heights[i]] = made[use].T
            fractions[:, 1, at_ : at_ + heights[i]] = made[k + use].T
            at_ += heights[i]
        leaf_tasks.append(LeafTask(own, given[i], places))
    kernels.leaves(leaf_tasks)
    same(backend, out, fractions)


def lagrange(points: Sequence[int], values: Sequence[Ext]) -> list[Ext]:
    """The coefficients of the polynomial of least degree with these values."""
    found = [ZERO] * len(points)
    for i, (own, value) in enumerate(zip(points, values, strict=True)):
        basis = [pow(math.prod(own - x for x in points if x != own), -1, P)]
        for x in [*points[:i], *points[i + 1 :]]:
            basis = [(a - x * b) % P for a, b in zip([0, *basis], [*basis, 0], strict=True)]
        found = [e_add(c, e_scale(value, b)) for c, b in zip(found, basis, strict=True)]
    return found


def at(coefficients: Sequence[Ext], x: Ext) -> Ext:
    value = ZERO
    for c in reversed(coefficients):
        value = e_add(e_mul(value, x), c)
    return value


def row_rounds(backend: Backend, rng: np.random.Generator) -> None:
    """The univariate round and those over rows, of rules that hold nowhere: what is sent is defined all the same."""
    kernels, log_run = backend.multilinear, int(rng.integers(0, 3))
    if rng.integers(0, 4) == 0:
        log_run = int(rng.integers(4, 6))
    known = [own for own in rule_tables() if max(len(program.code) for program in own.rules.programs) < 1000]
    tables = [known[i] for i in rng.permutation(len(known))[: 1 if log_run > 2 else 3]]
    variables = sorted((int(rng.integers(0, 4)) for _ in tables), reverse=True)
    size, root = 1 << log_run, root_of_unity(log_run)
    sizes = [own.cells << bits + log_run for own, bits in zip(tables, variables, strict=True)]
    flat, firsts = random(rng, sum(sizes)), np.cumsum([0, *sizes]).tolist()
    columns = [flat[b : b + k].reshape(own.cells, -1) for b, k, own in zip(firsts, sizes, tables, strict=False)]
    for own, values in zip(tables, columns, strict=True):  # next columns are what they say
        moved = list(own.rules.next_row)
        values[own.rules.columns : own.rules.columns + len(moved)] = np.roll(values[moved], -1, axis=1)
    chosen = [
        (i, program, degree, constrains)
        for i, own in enumerate(tables)
        for program, degree, constrains in (
            (own.constraints, own.rules.constraint_degree, True),
            (own.interactions, own.rules.interaction_degree, False),
        )
        if program is not None
    ]
    scalars = [base_scalars(rng, program.on_coset) for _, program, _, _ in chosen]
    bound = kernels.bind([(program, own) for (_, program, _, _), own in zip(chosen, scalars, strict=True)])
    given = [
        TableRules(rules, firsts[i], tables[i].cells, variables[i] + log_run, degree, constrains)
        for rules, (i, _, degree, constrains) in zip(bound, chosen, strict=True)
    ]
    most = {kind: max((r.degree for r in given if r.constrains == kind), default=0) for kind in (True, False)}
    lengths = max(0, most[True] - 1) * (size - 1), most[False] * (size - 1) + 1 if most[False] else 0
    transcript = make_transcript(b"test", any_hash(rng))
    point, degree = elements(rng, log_run + variables[0]), max(1, *most.values())
    base = on(backend, flat)
    made = kernels.skip_round(base, given, RowClaim(transcript.words(), point, log_run, *lengths, degree))
    vectors = kernels.bind_rows(base, made)
    proved = kernels.row_rounds(vectors, made)

    tails = point[log_run:]
    polynomials = []
    for rule, (i, program, _, _), own in zip(given, chosen, scalars, strict=True):
        weights = np.repeat(table(tails[: variables[i]], ONE, eq=True), size, axis=0)
        places: list[int] = []
        values: list[Ext] = []
        for coset in rule.cosets:
            shift = pow(root_of_unity(log_run + 9), coset, P)
            places += [shift * pow(root, a, P) % P for a in range(size)]
            inverse = [[pow(root, -a * k, P) * pow(size, -1, P) % P for a in range(size)] for k in range(size)]
            moves = [
                [sum(pow(x, k, P) * inverse[k][a] for k in range(size)) % P for a in range(size)]
                for x in places[-size:]
            ]
            moved = total(mul(columns[i].reshape(-1, 1, size), np.array(moves, dtype=np.uint64)[None]), axis=2)
            (found,) = outputs(program.on_coset, program.spans, embed(moved.reshape(columns[i].shape)), own)
            divisor = pow(pow(shift, size, P) - 1, -1, P) if rule.constrains else 1
            sums = total(ext_mul(found, weights).reshape(-1, size, 3))
            values += [e_scale(element(words), divisor) for words in sums]
        polynomials.append(lagrange(places, values))
    for kind, length, sent in ((True, lengths[0], proved.quotient), (False, lengths[1], proved.leaves)):
        expected = [ZERO] * length
        for rule, polynomial in zip(given, polynomials, strict=True):
            if rule.constrains == kind:
                for k, c in enumerate(polynomial[:length]):
                    expected[k] = e_add(expected[k], c)
        assert [element(words) for words in sent] == expected
    transcript.absorb_words(b"quotient", proved.quotient)
    transcript.absorb_words(b"leaves", proved.leaves)
    r, nu = transcript.extension(b"skip"), transcript.extension(b"nu")
    power = ONE
    for _ in range(size):
        power = e_mul(power, r)
    claims = [
        e_mul(at(polynomial, r), e_sub(power, ONE) if rule.constrains else ONE)
        for rule, polynomial in zip(given, polynomials, strict=True)
    ]
    domain = [pow(root, a, P) for a in range(size)]
    units = [[ONE if a == k else ZERO for a in range(size)] for k in range(size)]
    low = np.array([at(lagrange(domain, unit), r) for unit in units], dtype=np.uint64)
    cells_ = []
    for columns_ in columns:
        runs = embed(columns_).reshape(len(columns_), -1, size, 3)
        cells_.append(total(ext_mul(runs, np.broadcast_to(low, runs.shape)), axis=2))
    drawn = [r]
    for number in range(variables[0]):
        whole = [ZERO] * (degree + 1)
        shares = []
        for k, (rule, (i, program, _, _), own) in enumerate(zip(given, chosen, scalars, strict=True)):
            share = [claims[k]]
            if number < variables[i]:
                weights = table(tails[number + 1 : variables[i]], ONE, eq=True)
                rows = [between(cells_[i][:, 0::2], cells_[i][:, 1::2], (t, 0, 0)) for t in rule.points]
                found_ = [
                    sum_of(ext_mul(outputs(program.on_coset, program.spans, row, own)[0], weights)) for row in rows
                ]
                x = tails[number]
                one = e_mul(e_sub(claims[k], e_mul(e_sub(ONE, x), found_[0])), e_inv(x))
                share = lagrange(list(range(rule.degree + 1)), [found_[0], one, *found_[1:]][: rule.degree + 1])
            shares.append(share)
            for power_, c in enumerate(share):
                whole[power_] = e_add(whole[power_], c if rule.constrains else e_mul(nu, c))
        assert [element(words) for words in proved.rounds[number]] == whole[1:]
        transcript.absorb_words(b"round", np.array(whole[1:], dtype=np.uint64))
        drawn.append(transcript.extension(b"r"))
        claims = [at(share, drawn[-1]) for share in shares]
        cells_ = [
            between(own[:, 0::2], own[:, 1::2], drawn[-1]) if number < bits else own
            for own, bits in zip(cells_, variables, strict=True)
        ]
    assert proved.drawn == drawn
    assert np.array_equal(proved.cells, np.concatenate([own[:, 0] for own in cells_]).T)
    assert np.array_equal(proved.transcript, transcript.words())


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
    alone = kernels.kinds(1, total_)
    without = np.concatenate([entries[:, :4], np.zeros((count, 3), dtype=np.uint64)], axis=1)
    kernels.opened_weights(kernels.products(point, eq=True), final, without, alone)
    same(backend, alone, kinds[:1])
    size = 1 << int(rng.integers(0, 4))
    low, out = random(rng, SETS, size, 3), kernels.kinds(1, total_ * size)[0]
    kernels.expand(room, low, out)
    sums = np.zeros((total_, size, 3), dtype=np.uint64)
    for kind, own in zip(kinds, low, strict=True):
        sums = add(sums, ext_mul(last(kind)[:, None], own[None]))
    sums = sums.reshape(-1, 3)
    same(backend, out, first(sums))


def pairs(backend: Backend, rng: np.random.Generator) -> None:
    """Rounds that draw by themselves, and the transcript between them. A second stack may join later."""
    kernels, count, opening = backend.multilinear, int(rng.integers(1, 6)), bool(rng.integers(0, 2))
    starts = [0, int(rng.integers(0, count + 1))][: int(rng.integers(1, 3))]
    given = [
        random(rng, 2, 3, int(rng.integers(1, 6)) << int(rng.integers(count - start, 10 - start))) for start in starts
    ]
    transcript = make_transcript(b"test", any_hash(rng))
    on_it = [on(backend, pair) for pair in given]
    made = kernels.pair_rounds(on_it, count, transcript.words(), opening=opening, starts=starts)
    folded = kernels.fold_drawn(made)
    labels = (b"sum", b"alpha") if opening else (b"reduce", b"fold")
    for i, (sent, drawn) in enumerate(zip(made.sent, made.drawn, strict=True)):
        halves = [
            [(last(v)[0::2], last(v)[1::2]) for v in pair]
            for pair, start in zip(given, starts, strict=True)
            if start <= i
        ]
        h_1 = sum_of(np.array([sum_of(add(ext_mul(v, du), ext_mul(dv, u))) for (v, dv), (u, du) in halves], np.uint64))
        h_2 = sum_of(np.array([sum_of(ext_mul(dv, du)) for (_, dv), (_, du) in halves], dtype=np.uint64))
        assert [element(words) for words in sent] == [h_1, h_2]
        transcript.absorb_words(labels[0], np.array([h_1, h_2], dtype=np.uint64))
        assert drawn == transcript.extension(labels[1])
        if i + 1 == count:
            for found, pair in zip(made.over, given, strict=True):
                same(backend, found, pair)
        for s, start in enumerate(starts):
            if start <= i:
                given[s] = np.stack([first(add(last(v)[0::2], times(last(v)[1::2], drawn))) for v in given[s]])
    for found, pair in zip(folded, given, strict=True):
        same(backend, found, pair)
    assert np.array_equal(made.transcript, transcript.words())


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
    places = [int(j) for j in rng.integers(0, step << bits, int(rng.integers(0, 40)))]
    (x,) = elements(rng, 1)
    expected, begin = np.zeros((3, step << bits), dtype=np.uint64), int(rng.integers(0, 3))
    for j, power in zip(places, e_powers(x, begin + len(places))[begin:], strict=True):
        expected[:, j] = add(expected[:, j], np.array(power, dtype=np.uint64))
    same(backend, kernels.scattered_powers(places, x, begin, step << bits), expected)


def refusals(backend: Backend, rng: np.random.Generator) -> None:
    kernels = backend.multilinear

    def given(*shape: int) -> Any:
        return on(backend, random(rng, *shape))

    def skipped(first: int, degree: int, variables: int) -> Any:
        """Rules of two columns of four rows, over eight cells and runs of two."""
        claim = RowClaim(ZERO_STATE, [ONE] * (1 + variables), 1, 0, 0, 1)
        return kernels.skip_round(given(8), [TableRules(None, first, 2, 2, degree, True)], claim)

    refused: list[Callable[[], Any]] = [
        lambda: kernels.encode(given(1, 3), 1),
        lambda: kernels.encode(given(1, 4), 31),
        lambda: kernels.interpolate_runs(given(1, 4), 3),
        lambda: kernels.interpolate_runs(given(1, 1 << 7), MAX_LOG_RUN + 1),
        lambda: kernels.bind_runs(given(1, 4), random(rng, 8, 3), given(3, 1)),
        lambda: kernels.bind_runs(given(1, 4), random(rng, 2, 3), given(3, 1)),
        lambda: kernels.sum_runs(given(1, 4), given(1, 3, 4), 2),
        lambda: kernels.sum_runs(given(1, 4), given(SETS + 1, 3, 2), 2),
        lambda: kernels.products([ONE] * (COORDINATES + 1), eq=True),
        lambda: kernels.tabulate(kernels.products([ONE], eq=True), given(3, 2), at=1),
        lambda: kernels.dot(given(3, 4), kernels.products([ONE], eq=True)),
        lambda: kernels.sum_layers([given(3, 2, 1)] * 3, 1),
        lambda: kernels.sum_layers([given(3, 2, 1)], COORDINATES),
        lambda: kernels.prove_layers([[given(3, 2, 1)] * 3], LayerClaim(ZERO_STATE, ONE, ONE, ())),
        lambda: kernels.prove_layers([[given(3, 4, 1)]], LayerClaim(ZERO_STATE, ONE, ONE, ())),
        lambda: kernels.prove_layers([[given(3, 2, 1)]], LayerClaim(ZERO_STATE, ONE, ONE, (ONE,) * COORDINATES)),
        lambda: kernels.cells([CellTable([given(2, 4)], [], True, given(4, 4))]),
        lambda: kernels.leaves([LeafTask(None, given(1, 4), [LeafPlace(given(3, 2, 8), 5)])]),
        lambda: kernels.skip_round(
            given(8), [TableRules(None, 4, 2, 2, 1, True)], RowClaim(ZERO_STATE, [ONE], 1, 0, 0, 1)
        ),
        lambda: skipped(4, 1, 1),
        lambda: skipped(0, 1, 0),
        lambda: skipped(0, 2, 1),
        lambda: kernels.pair_rounds([given(2, 3, 4)], 0, ZERO_STATE, opening=True),
        lambda: kernels.pair_rounds([given(2, 3, 4)] * 2, 2, ZERO_STATE, opening=True, starts=(0, 3)),
        lambda: kernels.pair_rounds([given(2, 3, 4)], 2, ZERO_STATE, opening=True, starts=(1,)),
        lambda: kernels.pair_rounds([given(2, 3, 4)] * 3, 1, ZERO_STATE, opening=True),
        lambda: kernels.pair_rounds([given(2, 3, 4)], 3, ZERO_STATE, opening=True),
        lambda: kernels.opened_weights(kernels.products([ONE], eq=True), ONE, random(rng, 1, 6), given(3, 3, 4)),
        lambda: kernels.scattered_powers([4], ONE, 0, 4),
        lambda: kernels.scattered_powers([-1], ONE, 0, 4),
    ]
    for call in refused:
        with pytest.raises(SizeError):
            call()


CASES: list[Case] = [
    encoding,
    interpolated_runs,
    weights_on_runs,
    products,
    layers,
    cells,
    leaves,
    row_rounds,
    stacks,
    pairs,
    additions,
    refusals,
]
