"""Shapes of JSON values: what readers of the project's own files check before they rely on it."""

from __future__ import annotations

from typing import Any

NUMBER = (int, float)


class Row:
    """The shape of a list with exactly as many elements, each of its own shape."""

    def __init__(self, *shapes: Any) -> None:
        self.shapes = shapes


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape: a type; a tuple of shapes, any of them; `[shape]`, a list; `Row(shape, ...)`;
    `{str: shape}`, an object with any keys; `{"key": shape, ...}`, an object with at least these keys, where a missing
    one counts as None. A bool is no number."""
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, Row):
        return isinstance(value, list) and len(value) == len(shape.shapes) and all(map(fits, value, shape.shapes))
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        every = shape.get(str)
        if every is not None:
            return all(fits(each, every) for each in value.values())
        return all(fits(value.get(key), each) for key, each in shape.items())
    return isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
