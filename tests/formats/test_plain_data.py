"""What is read as JSON is what its schema says, whatever is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.service.views import JobRequest, JobView, Overview, Priority
from distprove.errors import UsageError
from distprove.formats.plain_data import dumps, read, schema


@dataclass(frozen=True)
class Inner:
    share: float
    priority: Priority = Priority.LOW


@dataclass(frozen=True)
class Outer:
    name: str
    count: int
    inner: Inner
    flag: bool = False
    maybe: int | None = None
    many: tuple[Inner, ...] = ()
    names: list[str] = field(default_factory=list)
    table: dict[str, int] = field(default_factory=dict)
    anything: dict[str, Any] = field(default_factory=dict)


ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(0, 1), st.sampled_from(["", "low", "x"]))
INNER = st.fixed_dictionaries({}, optional={"share": ATOMS, "priority": ATOMS, "more": ATOMS})
RIGHT = st.fixed_dictionaries({"share": st.floats(0, 1)}, optional={"priority": st.sampled_from(["low", "high"])})
VALUES = st.one_of(ATOMS, INNER, RIGHT, st.lists(ATOMS, max_size=2), st.lists(RIGHT, max_size=2))
OUTER = st.fixed_dictionaries(
    {"name": st.just("n"), "count": st.integers(0, 9), "inner": RIGHT},
    optional={
        "flag": VALUES,
        "maybe": VALUES,
        "many": VALUES,
        "names": VALUES,
        "table": VALUES,
        "anything": VALUES,
        "other": ATOMS,
    },
)


def is_read(value: Any) -> bool:
    try:
        read(Outer, value, "it")
    except UsageError:
        return False
    return True


@given(st.one_of(OUTER, VALUES))
def test_what_is_read_is_what_the_schema_takes(value: Any) -> None:
    named: dict[str, Any] = {}
    told = {**schema(Outer, named, complete=False), "components": {"schemas": named}}
    valid = jsonschema.Draft202012Validator(told).is_valid(value)
    # JSON Schema takes 1.0 for an integer, which a service does not.
    assert valid == is_read(value) or "1.0" in json.dumps(value) or "0.0" in json.dumps(value)


@given(OUTER.filter(is_read))
def test_what_was_read_is_written_and_read_again(value: Any) -> None:
    found = read(Outer, value, "it")
    assert read(Outer, json.loads(dumps(found)), "it") == found


@pytest.mark.parametrize("kind", [JobRequest, JobView, Overview])
def test_views_have_schemas_that_say_what_every_field_is(kind: type) -> None:
    named: dict[str, Any] = {}
    schema(kind, named)
    for told in named.values():
        jsonschema.Draft202012Validator.check_schema(told)
        assert told["description"]


def test_a_client_leaves_out_what_a_newer_service_tells() -> None:
    value = {"name": "n", "count": 1, "inner": {"share": 1, "new": 3}, "new": [1]}
    assert read(Outer, value, "it", strict=False) == Outer("n", 1, Inner(1.0))
    with pytest.raises(UsageError, match="new"):
        read(Outer, value, "it")
