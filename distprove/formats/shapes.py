"""Shapes of JSON values: what readers of the project's own files check before they rely on it."""

from __future__ import annotations

from typing import Any

NUMBER = (int, float)


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has a shape: a type or a tuple of types; `[shape]`, a list; `{str: shape}`, an object with any
    keys; `{"key": shape, ...}`, an object with at least these keys, where a missing one counts as None. A bool is no
    number."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        every = shape.get(str)
        if every is not None:
            return all(fits(each, every) for each in value.values())
        return all(fits(value.get(key), each) for key, each in shape.items())
    kinds = shape if isinstance(shape, tuple) else (shape,)
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
