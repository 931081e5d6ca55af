"""Compiled AIRs as they stand in verifying keys: written one way, and read without trust."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.stark.air import CompiledAir
from tests.support.air_examples import Fibonacci, Limbs, Ranges, compile_air, compile_airs

AIRS = [
    *compile_airs([Limbs(), Ranges()], {"p": (0, 3)}),
    compile_air(Fibonacci(), {"first": (0, 1), "last": (1, 1)}, {}),
]
FACTS = (
    *("name", "public_count", "main_width", "preprocessed_width", "aux_width", "degree", "degrees", "quotient_chunks"),
    *("constraint_names", "groups", "uses", "local_width", "global_width"),
)


@pytest.mark.parametrize("air", AIRS, ids=lambda air: air.name)
def test_what_is_read_is_what_was_written(air: CompiledAir) -> None:
    data = canonical.encode(air.to_record())
    again = CompiledAir.from_record(canonical.decode(data, "key"))
    assert canonical.encode(again.to_record()) == data
    assert {fact: getattr(again, fact) for fact in FACTS} == {fact: getattr(air, fact) for fact in FACTS}
    for ours, theirs in zip(air.programs, again.programs, strict=True):
        assert (ours.code == theirs.code).all()
        assert ours.fold == theirs.fold
        assert ours.scalars == theirs.scalars
        assert ours.outputs == theirs.outputs


def test_compiling_twice_gives_one_record() -> None:
    assert canonical.encode(compile_airs([Limbs(), Ranges()], {"p": (0, 3)})[0].to_record()) == canonical.encode(
        AIRS[0].to_record()
    )


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here] + [path for key, child in children for path in _paths(child, (*here, key))]


def _replaced(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    record = copy.deepcopy(record)
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return record


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.text(max_size=8),
    st.binary(max_size=40),
    st.lists(st.integers(0, 9), max_size=4),
    st.dictionaries(st.sampled_from(["code", "x"]), st.integers(0, 3), max_size=2),
)


@settings(max_examples=200)
@given(st.data())
def test_any_other_record_is_refused_or_read(data: st.DataObject) -> None:
    """Whatever is put in whatever place: FormatError, or an AIR that writes itself as the changed record."""
    record = data.draw(st.sampled_from([air.to_record() for air in AIRS]))
    path = data.draw(st.sampled_from(_paths(record)))
    changed = _replaced(record, path, data.draw(anything))
    try:
        air = CompiledAir.from_record(changed)
    except FormatError:
        return
    assert canonical.encode(air.to_record()) == canonical.encode(changed)


@settings(max_examples=150)
@given(st.sampled_from(AIRS), st.sampled_from(["constraints", "interactions"]), st.integers(0, 10**6), st.integers())
def test_changed_instructions_never_crash(air: CompiledAir, part: str, position: int, value: int) -> None:
    record = air.to_record()
    if record[part] is None:
        return
    code = bytearray(record[part]["code"])
    word = 4 * (position % (len(code) // 4))
    code[word : word + 4] = (value % 2**32).to_bytes(4, "little")
    try:
        read = CompiledAir.from_record(_replaced(record, (part, "code"), bytes(code)))
    except FormatError:
        return
    assert read.degree >= 1
    assert len(read.degrees) == len(read.constraint_names)


def test_a_degree_that_explodes_is_refused_at_once() -> None:
    record = AIRS[2].to_record()
    code = np.frombuffer(record["constraints"]["code"], dtype="<i4").reshape(-1, 4)
    squares = [code[: len(code)]]
    squares += [np.array([[6, i, i, 0]], dtype="<i4") for i in range(len(code) - 1, len(code) + 5000)]
    record["constraints"]["code"] = np.concatenate(squares).tobytes()
    outputs = np.frombuffer(record["constraints"]["outputs"], dtype="<i4").copy()
    outputs[0] = len(code) + 5000
    record["constraints"]["outputs"] = outputs.tobytes()
    with pytest.raises(FormatError, match="degree"):
        CompiledAir.from_record(record)


def test_groups_must_fit_the_interactions() -> None:
    record = AIRS[0].to_record()
    for groups in (
        record["groups"][::-1],
        record["groups"][:-1],
        [["local", 3], ["global", 1]],
        [["local", 2**40]],
    ):
        with pytest.raises(FormatError):
            CompiledAir.from_record({**record, "groups": groups})
