"""LogUp: terminals against plain fractions, the constraints against the columns, and what a cheat would change."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import InputError, InvalidProof
from distprove.stark import field, logup
from distprove.stark.air import Air, Bus, CompiledAir, Table
from distprove.stark.air.check import check_trace
from distprove.stark.field import Ext, P, Words
from kernels.maths.goldilocks import GENERATOR, root_of_unity
from tests.support.air_examples import Limbs, Ranges, compile_air, compile_airs, limbs_traces
from tests.support.bus_forgery import fingerprint
from tests.support.stark_reference import ReferenceBackend, ReferenceKernels, domain, power

LOCAL = ((11, 12, 13), (14, 15, 16))
GLOBAL = ((21, 22, 23), (24, 25, 26))
BUSES = logup.BusChallenges(LOCAL, GLOBAL)
PUBLIC = (7, 8)
ALPHA = (31, 32, 33)
backend = ReferenceBackend()
kernels = ReferenceKernels()


def aux(air: CompiledAir, fixed: Words | None, main: Words) -> tuple[Words, logup.Terminals]:
    scalars = logup.interaction_scalars(air, PUBLIC, BUSES)
    return logup.aux_columns(backend, air, fixed, main, scalars)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tables() -> tuple[CompiledAir, CompiledAir]:
    limbs, ranges = compile_airs([Limbs(), Ranges()], {"p": (0, 2)})
    return limbs, ranges


def fraction(times: int, number: int, values: Sequence[int], challenges: tuple[Ext, Ext]) -> Ext:
    return field.e_scale(field.e_inv(fingerprint(number, values, *challenges)), times % P)


terms = st.builds(
    logup.BoundaryTerm,
    st.integers(1, 3),
    st.lists(st.integers(0, P - 1), max_size=4).map(tuple),
    st.integers(-2, 2) | st.integers(-P, P),
)


@given(st.lists(terms, max_size=6))
def test_the_boundary_s_sum_is_that_of_its_fractions(boundary: list[logup.BoundaryTerm]) -> None:
    expected = field.e_sum([fraction(t.times, t.bus_number, t.values, GLOBAL) for t in boundary])
    assert logup.boundary_sum(boundary, *GLOBAL) == expected


def test_terminals_are_the_sums_of_all_fractions(tables: tuple[CompiledAir, CompiledAir]) -> None:
    main, fixed, used = limbs_traces()
    limb, value, on = main[:3], main[3], main[4]
    n = main.shape[1]
    local = [fraction(int(on[j]), 1, [int(limb[k, j])], LOCAL) for j in range(n) for k in range(3)]
    shown = [(int(on[j]), 2, [int(value[j]), int(limb[0, j])]) for j in range(n)]
    received = [(-t, b, v) for t, b, v in shown[1:] + shown[:1]]
    columns, terminals = aux(tables[0], None, main)
    assert terminals == (field.e_sum(local), field.e_sum([fraction(*part, GLOBAL) for part in shown + received]))
    assert terminals[1] == field.ZERO  # what this table sends, it receives a row later
    assert columns.shape == (tables[0].aux_width, n)

    _, (provided, none) = aux(tables[1], fixed, used)
    assert none is None
    assert provided == field.e_sum([fraction(-int(t), 1, [v], LOCAL) for v, t in enumerate(used[0])])
    assert logup.balanced([terminals[0], provided])
    assert logup.balanced([terminals[1], none])


def test_a_wrong_multiplicity_or_value_unbalances_the_bus(tables: tuple[CompiledAir, CompiledAir]) -> None:
    main, fixed, used = limbs_traces()
    honest = aux(tables[0], None, main)[1][0]
    for change in (1, P - 1):
        wrong = used.copy()
        wrong[0, 3] = (int(wrong[0, 3]) + change) % P
        assert not logup.balanced([honest, aux(tables[1], fixed, wrong)[1][0]])
    wrong = main.copy()
    wrong[1, int(np.flatnonzero(main[4])[0])] = 8  # a limb that no row provides
    assert not logup.balanced([aux(tables[0], None, wrong)[1][0], aux(tables[1], fixed, used)[1][0]])


class Many(Air):
    """Groups of several sizes on both scopes, values of several degrees, all four matrices."""

    preprocessed = {"f": 2}
    main = {"x": 4, "on": 1}
    public = ("p",)

    def __init__(self, degree: int) -> None:
        self.own = degree

    def define(self, t: Table) -> None:
        x, on = t.this.x, t.this.on
        local, triple, far = Bus("local", 1), Bus("triple", 3), Bus("far", 2, "global")
        t.boolean(on)
        t.always(on**self.own - on)
        t.transition(on * (t.next.on - t.this.on * t.next.on - t.next.on * (1 - on)))
        t.send(local, [x[0]], times=on)
        t.send(far, [x[1], t.public.p[1]], times=on)
        t.receive(local, [t.next.x[2] * x[1]], times=t.fixed.f[0])
        t.receive(triple, [x[3], 1, 0], times=3)
        t.send(triple, [x[3] * x[3] * x[3], t.fixed_next.f[1], 5], times=on, at_most=1)
        t.receive(far, [7, x[2]], times=x[3])
        t.send(local, [x[0] + x[1]], times=on * t.fixed.f[1], at_most=9)
        t.send(local, [x[0] + 1])
        t.receive(local, [x[0] + 1])


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 7])
@pytest.mark.parametrize("log_n", [0, 1, 3])
def test_the_quotient_exists_and_meets_the_constraints_at_a_point(degree: int, log_n: int) -> None:
    """The prover's side of a table, from the trace to quotient chunks, and the verifier's equation at zeta."""
    n = 1 << log_n
    air = compile_air(Many(degree), {"other": (0, 0), "p": (0, 2)}, {"local": 4, "triple": 5, "far": 6})
    rng = np.random.default_rng(degree)
    fixed = rng.integers(0, P, (2, n), dtype=np.uint64)
    main = rng.integers(0, P, (5, n), dtype=np.uint64)
    main[4] = rng.integers(0, 2, n)
    assert quotient_identity(air, fixed, main)
    assert air.has_local
    assert air.has_global


def test_columns_that_break_a_logup_constraint_have_no_quotient(tables: tuple[CompiledAir, CompiledAir]) -> None:
    main, fixed, used = limbs_traces()
    assert quotient_identity(tables[0], None, main)
    assert quotient_identity(tables[1], fixed, used)
    columns, terminals = aux(tables[0], None, main)
    for column in range(0, len(columns), 2):
        changed = columns.copy()
        changed[column, 5] = (int(changed[column, 5]) + 1) % P
        assert not quotient_identity(tables[0], None, main, (changed, terminals))
    local, far = terminals
    assert local is not None
    assert far is not None
    for wrong in ((field.e_add(local, (1, 0, 0)), far), (local, field.e_add(far, (0, 0, 1)))):
        assert not quotient_identity(tables[0], None, main, (columns, wrong))


def quotient_identity(
    air: CompiledAir, fixed: Words | None, main: Words, third: tuple[Words, logup.Terminals] | None = None
) -> bool:
    """Whether C(zeta) = Q(zeta) (zeta^n - 1), Q put together from chunks of degree below n."""
    n = main.shape[1]
    log_n = n.bit_length() - 1
    columns, terminals = third or aux(air, fixed, main)
    chunks = air.quotient_chunks
    log_blowup = max(1, chunks.bit_length() - 1)
    log_chunks = chunks.bit_length() - 1
    extended = [None if m is None else kernels.lde(m, log_blowup) for m in (fixed, main, columns)]
    points = domain(log_n, log_blowup)[:: (1 << log_blowup) // chunks]
    vanishing = field.sub(power(points[:, 0], n), np.uint64(1))
    scalars = logup.constraint_scalars(air, PUBLIC, BUSES, terminals, n=n, alpha=ALPHA)
    selectors = kernels.selectors(log_n, log_blowup, log_blowup)
    quotient = kernels.evaluate(
        air.constraints,
        [*extended, selectors],
        scalars,
        log_cosets=log_chunks,
        coset_factors=field.inverse(vanishing),
    )
    zeta = (1234, 567, 89)
    opened = [
        None if e is None else kernels.evaluate_at([e], zeta, next_row=[range(len(e))])[0].reshape(2, -1, 3)
        for e in extended
    ]
    at_zeta, over_domain = selectors_at(zeta, log_n)
    value = air.at_point(
        [*(None if v is None else v[0] for v in opened), at_zeta],
        [*(None if v is None else v[1] for v in opened), None],
        scalars,
    )
    # Q by Lagrange over the cosets: on coset s, Z_s(x) = prod_{r != s} (x^n - s_r^n) / (s_s^n - s_r^n).
    total = field.ZERO
    powers = [pow(int(p), n, P) for p in points[:, 0]]
    zeta_n = field.e_pow(zeta, n)
    for k in range(chunks):
        shift = GENERATOR * pow(root_of_unity(log_n + log_blowup), k * (1 << log_blowup) // chunks, P) % P
        low_degree = kernels.lde(np.ascontiguousarray(quotient[:, k]), log_blowup, coset=shift)
        (coordinates,) = kernels.evaluate_at([low_degree], zeta)
        chunk = field.ZERO
        for basis, part in zip(((1, 0, 0), (0, 1, 0), (0, 0, 1)), coordinates.tolist(), strict=True):
            chunk = field.e_add(chunk, field.e_mul(basis, (part[0], part[1], part[2])))
        for r in range(chunks):
            if r != k:
                chunk = field.e_mul(chunk, field.e_sub(zeta_n, (powers[r], 0, 0)))
                chunk = field.e_scale(chunk, pow(powers[k] - powers[r], -1, P))
        total = field.e_add(total, chunk)
    return value == field.e_mul(total, over_domain)


def selectors_at(zeta: Ext, log_n: int) -> tuple[Words, Ext]:
    """The selectors at zeta, (3, 3), and zeta^n - 1."""
    vanishing = field.e_sub(field.e_pow(zeta, 1 << log_n), field.ONE)
    before_last = field.e_sub(zeta, (pow(root_of_unity(log_n), -1, P), 0, 0))
    first = field.e_mul(vanishing, field.e_inv(field.e_sub(zeta, field.ONE)))
    last = field.e_mul(vanishing, field.e_inv(before_last))
    return np.array([first, last, before_last], dtype=np.uint64), vanishing


def test_the_boundary_closes_a_global_bus() -> None:
    class Chain(Air):
        main = {"x": 1}

        def define(self, t: Table) -> None:
            far = Bus("far", 1, "global")
            t.send(far, [t.this.x + 1])
            t.receive(far, [t.this.x], at_most=1)

    air = compile_air(Chain(), {"p": (0, 2)}, {"far": 3})
    terminals = [aux(air, None, np.arange(8 * k, 8 * k + 8, dtype=np.uint64)[None])[1][1] for k in range(3)]
    ends = [logup.BoundaryTerm(3, (0,), 1), logup.BoundaryTerm(3, (24,), -1)]
    boundary = logup.boundary_sum(ends, *GLOBAL)
    assert logup.balanced(terminals, boundary)
    assert not logup.balanced(terminals)
    assert not logup.balanced(terminals[:2], boundary)
    assert not logup.balanced([*terminals, terminals[0]], boundary)
    assert not logup.balanced(terminals, logup.boundary_sum(ends[:1], *GLOBAL))
    z = field.e_sub(field.ZERO, (3, 0, 0))
    with pytest.raises(InvalidProof):
        logup.boundary_sum([logup.BoundaryTerm(3, (0,), 1)], z, GLOBAL[1])


class Give(Air):
    main = {"x": 2, "times": 1}

    def define(self, t: Table) -> None:
        t.send(Bus("b", 2), t.this.x, times=t.this.times, at_most=None)


class Take(Give):
    def define(self, t: Table) -> None:
        t.receive(Bus("b", 2), t.this.x, times=t.this.times)


rows = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([0, 1, 2, P - 1])), min_size=4, max_size=4
)


@settings(max_examples=60)
@given(rows, st.one_of(rows, st.permutations(range(4))))
def test_terminals_balance_exactly_when_the_multisets_are_equal(sent: list[Any], received: list[Any]) -> None:
    """`received`: rows of its own, or those sent in another order."""
    if isinstance(received[0], int):
        received = [sent[i] for i in received]
    counts: dict[tuple[int, int], int] = {}
    for sign, part in ((1, sent), (-1, received)):
        for a, b, times in part:
            counts[a, b] = (counts.get((a, b), 0) + sign * times) % P
    equal = not any(counts.values())
    airs = [Give(), Take()]
    traces = [np.array(part, dtype=np.uint64).T.copy() for part in (sent, received)]
    terminals = [
        aux(air, None, trace)[1][0] for air, trace in zip(compile_airs(airs, {"p": (0, 2)}), traces, strict=True)
    ]
    assert logup.balanced(terminals) == equal
    assert (not check_trace(airs, traces)) == equal


def test_scalars_say_what_is_missing(tables: tuple[CompiledAir, CompiledAir]) -> None:
    limbs = tables[0]
    good = {"buses": BUSES, "terminals": (field.ONE, field.ONE), "n": 4, "alpha": ALPHA}
    assert logup.constraint_scalars(limbs, PUBLIC, **good).shape == (limbs.constraints.scalars, 3)  # type: ignore[arg-type]
    for change in (
        {"buses": logup.BusChallenges(None, GLOBAL)},
        {"buses": logup.BusChallenges(LOCAL, None)},
        {"terminals": (None, field.ONE)},
        {"terminals": (field.ONE, None)},
    ):
        with pytest.raises(InputError, match="missing"):
            logup.constraint_scalars(limbs, PUBLIC, **{**good, **change})  # type: ignore[arg-type]
    for public in ((1,), (1, 2, 3), (1, P), (1, -1)):
        with pytest.raises(InputError, match="public value"):
            logup.constraint_scalars(limbs, public, **good)  # type: ignore[arg-type]
    weights = logup.constraint_scalars(limbs, PUBLIC, **good)[limbs.constraints.fold :]  # type: ignore[arg-type]
    assert [tuple(w) for w in weights.tolist()] == field.e_powers(ALPHA, len(limbs.constraint_names))


def on_bus(name: str, sends: bool, at_most: int | None, width: int = 1) -> CompiledAir:
    class One(Air):
        main = {"x": 1}

        def define(self, t: Table) -> None:
            act = t.send if sends else t.receive
            act(Bus("b", width), [t.this.x] * width, times=t.this.x, at_most=at_most)

    return dataclasses.replace(compile_air(One(), {}, {"b": 1}), name=name)


def test_multiplicities_must_not_wrap_around() -> None:
    bounded, free = on_bus("bounded", True, 1), on_bus("free", False, None)
    logup.check_multiplicities([bounded, free], [(20, 20)])
    logup.check_multiplicities([bounded, on_bus("r", False, 2)], [(2, 2)])
    for airs, heights in (
        ([on_bus("s", True, None), free], (2, 2)),
        ([bounded, on_bus("s", True, None), free], (2, 2, 2)),
        ([on_bus("s", True, (P - 1) // 2), free], (2, 2)),
        ([on_bus("s", True, P // 4), on_bus("t", True, P // 4), free], (1, 2, 2)),
    ):
        with pytest.raises(InputError, match="wrap"):
            logup.check_multiplicities(airs, [heights])
    quarters = [on_bus("s", True, P // 4), on_bus("t", True, P // 4), free]
    logup.check_multiplicities(quarters, [(1, 1, 2)])
    with pytest.raises(InputError, match="wrap"):
        logup.check_multiplicities(quarters, [(1, 1, 2)] * 2)
    logup.check_multiplicities(quarters, [(1, None, 2), (None, 1, 2)])  # what is absent sends nothing


def test_tables_and_boundary_agree_on_buses() -> None:
    with pytest.raises(InputError, match="two ways"):
        logup.check_multiplicities([on_bus("a", True, 1), on_bus("b", True, 1, width=2)], [(2, 2)])
    for number in (2, 1):  # unknown; local
        with pytest.raises(InputError, match="boundary"):
            logup.check_multiplicities([on_bus("a", True, 1)], [(2,)], [(number, 1, 1, 1)])
