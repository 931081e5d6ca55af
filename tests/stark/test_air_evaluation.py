"""One expression, evaluated in ways that share nothing: Python ints, a backend's row program, the verifier's point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distprove.errors import AirError
from distprove.stark import field, logup
from distprove.stark.air import Air, CompiledAir, Table
from distprove.stark.air.check import check_trace
from distprove.stark.air.point import PointProgram
from distprove.stark.field import Ext, P
from kernels.errors import SizeError
from kernels.interface.row_program import Op, RowProgram
from tests.support.air_examples import compile_air
from tests.support.stark_reference import ReferenceKernels

HEIGHT = 4
LAYOUT = {"p": (0, 2)}

constants = st.one_of(st.integers(-3, 3), st.integers(0, P - 1), st.just(P - 1))
leaves = st.one_of(
    st.sampled_from([("this", 0), ("this", 1), ("next", 0), ("next", 1), ("fixed", 0), ("public", 0), ("public", 1)]),
    st.tuples(st.just("const"), constants),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*"), inner, inner),
        st.tuples(st.just("**"), inner, st.integers(0, 4)),
        st.tuples(st.just("neg"), inner),
    ),
    max_leaves=20,
)
Tree = tuple[Any, ...]


def interpret(tree: Tree, leaf: Callable[[str, int], Any]) -> Any:
    """The tree's value with Python's operators."""
    kind, *rest = tree
    if kind in ("this", "next", "fixed", "public", "const"):
        return leaf(kind, rest[0])
    if kind == "**":
        return interpret(rest[0], leaf) ** rest[1]
    values = [interpret(part, leaf) for part in rest]
    if kind == "neg":
        return -values[0]
    a, b = values
    return a + b if kind == "+" else a - b if kind == "-" else a * b


class FromTree(Air):
    main = {"x": 2}
    preprocessed = {"f": 1}
    public = ("p",)

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def define(self, t: Table) -> None:
        cells = {"this": t.this.x, "next": t.next.x, "fixed": (t.fixed.f,), "public": t.public.p}
        t.always(interpret(self.tree, lambda kind, i: i if kind == "const" else cells[kind][i]))


class Element:
    """An extension element with Python's operators."""

    def __init__(self, value: Ext) -> None:
        self.value = value

    def __add__(self, other: Element) -> Element:
        return Element(field.e_add(self.value, other.value))

    def __sub__(self, other: Element) -> Element:
        return Element(field.e_sub(self.value, other.value))

    def __mul__(self, other: Element) -> Element:
        return Element(field.e_mul(self.value, other.value))

    def __neg__(self) -> Element:
        return Element(field.e_sub(field.ZERO, self.value))

    def __pow__(self, exponent: int) -> Element:
        return Element(field.e_pow(self.value, exponent))


def compile_tree(tree: Tree) -> CompiledAir:
    try:
        return compile_air(FromTree(tree), LAYOUT, {})
    except AirError as error:
        assume("the constant" not in str(error))
        raise


def words(rng: np.random.Generator, *shape: int) -> field.Words:
    """Random elements, with the ends of the field among them."""
    values = rng.integers(0, P, shape, dtype=np.uint64)
    return np.where(rng.random(shape) < 0.3, rng.choice(np.array([0, 1, P - 1], dtype=np.uint64), shape), values)


@settings(max_examples=60)
@given(trees, st.integers(0, 2**32))
def test_rows_agree_with_python_integers(tree: Tree, seed: int) -> None:
    air = compile_tree(tree)
    rng = np.random.default_rng(seed)
    main, fixed = words(rng, 2, HEIGHT), words(rng, 1, HEIGHT)
    public = tuple(words(rng, 2).tolist())

    def at(row: int) -> int:
        cells = {
            "this": main[:, row].tolist(),
            "next": main[:, (row + 1) % HEIGHT].tolist(),
            "fixed": fixed[:, row].tolist(),
            "public": public,
        }
        return int(interpret(tree, lambda kind, i: i if kind == "const" else cells[kind][i])) % P

    expected = [at(row) for row in range(HEIGHT)]
    scalars = logup.constraint_scalars(air, public, logup.BusChallenges(), (None, None), n=HEIGHT, alpha=(2, 3, 4))
    selectors = np.zeros((3, HEIGHT), dtype=np.uint64)
    out = ReferenceKernels().evaluate(air.constraints, [fixed, main, None, selectors], scalars)[:, 0]
    assert out[0].tolist() == expected
    assert not out[1:].any()

    failures = check_trace([air_ := FromTree(tree)], [main], {"p": public}, preprocessed=[fixed])
    wrong = [row for row, value in enumerate(expected) if value]
    assert [(f.table, f.rule, f.row, f.rows) for f in failures] == (
        [(air_.name, "always[0]", wrong[0], len(wrong))] if wrong else []
    )

    for row in range(HEIGHT):  # constants are columns whose value at every point is the same
        this = [field.embed(fixed[:, row]), field.embed(main[:, row]), None, np.zeros((3, 3), dtype=np.uint64)]
        next_ = [None, field.embed(main[:, (row + 1) % HEIGHT]), None, None]
        assert PointProgram(air.constraints)(this, next_, scalars) == (expected[row], 0, 0)


@settings(max_examples=60)
@given(trees, st.integers(0, 2**32), st.sampled_from([1, 2, 1000]))
def test_points_agree_with_the_extension(tree: Tree, seed: int, narrow: int) -> None:
    air = compile_tree(tree)
    rng = np.random.default_rng(seed)
    this, next_, fixed = words(rng, 2, 3), words(rng, 2, 3), words(rng, 1, 3)
    public = tuple(words(rng, 2).tolist())
    rows = {"this": this, "next": next_, "fixed": fixed, "public": field.embed(np.array(public, dtype=np.uint64))}

    def leaf(kind: str, i: int) -> Element:
        if kind == "const":
            return Element((i % P, 0, 0))
        a, b, c = rows[kind][i].tolist()
        return Element((a, b, c))

    scalars = logup.constraint_scalars(air, public, logup.BusChallenges(), (None, None), n=HEIGHT, alpha=(2, 3, 4))
    given_ = [fixed, this, None, np.zeros((3, 3), dtype=np.uint64)]
    with mock.patch("distprove.stark.air.point.NARROW", narrow):
        program = PointProgram(air.constraints)
    assert program(given_, [None, next_, None, None], scalars) == interpret(tree, leaf).value


def test_a_point_program_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(Air):
        main = {"x": 40}

        def define(self, t: Table) -> None:
            for a, b in zip(t.this.x, t.next.x, strict=True):
                t.always(a * b - 3 * a * a)

    air = compile_air(Wide(), {}, {})
    rng = np.random.default_rng(1)
    this = [None, words(rng, 40, 3), None, words(rng, 3, 3)]
    next_ = [None, words(rng, 40, 3), None, None]
    scalars = words(rng, air.constraints.scalars, 3)
    whole = air.at_point(this, next_, scalars)
    expected = field.ZERO
    for w, a, b in zip(scalars, this[1], next_[1], strict=True):  # type: ignore[arg-type]
        w, a, b = (tuple(map(int, v)) for v in (w, a, b))
        value = field.e_sub(field.e_mul(a, b), field.e_scale(field.e_mul(a, a), 3))
        expected = field.e_add(expected, field.e_mul(value, w))
    assert whole == expected
    monkeypatch.setattr("distprove.stark.air.point.BLOCK", 7)
    for narrow in (1, 41, 1000):
        monkeypatch.setattr("distprove.stark.air.point.NARROW", narrow)
        assert PointProgram(air.constraints)(this, next_, scalars) == whole


def test_points_of_a_wrong_shape_are_refused() -> None:
    air = compile_tree(("-", ("next", 0), ("fixed", 0)))
    rng = np.random.default_rng(1)
    fixed, main, selectors = words(rng, 1, 3), words(rng, 2, 3), words(rng, 3, 3)
    scalars = words(rng, air.constraints.scalars, 3)
    assert PointProgram(air.constraints)([fixed, None, None, None], [None, main, None, None], scalars)
    for this, next_, given_ in (
        ([fixed, main, None, selectors], [None, None, None, None], scalars),
        ([None, main, None, selectors], [None, main, None, None], scalars),
        ([fixed[:, :2], main, None, selectors], [None, main, None, None], scalars),
        ([fixed, main, None, selectors], [None, main[:1], None, None], scalars),
        ([fixed, main, None], [None, main, None], scalars),
        ([fixed, main, None, selectors], [None, main, None, None], scalars[:-1]),
    ):
        with pytest.raises(SizeError):
            PointProgram(air.constraints)(this, next_, given_)
    with pytest.raises(SizeError):
        PointProgram(RowProgram((1,), np.array([[Op.LOAD, 0, 0, 0]], dtype=np.int32), (), 0, (0,)))
