"""Typed values of guests, against bytes from postcard's specification of its wire format."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distprove.errors import FormatError, UsageError
from distprove.stark.riscv.values import (
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    Width,
    decode,
    encode,
)


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


@dataclass
class Point:
    x: I16
    y: U8


@dataclass
class Node:
    value: U32
    next: Node | None = None


@dataclass
class Nothing:
    pass


KNOWN: list[tuple[Any, Any, str]] = [
    (bool, True, "01"),
    (U8, 200, "c8"),
    (I8, -1, "ff"),
    (U16, 127, "7f"),
    (U16, 128, "8001"),
    (U16, 65535, "ffff03"),
    (I16, -1, "01"),
    (I16, 32767, "feff03"),
    (I16, -32768, "ffff03"),
    (U32, 4294967295, "ffffffff0f"),
    (I32, -2147483648, "ffffffff0f"),
    (U64, 2**64 - 1, "ffffffffffffffffff01"),
    (I64, -5, "09"),
    (U128, 2**128 - 1, "ff" * 18 + "03"),
    (I128, -(2**127), "ff" * 18 + "03"),
    (float, -32.005859375, "00000000c00040c0"),
    (str, "\u00e9!", "03c3a921"),
    (bytes, b"\0\1", "020001"),
    (list[U16], [1, 300], "0201ac02"),
    (dict[U8, bool], {1: True, 2: False}, "0201010200"),
    (tuple[U8, str], (7, "a"), "070161"),
    (U32 | None, None, "00"),
    (U32 | None, 5, "0105"),
    (Side, Side.SELL, "01"),
    (Point, Point(-2, 9), "0309"),
    (Node, Node(1, Node(2)), "01010200"),
]


@pytest.mark.parametrize(("kind", "value", "known"), KNOWN)
def test_values_have_the_bytes_of_the_specification(kind: Any, value: Any, known: str) -> None:
    assert encode(kind, value).hex() == known
    assert decode(kind, bytes.fromhex(known)) == value


@given(some.lists(some.tuples(some.text(), some.integers(-(2**63), 2**63 - 1), some.floats(allow_nan=False))))
def test_values_come_back(values: list[tuple[str, int, float]]) -> None:
    kind = list[tuple[str, I64, float]]
    data = encode(kind, values)
    assert decode(kind, data) == values
    assert decode(kind, data + bytes(-len(data) % 4), padded=True) == values


@pytest.mark.parametrize("width", [Width(bits, signed) for bits in (8, 16, 32, 64, 128) for signed in (False, True)])
def test_integers_at_their_bounds(width: Width) -> None:
    from typing import Annotated

    kind = Annotated[int, width]
    for bound, step in zip(width.bounds, (-1, 1), strict=True):
        assert decode(kind, encode(kind, bound)) == bound
        with pytest.raises(UsageError, match="out of its range"):
            encode(kind, bound + step)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (U16, "ffff04"),
        (U16, "80808001"),
        (U32, "ffffffff10"),
        (U64, "ffffffffffffffffff02"),
        (U8, ""),
        (bool, "02"),
        (U32 | None, "02"),
        (str, "01ff"),
        (str, "0561"),
        (list[U8], "ffffffff0f"),
        (list[list[U8]], "80808001"),
        (Side, "02"),
        (float, "00"),
        (U8, "0000"),
        (Node, "0101" * 70),
    ],
)
def test_wrong_bytes_are_refused(kind: Any, data: str) -> None:
    with pytest.raises(FormatError):
        decode(kind, bytes.fromhex(data))


@given(some.binary(max_size=40))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for kind, _, _ in KNOWN:
        try:
            value = decode(kind, data)
        except FormatError:
            continue
        if kind is not float:  # one that is no number equals nothing
            assert decode(kind, encode(kind, value)) == value


def test_only_zeros_of_a_word_follow_an_output() -> None:
    assert decode(U8, b"\5\0\0\0", padded=True) == 5
    for data in (b"\5\0\0\0\0", b"\5\0\0\1"):
        with pytest.raises(FormatError, match="bytes follow the value"):
            decode(U8, data, padded=True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(U8, True), (bool, 1), (str, b"x"), (list[U8], 3), (tuple[U8, U8], (1,)), (Point, Node(1)), (Side, "b")],
)
def test_a_value_of_another_type_is_refused_without_showing_it(kind: Any, value: Any) -> None:
    with pytest.raises(UsageError, match=f"a value of type {type(value).__name__} is no") as refused:
        encode(kind, value)
    assert repr(value) not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (list[Point], [Point(1, 2), Point(3, 256)], "value[1].y: "),
        (Node, Node(1, Node(2, Node(-1))), "value.next.next.value: "),
        (dict[str, tuple[U8, U8]], {"secret": (1, 2), "hidden": (3, "x")}, "value[1][1]: "),
        (U8, -1, ""),
    ],
)
def test_a_part_of_another_type_is_named_by_its_place(kind: Any, value: Any, place: str) -> None:
    with pytest.raises(UsageError) as refused:
        encode(kind, value)
    assert str(refused.value).startswith(f"{place}a value of type ")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(("kind", "value"), [(str, "secret \ud800"), (float, 10**400), (float, -(10**400))])
def test_a_value_of_its_type_that_has_no_encoding_is_refused_without_showing_it(kind: Any, value: Any) -> None:
    """Python's own errors would be of no type of ours, and the one about a text has the text."""
    with pytest.raises(UsageError) as refused:
        encode(list[kind], [kind(), value])
    assert str(refused.value).startswith(f"value[1]: a value of type {type(value).__name__} is no ")
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("kind", [list[U8], Point, tuple[U8, list[U8]], Point | None])
def test_keys_without_a_hash_are_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match="keys that no dict"):
        decode(dict[kind, U8], b"\1\1\1\1\1")


@pytest.mark.parametrize("kind", [int, object, set[int], Nothing, U8 | str, Any])
def test_a_type_without_an_encoding_is_refused(kind: Any) -> None:
    for use in (lambda: encode(kind, 3), lambda: decode(kind, b"\3")):
        with pytest.raises(UsageError, match="has no encoding"):
            use()


@pytest.mark.parametrize("value", ["secret", [Point(1, 2)], Point(1, 2), 77, None])
def test_a_value_in_the_place_of_its_type_is_not_quoted(value: Any) -> None:
    for use in (lambda: encode(value, U8), lambda: decode(value, b"\3"), lambda: encode(list[value], [3])):
        with pytest.raises(UsageError) as refused:
            use()
        assert str(refused.value) in (
            f"the first argument, and each annotation, is a type, not a value of {type(value).__name__}",
            "value[0]: the first argument, and each annotation, is a type, not a value of " + type(value).__name__,
        )


def test_a_chain_that_never_ends_is_refused() -> None:
    chain = Node(0)
    chain.next = chain
    with pytest.raises(UsageError, match="deep"):
        encode(Node, chain)
