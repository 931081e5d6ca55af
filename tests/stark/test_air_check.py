"""The debug check: it names the rule, the row and the values, and where a tuple that does not balance stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import AirError
from distprove.stark.air import Air, Bus, Table, report_airs, trace_air
from distprove.stark.air.check import BoundaryTuple, PartitionTrace, check_partitions, check_trace
from distprove.stark.field import P
from kernels.errors import CompilerMissing
from kernels.host.compiler import find_compiler
from tests.support.air_examples import PAIRS, Fibonacci, Limbs, Ranges, compile_airs, fibonacci_trace, limbs_traces

PUBLIC = {"first": 1, "last": int(fibonacci_trace(8)[1, -1])}


def test_an_honest_trace_has_no_failures() -> None:
    assert check_trace([Fibonacci()], [fibonacci_trace(8)], PUBLIC) == []
    limbs, values, used = limbs_traces()
    assert check_trace([Limbs(), Ranges()], [limbs, used], preprocessed=[None, values], boundary=[]) == []


@pytest.mark.parametrize(
    ("row", "column", "expected"),
    [
        (3, 1, [("transition[0]", 3, 1), ("transition[1]", 2, 2)]),
        (0, 0, [("first[0]", 0, 1), ("transition[1]", 0, 1)]),
        (7, 1, [("transition[1]", 6, 1), ("last[0]", 7, 1)]),
    ],
)
def test_a_failing_constraint_is_named(row: int, column: int, expected: list[tuple[str, int, int]]) -> None:
    trace = fibonacci_trace(8)
    trace[column, row] += 1
    failures = check_trace([Fibonacci()], [trace], PUBLIC)
    assert [(f.rule, f.row, f.rows) for f in failures] == expected
    cells = {
        (f.rule, name): int(trace[0 if "left" in name else 1, f.row + name.startswith("next.")])  # type: ignore[operator]
        for f in failures
        for name, _ in f.values
        if not name.startswith("public.")
    }
    public = {(f.rule, name): PUBLIC[name.split(".")[1]] for f in failures for name, _ in f.values if "public" in name}
    assert cells | public == {(f.rule, name): value for f in failures for name, value in f.values}
    assert ("Fibonacci: transition[1], row" in str(failures[1])) == (failures[1].rule == "transition[1]")


def test_the_code_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/airs.md, on a trace with the fault whose report it shows; its row function makes a trace that holds."""
    try:
        find_compiler()
    except CompilerMissing as error:
        pytest.skip(str(error))
    guide = (Path(__file__).resolve().parents[2] / "docs" / "airs.md").read_text()
    trace = fibonacci_trace(8)
    trace[1, 3] += 1
    names: dict[str, Any] = {"trace": trace}
    for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(block, names)
    (shown,) = re.findall(r"print\(failure\) +# (.*)", guide)
    assert capsys.readouterr().out.splitlines()[0] == shown
    words = names["columns"]
    assert words[0].tolist() == [1, 513, 70000, 0, 0, 0, 0, 0]
    times = np.bincount(words[1:5, :3].ravel(), minlength=256).astype(np.uint64)
    fixed = [None, np.arange(256, dtype=np.uint64)[None]]
    assert check_trace([names["Words"](), names["Bytes"]()], [words, times[None]], {}, preprocessed=fixed) == []


def test_no_cell_of_the_examples_is_free() -> None:
    """Whichever cell is changed, by whatever, some rule fails."""
    fibonacci = fibonacci_trace(8)
    limbs, values, used = limbs_traces(n=8)
    cases = [
        ([Fibonacci()], [fibonacci], PUBLIC, None, 0),
        ([Limbs(), Ranges()], [limbs, used], {}, [None, values], 0),
        ([Limbs(), Ranges()], [limbs, used], {}, [None, values], 1),
    ]
    rng = np.random.default_rng(3)
    for airs, traces, public, fixed, table in cases:
        for cell in np.ndindex(traces[table].shape):
            for change in (1, P - 1, int(rng.integers(1, P, dtype=np.uint64))):
                changed = [trace.copy() for trace in traces]
                changed[table][cell] = (int(changed[table][cell]) + change) % P
                assert check_trace(airs, changed, public, preprocessed=fixed, boundary=[]), (table, cell, change)


def test_public_values_count() -> None:
    (failure,) = check_trace([Fibonacci()], [fibonacci_trace(8)], {**PUBLIC, "first": 2})
    assert (failure.rule, failure.row, failure.values) == ("first[0]", 0, (("left", 1), ("public.first", 2)))


def test_rows_are_checked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distprove.stark.air.check.BLOCK_BYTES", 400)
    trace = fibonacci_trace(64)
    public = {"first": 1, "last": int(trace[1, -1])}
    assert check_trace([Fibonacci()], [trace], public) == []
    trace[1, 41] = 0
    failures = check_trace([Fibonacci()], [trace], public)
    assert [(f.rule, f.row) for f in failures] == [("transition[0]", 41), ("transition[1]", 40)]


def test_every_tuple_that_does_not_balance_counts() -> None:
    limbs, values, used = limbs_traces()
    row = int(np.flatnonzero(limbs[4])[1])
    missed = int(limbs[2, row])
    limbs[2, row] = 8  # a value that no row provides, in place of one that is now provided once too often
    limbs[3] = limbs[0] + 8 * limbs[1] + 64 * limbs[2]
    (failure,) = check_trace([Limbs(), Ranges()], [limbs, used], preprocessed=[None, values], boundary=[])
    assert (failure.rule, failure.row, failure.rows, failure.values) == ("bus range", None, 2, (("t1", missed),))
    assert "sent 3 times by Limbs row" in failure.detail
    assert "; received 4 times by Ranges row 3 4 times; closest" in failure.detail
    assert failure.detail.endswith(f"t1 = 8; sent once by Limbs row {row}; received never")
    assert "(and 1 more)" in str(failure)


def test_the_tuple_nobody_provides() -> None:
    limbs, values, _ = limbs_traces()
    on = np.flatnonzero(limbs[4])
    limbs[2, on[0]] = 9
    limbs[3] = limbs[0] + 8 * limbs[1] + 64 * limbs[2]
    recount = np.bincount(limbs[:3, on].ravel().astype(np.int64), minlength=8)[:8].astype(np.uint64)
    (failure,) = check_trace([Limbs(), Ranges()], [limbs, recount[None]], preprocessed=[None, values], boundary=[])
    assert failure.values == (("t1", 9),)
    assert failure.detail == f"sent once by Limbs row {on[0]}; received never"


MEMORY = Bus("memory", fields=("address", "value", "time"))


def test_both_sides_of_an_unbalanced_tuple_are_shown_by_their_names() -> None:
    """A store and the load that reads another value of the same cell are shown, and no row that balances is."""

    class Store(Air):
        main = {"address": 1, "value": 1}

        def define(self, t: Table) -> None:
            t.send(MEMORY, {"value": t.this.value, "address": t.this.address, "time": 7}, name="store")

    class Load(Store):
        def define(self, t: Table) -> None:
            t.receive(MEMORY, [t.this.address, t.this.value, 7], name="load")

    stores = np.array([range(8), range(20, 28)], dtype=np.uint64)
    loads = stores[:, ::-1].copy()
    assert check_trace([Store(), Load()], [stores, loads]) == []
    loads[1, 2] = 99
    (failure,) = check_trace([Store(), Load()], [stores, loads])
    assert failure.values == (("address", 5), ("value", 25), ("time", 7))
    assert failure.detail == (
        "sent once by Store row 5 (store); received never; closest to it, and off the other way: address = 5, "
        "value = 99, time = 7; sent never; received once by Load row 2 (load)"
    )
    loads = np.concatenate([loads, loads], axis=1)
    loads[1, 2] = loads[1, 10] = 25
    (failure,) = check_trace([Store(), Load()], [stores, loads])  # every tuple is received twice: both sides again
    assert (
        failure.detail == "sent once by Store row 0 (store); received 2 times by Load row 7 (load), Load row 15 (load)"
    )


def test_sends_by_name_are_sends_in_order() -> None:
    class ByName(Air):
        main = {"a": 1, "b": 1, "c": 1}

        def define(self, t: Table) -> None:
            values = {"value": t.this.b, "time": t.this.c, "address": t.this.a}
            t.send(MEMORY, values, name="named")
            t.receive(MEMORY, values, at_most=1)

    class InOrder(ByName):
        name = "ByName"

        def define(self, t: Table) -> None:
            t.send(Bus("memory", 3), [t.this.a, t.this.b, t.this.c])
            t.receive(Bus("memory", 3), [t.this.a, t.this.b, t.this.c], at_most=1)

    keys = [compile_airs([air], {})[0].to_record() for air in (ByName(), InOrder())]
    assert keys[0] == keys[1]  # names are for messages: no key and no proof changes


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"address": 1, "value": 2}, "values for address, value; its fields are: address, value, time"),
        ({"address": 1, "value": 2, "when": 3}, "its fields are"),
        ([1, 2], "2 values for tuples of 3"),
    ],
)
def test_tuples_with_other_fields_are_refused(values: Any, told: str) -> None:
    class Wrong(Air):
        main = {"x": 1}

        def define(self, t: Table) -> None:
            t.send(MEMORY, values)

    with pytest.raises(AirError, match=told):
        report_airs([Wrong()])


def test_fields_are_different_names() -> None:
    for fields in (("a", "a"), (1, 2)):
        with pytest.raises(AirError, match="names of fields"):
            Bus("b", fields=fields)  # type: ignore[arg-type]
    with pytest.raises(AirError, match="names of fields"):
        Bus("b", 3, fields=("a", "b"))
    with pytest.raises(AirError, match="width 0"):
        Bus("b")


class Ends(Air):
    """Its first row is sent, and its last is received."""

    main = {"x": 1, "begins": 1, "ends": 1}

    def define(self, t: Table) -> None:
        t.marks_first(t.this.begins)
        t.marks_last(t.this.ends)
        t.send(PAIRS, [0, t.this.x], times=t.this.begins)
        t.receive(PAIRS, [1, t.this.x], times=t.this.ends, at_most=1)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_the_first_and_the_last_row_meet_a_bus(rows: int) -> None:
    trace = np.zeros((3, rows), dtype=np.uint64)
    trace[0] = range(5, 5 + rows)
    trace[1, 0] = trace[2, -1] = 1
    ends = [BoundaryTuple(PAIRS, (0, 5), -1), BoundaryTuple(PAIRS, (1, 4 + rows))]
    assert check_trace([Ends()], [trace], boundary=ends) == []
    for cell in np.ndindex(2, rows):  # no other row can be marked, and none left out, even where the bus is not asked
        for change in (1, 2, P - 1):
            lied = trace.copy()
            lied[1:][cell] = (int(lied[1:][cell]) + change) % P
            assert check_trace([Ends()], [lied])
    assert report_airs([Ends()])[0].unconfirmed_bounds == ()


def test_only_a_column_marks_a_row() -> None:
    for wrong in (lambda t: t.next.begins, lambda t: t.this.begins + 1, lambda t: t.is_first):

        class Wrong(Ends):
            def define(self, t: Table, wrong: Any = wrong) -> None:
                t.marks_first(wrong(t))

        with pytest.raises(AirError, match="a main column in this row"):
            report_airs([Wrong()])


def test_global_buses_need_their_boundary() -> None:
    class Chain(Air):
        main = {"x": 1, "y": 1}

        def define(self, t: Table) -> None:
            t.send(PAIRS, [t.this.x + 1, t.this.y])
            t.receive(PAIRS, [t.this.x, t.this.y], at_most=1)

    chain, trace = Chain(), np.array([range(4), [5] * 4], dtype=np.uint64)
    assert check_trace([chain], [trace]) == []
    (failure,) = check_trace([chain], [trace], boundary=[])
    assert (failure.rule, failure.rows) == ("bus pairs", 2)
    ends = [BoundaryTuple(PAIRS, (0, 5)), BoundaryTuple(PAIRS, (4, 5), -1)]
    assert check_trace([chain], [trace], boundary=ends) == []
    (failure,) = check_trace([chain], [trace], boundary=ends[:1])
    assert failure.values == (("t1", 4), ("t2", 5))
    with pytest.raises(AirError):
        check_trace([chain], [trace], boundary=[BoundaryTuple(PAIRS, (1,))])


def test_large_multiplicities_are_added_in_the_field() -> None:
    class Cancel(Air):
        main = {"times": 1}

        def define(self, t: Table) -> None:
            t.send(Bus("b", 1), [7], times=t.this.times, at_most=None)

    assert check_trace([Cancel()], [np.array([[P - 1, 1, P - 3, 3]], dtype=np.uint64)]) == []
    assert len(check_trace([Cancel()], [np.array([[P - 1, 1, P - 3, 2]], dtype=np.uint64)])) == 1


def test_a_multiplicity_beyond_its_bound_is_reported() -> None:
    class Twice(Air):
        main = {"times": 1}

        def define(self, t: Table) -> None:
            t.send(Bus("b", 1), [7], times=t.this.times, at_most=2)
            t.receive(Bus("b", 1), [7], times=t.this.times)

    failures = check_trace([Twice()], [np.array([[1, 2, 3, 4]], dtype=np.uint64)])
    assert [(f.rule, f.row, f.rows, f.values) for f in failures] == [("bus b", 2, 2, (("times", 3),))]


def test_selectors_are_seen_as_the_proof_sees_them() -> None:
    """They are not one where they are not zero: 1 - is_first does not vanish on the first row."""

    class Mistaken(Air):
        main = {"x": 1}

        def define(self, t: Table) -> None:
            t.always((1 - t.is_first) * t.this.x, name="wrong")
            t.always(t.is_last * t.this.x * t.is_first, name="right")

    failures = check_trace([Mistaken()], [np.array([[1, 0, 0, 0]], dtype=np.uint64)])
    assert [(f.rule, f.row) for f in failures] == [("wrong", 0)]


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (np.zeros((3, 8), dtype=np.uint64), "shape"),
        (np.zeros(8, dtype=np.uint64), "shape"),
        (np.zeros((2, 6), dtype=np.uint64), "power of two"),
        (np.zeros((2, 0), dtype=np.uint64), "power of two"),
        (np.full((2, 8), P, dtype=np.uint64), "p - 1"),
        (np.full((2, 8), -1, dtype=np.int64), "p - 1"),
        (np.zeros((2, 8)), "integers"),
    ],
)
def test_traces_of_a_wrong_shape_are_refused(trace: Any, message: str) -> None:
    with pytest.raises(AirError, match=message):
        check_trace([Fibonacci()], [trace], PUBLIC)


def test_tables_of_a_wrong_number_or_height_are_refused() -> None:
    limbs, values, used = limbs_traces()
    for traces, fixed, message in (
        ([limbs], [None], "not one for each"),
        ([limbs, used], None, "missing"),
        ([limbs, used], [None, values[:, :4]], "rows"),
        ([limbs, used], [values, values], "shape"),
    ):
        with pytest.raises(AirError, match=message):
            check_trace([Limbs(), Ranges()], traces, preprocessed=fixed)  # type: ignore[arg-type]
    with pytest.raises(AirError, match="public value"):
        check_trace([Fibonacci()], [fibonacci_trace(8)], {"first": P, "last": 1})


def test_a_definition_stands_for_its_air_with_its_own_public_values() -> None:
    definition = trace_air(Fibonacci())
    trace = fibonacci_trace(8)
    assert check_trace([definition], [trace], PUBLIC) == []
    trace[1, 3] += 1
    assert check_trace([definition], [trace], PUBLIC) == check_trace([Fibonacci()], [trace], PUBLIC) != []
    with pytest.raises(AirError, match="other public values"):
        check_trace([definition], [trace], {"last": 1, "first": 1})


@pytest.mark.parametrize(
    ("times", "at_most", "confirmed"),
    [
        (lambda t: t.this.bit, 1, True),
        (lambda t: t.next.bit, 1, True),
        (lambda t: 1 - t.this.bit, 1, True),
        (lambda t: t.this.bit * (1 - t.this.other) * t.next.third, 1, True),
        (lambda t: t.fixed.f, 1, True),
        (lambda t: 1, 1, True),
        (lambda t: t.this.bit, None, True),
        (lambda t: t.this.free, None, True),
        (lambda t: t.this.free, 1, False),
        (lambda t: t.this.first, 1, False),
        (lambda t: t.this.bit + t.this.other, 1, False),
        (lambda t: t.this.bit * t.this.free, 1, False),
        (lambda t: t.this.bit - 1, 1, False),
        (lambda t: 2 - t.this.bit, 2, True),
        (lambda t: 2 - t.this.bit, 1, False),
        (lambda t: t.this.bit - 2, 5, False),
        (lambda t: t.this.bit + t.this.other, 2, True),
        (lambda t: 3 * t.this.bit + 1, 4, True),
        (lambda t: 3 * t.this.bit + 1, 3, False),
        (lambda t: t.this.op[0] + t.this.op[2], 1, True),
        (lambda t: t.next.op[0] + t.next.op[2], 1, True),
        (lambda t: t.this.op[0] + t.next.op[2], 1, False),
        (lambda t: 1 - t.this.op[0] - t.this.op[1], 1, True),
        (lambda t: t.this.op[0] * t.this.bit + t.this.op[1] * t.this.other, 1, True),
        (lambda t: t.this.op[0] * t.this.bit + t.this.op[0] * t.this.other, 1, False),
        (lambda t: 2 * t.this.op[0] + 5 * t.this.op[1], 5, True),
        (lambda t: 2 * t.this.op[0] + 5 * t.this.op[1], 4, False),
        (lambda t: t.this.op[0] + t.this.bit, 1, False),
        (lambda t: t.this.some[0] + t.this.some[1], 1, True),
        (lambda t: t.this.two[0] + t.this.two[1], 1, False),
        (lambda t: t.this.loose[0] + t.this.loose[1], 1, False),
        (lambda t: t.this.begins, 1, True),
        (lambda t: t.next.ends, 1, True),
    ],
)
def test_bounds_that_no_constraint_enforces_are_reported(times: Any, at_most: int | None, confirmed: bool) -> None:
    class Counts(Air):
        main = {"bit": 1, "other": 1, "third": 1, "first": 1, "free": 1, "begins": 1, "ends": 1} | {
            **dict.fromkeys(("op", "some"), 3),
            **dict.fromkeys(("two", "loose"), 2),
        }
        preprocessed = {"f": 1}

        def define(self, t: Table) -> None:
            t.boolean(t.this.bit)
            t.always(t.this.other * (1 - t.this.other))
            t.always(t.this.third**2 - t.this.third)
            t.first(t.this.first * (t.this.first - 1))
            for bit in (*t.this.op, *t.this.some, *t.this.two):
                t.boolean(bit)
            t.always(sum(t.this.op) - 1)
            t.boolean(sum(t.this.some))
            t.boolean(sum(t.this.two) - 1)  # one or two of them
            t.always(1 - sum(t.this.loose))  # of elements that need not be bits
            t.marks_first(t.this.begins)
            t.marks_last(t.this.ends)
            t.send(Bus("b", 1), [5], times=times(t), at_most=at_most)

    assert report_airs([Counts()])[0].unconfirmed_bounds == (() if confirmed else ("send on b",))


def test_a_report_counts_and_finds_unread_columns() -> None:
    class Idle(Air):
        main = {"x": 2, "y": 1}
        preprocessed = {"f": 1}

        def define(self, t: Table) -> None:
            t.always(t.this.x[0] * t.next.x[0] * t.next.x[0])

    (report,) = report_airs([Idle()])
    assert report.unread_columns == ("x[1]", "y", "fixed.f")
    assert (report.degree, report.quotient_chunks, report.blowups) == (3, 2, (2, 4, 8))
    assert report.constraint_instructions == {"load": 2, "mul": 2}
    limbs, ranges = report_airs([Limbs(), Ranges()])
    assert [(c.name, c.kind, c.degree) for c in limbs.constraints][:2] == [("value", "always", 1), ("on", "always", 2)]
    assert [(i.bus, i.direction, i.at_most, i.group) for i in limbs.interactions] == [
        ("range", "send", 1, 0),
        ("range", "send", 1, 0),
        ("range", "send", 1, 1),
        ("pairs", "send", 1, 2),
        ("pairs", "receive", 1, 2),
    ]
    assert ranges.unread_columns == ()
    assert ranges.to_dict()["interactions"][0]["at_most"] is None


def test_partitions_meet_on_global_buses_only() -> None:
    class Walk(Air):
        main = {"x": 1}
        public = ("start",)

        def define(self, t: Table) -> None:
            t.first(t.this.x - t.public.start)
            t.send(PAIRS, [t.this.x + 1, 0])
            t.receive(PAIRS, [t.this.x, 0], at_most=1)
            t.send(Bus("near", 1), [t.this.x])
            t.receive(Bus("near", 1), [t.next.x], at_most=1)

    parts = [PartitionTrace([np.arange(4 * k, 4 * k + 4, dtype=np.uint64)[None]], {"start": 4 * k}) for k in range(3)]
    ends = [BoundaryTuple(PAIRS, (0, 0)), BoundaryTuple(PAIRS, (12, 0), -1)]
    assert check_partitions([Walk()], parts, boundary=ends) == []
    (failure,) = check_partitions([Walk()], parts[:2] + parts[:1], boundary=ends)
    assert (failure.rule, failure.rows) == ("bus pairs", 4)  # 0, 4, 8 and 12
    parts[1].main[0][0, 2] = 99
    failures = check_partitions([Walk()], parts, boundary=ends)
    assert [failure.rule for failure in failures] == ["bus pairs"]
    assert failures[0].detail.startswith("sent once by partition 1: Walk row 1; received never; closest")
