"""Places in records, which are nested maps and lists, and copies of a record with another value at one of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]
"""Keys and positions from the outermost container to a value."""


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place in a record, containers and the whole included."""
    yield here
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*here, key))


def at(record: Any, place: Place) -> Any:
    """The value at a place."""
    for step in place:
        record = record[step]
    return record


def with_value(record: Any, place: Place, value: Any) -> Any:
    """A copy of `record` with another value at `place`."""
    if not place:
        return value
    copied = copy.copy(record)
    copied[place[0]] = with_value(record[place[0]], place[1:], value)
    return copied
