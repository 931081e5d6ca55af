"""What authors may write and what they are told when they may not; degrees; the shape of compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distprove.errors import AirError
from distprove.stark import logup
from distprove.stark.air import Air, Bus, CompiledAir, Table, trace_air
from distprove.stark.field import P
from kernels.interface.row_program import Op
from tests.support.air_examples import Fibonacci, Limbs, Ranges, compile_air, compile_airs, fibonacci_trace
from tests.support.stark_reference import ReferenceKernels, interpolate


class Custom(Air):
    """An AIR with this definition."""

    main = {"a": 1, "b": 1, "many": 3}
    preprocessed = {"f": 1}

    def __init__(self, body: Callable[[Any], None]) -> None:
        self.body = body

    def define(self, t: Table) -> None:
        self.body(t)


def compiled(body: Callable[[Any], None], buses: dict[str, int] | None = None) -> CompiledAir:
    return compile_air(Custom(body), {}, buses or {})


def test_what_fibonacci_compiles_to() -> None:
    air = compile_air(Fibonacci(), {"other": (0, 2), "first": (2, 1), "last": (3, 1)}, {})
    assert (air.main_width, air.preprocessed_width, air.aux_width, air.public_count) == (2, 0, 0, 4)
    assert air.constraint_names == ("first[0]", "transition[0]", "transition[1]", "last[0]")
    assert air.degrees == (2, 1, 1, 2)
    assert air.quotient_chunks == 1
    assert air.interactions is None
    assert air.constraints.scalars == 4 + 4
    assert air.constraints.fold == 4
    code = air.constraints.code
    # Two publics, three selectors, four cells; every subtraction and product once.
    assert (code[:, 0] < Op.ADD).sum() == 9
    assert (code[:, 0] >= Op.ADD).sum() == 9


def test_equal_expressions_are_computed_once_and_nothing_is_computed_in_vain() -> None:
    def body(t: Any) -> None:
        _unused = t.this.a**5 + 3
        x = (t.this.a + t.this.b) * (t.this.b + t.this.a)
        t.always(x - t.this.many[0])
        t.always((t.this.b + t.this.a) ** 2 - t.this.many[1])

    program = compiled(body).constraints
    ops = program.code[:, 0].tolist()
    assert (ops.count(Op.ADD), ops.count(Op.MUL), ops.count(Op.SUB)) == (1, 1, 2)
    used = set(program.outputs) | {
        int(v) for op, *operands, _ in program.code.tolist() if op >= Op.ADD for v in operands
    }
    assert used == set(range(len(ops)))


def test_constants_and_neutral_elements_disappear() -> None:
    def body(t: Any) -> None:
        a = t.this.a
        t.always((a * 1 + 0 - 0) * (2 + 3 * (a - a)) + (0 - (-a)) * (P - 1) + (a + (-t.this.b)) ** 1 + 0 * t.this.b)

    program = compiled(body).constraints
    # 2 a - a + (a - b)
    ops = program.code[:, 0].tolist()
    assert (ops.count(Op.MUL), ops.count(Op.CONST)) == (1, 1)
    assert program.constants == (2,)


@pytest.mark.parametrize(
    ("body", "degree"),
    [
        (lambda t: t.always(t.this.a), 1),
        (lambda t: t.always(t.next.a * t.fixed.f + 3), 2),
        (lambda t: t.first(t.this.a**3), 4),
        (lambda t: t.last(t.this.a), 2),
        (lambda t: t.transition(t.this.a**4 - t.this.b), 4),
        (lambda t: t.boolean(t.this.a), 2),
        (lambda t: t.transition(t.is_transition * t.this.a * t.this.b), 3),  # two selectors: more than n beyond x^n - 1
        (lambda t: t.transition(t.is_transition * t.this.a**3), 3),
    ],
)
def test_degrees(body: Callable[[Any], None], degree: int) -> None:
    air = compiled(body)
    assert air.degrees == (degree,)
    assert air.quotient_chunks == max(1, 1 << (degree - 2).bit_length()) if degree > 1 else 1


@pytest.mark.parametrize("exponents", [(1, 0), (2, 1), (3, 0), (1, 4), (5, 2)])
@pytest.mark.parametrize("kind", ["always", "first", "last", "transition"])
def test_inferred_degrees_are_those_of_the_polynomials(exponents: tuple[int, int], kind: str) -> None:
    """On random columns a monomial has exactly the degree that its factors add up to."""
    n, log_blowup = 8, 3
    air = compiled(lambda t: getattr(t, kind)(t.this.a ** exponents[0] * t.next.b ** exponents[1]))
    kernels = ReferenceKernels()
    main = np.random.default_rng(1).integers(0, P, (5, n), dtype=np.uint64)
    inputs = [
        np.zeros((1, 8, n), dtype=np.uint64),
        kernels.lde(main, log_blowup),
        None,
        kernels.selectors(3, log_blowup, log_blowup),
    ]
    scalars = np.array([[1, 0, 0]], dtype=np.uint64)
    values = kernels.evaluate(air.constraints, inputs, scalars, log_cosets=log_blowup)[0]
    degree = int(np.flatnonzero(interpolate(values.T.reshape(1, -1))[0]).max())
    assert degree == sum(exponents) * (n - 1) + {"always": 0, "first": n - 1, "last": n - 1, "transition": 1}[kind]
    assert degree <= air.degree * n
    assert degree - n < air.quotient_chunks * n


def test_a_long_program_keeps_few_values_alive() -> None:
    """Two passes over many columns: what the second reads is loaded again, and the selector is not."""

    class Long(Air):
        main = {"x": 400}

        def define(self, t: Table) -> None:
            for x in t.this.x:
                t.transition(x * (x - 1) * (2 * x - 1))
            for a, b in zip(t.this.x, t.next.x, strict=True):
                t.transition((a - 1) * b + 2 * a)

    program = compile_air(Long(), {}, {}).constraints
    rows = program.code.tolist()
    last = {v: i for i, (op, a, b, _) in enumerate(rows) if op >= Op.ADD for v in (a, b)}
    last |= {v: v for v in program.outputs}
    alive = [sum(start <= i < end for start, end in last.items()) for i in range(0, len(rows), 50)]
    assert max(alive) < 20
    assert sum(op == Op.LOAD and a == 3 for op, a, _, _ in rows) == 1
    assert sum(op == Op.LOAD and a == 1 for op, a, _, _ in rows) == 3 * 400
    rng = np.random.default_rng(1)
    main = rng.integers(0, P, (400, 2), dtype=np.uint64)
    selectors = np.ones((3, 2), dtype=np.uint64)
    scalars = rng.integers(0, P, (program.scalars, 3), dtype=np.uint64)
    values = []
    for this, following in ((0, 1), (1, 0)):
        x, y = ([int(v) for v in main[:, row]] for row in (this, following))
        values.append(
            [a * (a - 1) * (2 * a - 1) % P for a in x] + [((a - 1) * b + 2 * a) % P for a, b in zip(x, y, strict=True)]
        )
    expected = [[sum(int(w[k]) * v for w, v in zip(scalars, row, strict=True)) % P for row in values] for k in range(3)]
    assert ReferenceKernels().evaluate(program, [None, main, None, selectors], scalars)[:, 0].tolist() == expected


def test_a_name_with_columns_and_iteration() -> None:
    def body(t: Any) -> None:
        assert isinstance(t.this["a"], tuple)
        assert len(t.this.many) == 3
        assert len(list(t.this)) == 5
        t.always(sum(t.this) - sum(t.this["many"]))

    air = compiled(body)
    assert (air.constraints.code[:, 0] == Op.LOAD).sum() == 5


def test_numpy_integers_are_integers() -> None:
    air = compiled(lambda t: t.always(np.uint64(3) * t.this.a + np.int64(-1) - np.uint64(7)))
    assert air.degrees == (1,)


BUS = Bus("b", 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda t: t.always(t.this.nothing), "named 'nothing'"),
        (lambda t: t.always(t.this.many), "index it"),
        (lambda t: t.always(t.this.a == t.this.b), "compared"),
        (lambda t: t.always(t.this.a if t.this.a else t.this.b), "no truth value"),
        (lambda t: t.always(t.this.a < 3), "compared"),
        (lambda t: t.always(t.this.a / 2), "divided"),
        (lambda t: t.always(3 / t.this.a), "divided"),
        (lambda t: t.always(t.this.a ** -1), "exponent"),
        (lambda t: t.always(t.this.a ** 65), "exponent"),
        (lambda t: t.always(t.this.a + 0.5), "float"),
        (lambda t: t.always(t.this.a - t.this.a), "the constant 0"),
        (lambda t: t.always(7), "the constant 7"),
        (lambda t: [t.always(t.this.a, name="x"), t.always(t.this.b, name="x")], "two constraints"),
        (lambda t: t.send(BUS, [t.this.a]), "1 value for tuples of 2"),
        (lambda t: t.send("b", [t.this.a]), "expected a Bus"),
        (lambda t: t.send(BUS, [t.this.a, 1], times=0), "positive"),
        (lambda t: t.receive(BUS, [t.this.a, 1], times=-1), "positive"),
        (lambda t: t.send(BUS, [t.this.a, 1], times=2), "at most 1"),
        (lambda t: t.send(BUS, [t.this.a, 1], times=t.is_first), "selectors"),
        (lambda t: t.send(BUS, [t.this.a, 1], at_most=0), "at_most"),
        (lambda t: [t.send(BUS, [t.this.a, 1]), t.send(Bus("b", 1), [t.this.a])], "two ways"),
        (lambda t: t.send(BUS, [t.this.a, 1]), "bus b is none of its program's: add it to Program.buses"),
        (lambda t: t.always(t.this.a ** 64 * t.this.b ** 64 * t.this.a ** 64 * t.this.a ** 64 * t.this.a), "degree"),
        (lambda t: t.missing, "AttributeError"),
        (lambda t: None, "neither"),
    ],
)  # fmt: skip
def test_what_cannot_be_compiled_is_refused(body: Callable[[Any], None], message: str) -> None:
    with pytest.raises(AirError, match=message):
        compiled(body)


def test_expressions_of_two_tables_do_not_mix() -> None:
    kept: list[Any] = []
    compiled(lambda t: [kept.append(t.this.a), t.always(t.this.a)])  # type: ignore[arg-type,return-value]
    with pytest.raises(AirError, match="another"):
        compiled(lambda t: t.always(t.this.a - kept[0]))


@pytest.mark.parametrize("columns", [{"a": 0}, {"a": True}, {"_a": 1}, {"a b": 1}, {"a": 1 << 17}, {}])
def test_columns_that_cannot_be(columns: dict[str, int]) -> None:
    air = Custom(lambda t: t.always(next(iter(t.this))))
    air.main = columns
    with pytest.raises(AirError):
        trace_air(air)


@pytest.mark.parametrize("args", [("", 1), ("x" * 200, 1), ("b", 0), ("b", 1000), ("b", 1, "galactic")])
def test_buses_that_cannot_be(args: tuple[Any, ...]) -> None:
    with pytest.raises(AirError):
        Bus(*args)


def test_public_values_come_from_the_program() -> None:
    with pytest.raises(AirError, match="'last'"):
        compile_air(Fibonacci(), {"first": (0, 1)}, {})
    air = Fibonacci()
    air.public = {"first": 2, "last": 1}
    with pytest.raises(AirError, match="expected 2"):
        compile_air(air, {"first": (0, 1), "last": (1, 1)}, {})


def test_tables_of_a_program_share_bus_numbers() -> None:
    limbs, ranges = compile_airs([Limbs(), Ranges()], {})
    assert [(use.bus.name, use.number) for use in limbs.uses] == [("range", 1)] * 3 + [("pairs", 2)] * 2
    assert [use.number for use in ranges.uses] == [1]
    with pytest.raises(AirError, match="one number"):
        compile_air(Limbs(), {}, {"range": 1, "pairs": 1})
    other = Custom(lambda t: t.receive(Bus("range", 2), [t.this.a, t.this.b]))
    with pytest.raises(AirError, match="range"):
        compile_airs([Limbs(), other], {})


@pytest.mark.parametrize(
    ("own", "values", "sizes"),
    [(1, 1, [2, 2, 1]), (3, 1, [2, 2, 1]), (4, 1, [4, 1]), (2, 2, [1] * 5), (5, 2, [2, 2, 1]), (9, 1, [5])],
)
def test_interactions_share_columns_as_far_as_the_degree_allows(own: int, values: int, sizes: list[int]) -> None:
    def body(t: Any) -> None:
        t.always(t.this.a**own - t.this.b)
        for i in range(5):
            t.send(Bus("b", 1), [(t.this.many[0] + i) ** values])

    air = compiled(body, {"b": 3})
    assert [group.size for group in air.groups] == sizes
    assert air.aux_width == 3 * len(sizes) + 3
    assert air.quotient_chunks == max(2, 1 << (max(own, 3) - 2).bit_length())
    assert air.local_width == 1
    assert air.global_width == 0


def test_evaluating_fibonacci_on_its_trace_gives_zero() -> None:
    air = compile_air(Fibonacci(), {"first": (0, 1), "last": (1, 1)}, {})
    trace = fibonacci_trace(16)
    public = (1, int(trace[1, -1]))
    for values, holds in ((public, True), ((1, 5), False), ((2, public[1]), False)):
        scalars = logup.constraint_scalars(air, values, logup.BusChallenges(), (None, None), n=16, alpha=(5, 6, 7))
        selectors = np.zeros((3, 16), dtype=np.uint64)
        selectors[0, 0] = selectors[1, -1] = 1
        selectors[2, :-1] = 1
        out = ReferenceKernels().evaluate(air.constraints, [None, trace, None, selectors], scalars)
        assert (not out.any()) == holds
