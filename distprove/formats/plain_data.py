"""Dataclasses as JSON: how they are read, and the JSON Schema that says so. Both follow from the fields' types.

Kinds of fields: text, numbers, truth values, enumerations, dataclasses, lists, tuples of one kind, tables, and unions.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from distprove.errors import UsageError
from distprove.formats.nearest import nearest

Read = TypeVar("Read")

KINDS: dict[Any, str] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
KINDS |= {list: "a list", dict: "a table", NoneType: "nothing"}
"""Kinds of values as errors name them."""
TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
TYPES |= {list: "array", dict: "object", NoneType: "null"}
"""Kinds of values as JSON Schema names them."""


def read(kind: type[Read], value: Any, what: str, *, strict: bool = True) -> Read:
    """The value of type `kind` that `value`, decoded JSON, stands for; `what` names it in errors.

    With `strict` keys that are not known are refused: so a server reads. A client leaves them out, as they come from a
    newer server. Raises UsageError, which quotes no value.
    """
    found: Read = _read(kind, value, what, strict)
    return found


def _read(kind: Any, value: Any, what: str, strict: bool) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        return _read(next(part for part in parts if part is not NoneType), value, what, strict)
    if origin in (list, tuple):
        if not isinstance(value, list):
            raise UsageError(f"{what} must be a list")
        return origin(_read(parts[0], item, f"{what}[{index}]", strict) for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise UsageError(f"{what} must be a table")
        return {key: _read(parts[1], item, f"{what}.{key}", strict) for key, item in value.items()}
    if is_dataclass(kind):
        return _read_fields(kind, value, what, strict)
    if issubclass(kind, Enum):
        known = [member.value for member in kind]
        if value not in known:
            raise UsageError(f"{what} must be one of {', '.join(known)}{nearest(str(value), known)}")
        return kind(value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise UsageError(f"{what} must be {KINDS[kind]}")
    return value


def _read_fields(kind: Any, value: Any, what: str, strict: bool) -> Any:
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a table")
    kinds = _hints(kind)
    unknown = sorted(str(key) for key in value.keys() - kinds.keys())
    if strict and unknown:
        key = unknown[0][:100]
        raise UsageError(f"{what} has an unknown key {key!r}{nearest(key, kinds)}; known: {', '.join(kinds)}")
    missing = [field.name for field in fields(kind) if needed(field) and field.name not in value]
    if missing:
        raise UsageError(f"{what} has no `{missing[0]}`")
    return kind(**{name: _read(kinds[name], value[name], f"`{name}`", strict) for name in kinds if name in value})


def dumps(value: Any) -> str:
    """A value as JSON; a dataclass is its fields."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return json.dumps(plain, allow_nan=False, separators=(",", ":"))


def needed(field: Field[Any]) -> bool:
    """Whether a dataclass has no default for the field."""
    return field.default is MISSING and field.default_factory is MISSING


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def schema(kind: Any, named: dict[str, Any], *, complete: bool = True) -> dict[str, Any]:
    """The JSON Schema of values of type `kind`. Schemas of dataclasses and enumerations are added to `named`, by name,
    and referred to; a field's metadata may add to its own, as "schema". `complete`: all fields are there, as in what a
    server answers; else those without a default."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in (Union, UnionType):
        return {"anyOf": [schema(part, named, complete=complete) for part in parts]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(parts[0], named, complete=complete)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(parts[1], named, complete=complete)}
    if is_dataclass(kind) or issubclass(kind, Enum):
        name = kind.__name__  # type: ignore[union-attr]
        if name not in named:
            named[name] = {}  # for one that holds itself
            named[name] = _object(kind, named, complete) if is_dataclass(kind) else _choices(kind)
        return {"$ref": f"#/components/schemas/{name}"}
    return {"type": TYPES[kind]}


def _choices(kind: Any) -> dict[str, Any]:
    return {"type": "string", "description": inspect.getdoc(kind), "enum": [member.value for member in kind]}


def _object(kind: Any, named: dict[str, Any], complete: bool) -> dict[str, Any]:
    told = _descriptions(kind)
    properties = {}
    for field in fields(kind):
        found = {**schema(_hints(kind)[field.name], named, complete=complete), **field.metadata.get("schema", {})}
        properties[field.name] = {**found, "description": told[field.name]} if field.name in told else found
    required = [field.name for field in fields(kind) if complete or needed(field)]
    made = {"type": "object", "description": inspect.getdoc(kind), "properties": properties, "required": required}
    return made if complete else {**made, "additionalProperties": False}


def _descriptions(kind: Any) -> dict[str, str]:
    """What the docstrings below the fields of a dataclass say."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return {
        before.target.id: inspect.cleandoc(after.value.value)
        for before, after in pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }
