"""A text that is decoded in pieces is the same value, and has the same faults."""

from __future__ import annotations

import codecs
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distprove.errors import FormatError
from distprove.formats import jsonpieces
from distprove.formats.jsonpieces import MAX_GAP, pieces


@pytest.fixture(params=[1, 2, 9, 30])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonpieces, "PIECE", request.param)


def whole(data: bytes) -> Any:
    """The value that a text's pieces make."""
    made = None
    for piece in pieces(data, "file"):
        made = _joined(made, piece.value, piece.before)
    return made


def _joined(made: Any, more: Any, before: tuple[int, ...]) -> Any:
    """A value with what a piece has of it."""
    if not before:
        return more
    if isinstance(more, dict):
        for number, (key, inner) in enumerate(more.items()):
            assert len(before) > 1 or key not in made
            made[key] = _joined(made.get(key), inner, before[1:] if number == 0 else ())
    else:
        assert before[0] == len(made) - (len(before) > 1)
        for number, inner in enumerate(more):
            if number == 0 and len(before) > 1:
                made[-1] = _joined(made[-1], inner, before[1:])
            else:
                made.append(inner)
    return made


TEXTS = st.text(alphabet='a[]{}"\\\\:,\u00e9', max_size=5)
VALUES = st.recursive(
    st.integers() | st.none() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.usefixtures("size")
@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_pieces_make_the_value(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert whole(text.encode()) == value


@pytest.mark.usefixtures("size")
@given(VALUES, st.integers(0, 200), st.sampled_from(list('[]{},:"\\ 1')), st.booleans())
def test_what_is_no_json_is_refused(value: Any, place: int, character: str, insert: bool) -> None:
    text = json.dumps(value)
    text = text[:place] + character + text[place + (not insert) :]
    try:
        json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(FormatError):  # pieces before the fault may hold a key that an earlier one holds
            list(pieces(text.encode(), "file"))


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": [,1]}', "line 1, column 8"),
        ('{"a": [1, 2,, 3]}', "line 1, column 13"),
        ('{"a": [1, 2,]}', "line 1, column 13"),
        ('{\n"é": [1,\n\n 2, "éé", x]}', "line 4, column 11"),
        ('{"a": [1, 2}, 3]', "delimiter at line 1, column 12"),
        ('{"a": [1, 2', "delimiter at line 1, column 12"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ("", "line 1, column 1"),
        ("[1, 2], 3", "line 1, column 7"),
        ("[1, 2]]", "line 1, column 7"),
    ],
)
def test_faults_are_told_where_they_are(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=f"file: .*{says}"):
        whole(text.encode())


@pytest.mark.usefixtures("size")
def test_nesting_is_bounded_over_all_pieces() -> None:
    assert whole(b"[1, " * 64 + b"2" + b"]" * 64)
    with pytest.raises(FormatError, match="nested deeper than 64 levels"):
        whole(b"[1, " * 65 + b"2" + b"]" * 65)


@pytest.mark.usefixtures("size")
def test_text_that_is_not_utf8() -> None:
    with pytest.raises(FormatError, match="not UTF-8"):
        whole(b'["a", "\xff"]')


@pytest.mark.parametrize("bom", [codecs.BOM_UTF8, b""])
def test_a_byte_order_mark_is_no_part_of_a_text(bom: bytes) -> None:
    assert whole(bom + b'{"a": [1, 2]}') == {"a": [1, 2]}
    with pytest.raises(FormatError, match="save it as UTF-8" if not bom else "JSON"):
        whole(bom + '{"a": [1]}'.encode("utf-16-le"))
    with pytest.raises(FormatError, match="JSON"):
        whole(2 * codecs.BOM_UTF8 + b"[1]")


@pytest.mark.parametrize("unit", [b" ", b"x", b"\\n", b'\\"', b"\\\\", "\U0001f600".encode()])
def test_what_has_no_comma_is_bounded(unit: bytes) -> None:
    data = b'["' + unit * (5 * MAX_GAP // len(unit)) + b'", 1]'
    tracemalloc.start()
    with pytest.raises(FormatError, match="without a comma outside of strings"):
        whole(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MAX_GAP
