"""Hostile JSON raises, whatever the interpreter's recursion limit is."""

from __future__ import annotations

import codecs
import json
import math
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distprove.errors import FormatError, InputError
from distprove.formats import jsontext
from distprove.formats.folder import Folder


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_deep_nesting_is_refused_before_the_decoder_recurses(opening: bytes) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with pytest.raises(FormatError, match="nested deeper"):
            jsontext.loads(opening * 100_000, "file")
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("small", [b"{}", b"[]", b'{"a":1}', b"[0]"])
def test_small_values_that_cost_many_times_the_file_are_refused(small: bytes) -> None:
    data = b"[" + (small + b",") * 900_000 + b"0]"
    with pytest.raises(FormatError, match=r"file: more small values than a file of \d+ bytes may hold"):
        jsontext.loads(data, "file")


@pytest.mark.parametrize(
    "small", [b"{}", b"[]", b'{"a":1}', b"[0]", b'"ab"', b"257", b"1e1", b"1e26", b"%d", b'{"%d":0}']
)
def test_no_value_costs_more_than_is_counted(small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    items = (small % i if b"%" in small else small for i in range(20_000))
    for data in (b"[" + b",".join(items) + b"]", json.dumps({str(i): 0 for i in range(20_000)}).encode()):
        counted = sum(each * data.count(mark) for mark, each in jsontext._COSTS.items())
        tracemalloc.start()
        jsontext.loads(data, "file", parse_float=jsontext.number)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < counted + 2 * len(data)


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "1e400", "-1e101", "9" * 41, "9" * 5000], ids=lambda number: number[:9]
)
def test_numbers_of_our_files_are_of_a_size_to_reckon_with(number: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(f'{{"seconds": {number}}}')
    with pytest.raises(FormatError, match=r"file\.json: not JSON, or a number that is none or too large"):
        jsontext.read_in(Folder.open(tmp_path), path.name, 1 << 20)


def test_numbers_that_are_written_are_read(tmp_path: Path) -> None:
    values = [0, -1, 1 << 64, 1e99, -1e99, 1.5, 1e-99, 1790000000.123456]
    (tmp_path / "file.json").write_text(json.dumps(values))
    assert jsontext.read_in(Folder.open(tmp_path), "file.json", 1 << 20) == values


def test_numbers_too_small_to_divide_by_are_zero(tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text("[1e-320, -5e-324]")
    assert jsontext.read_in(Folder.open(tmp_path), "file.json", 100) == [0, 0]


def test_brackets_in_strings_do_not_count() -> None:
    value = {"a" + "[" * 500: ["{" * 500, '\\"[' * 100], "b": [[1], [2]] * 200}
    assert jsontext.loads(json.dumps(value).encode(), "file") == value


def test_a_byte_order_mark_is_no_part_of_a_text() -> None:
    assert jsontext.loads(codecs.BOM_UTF8 + b'{"a": 1}', "x") == {"a": 1}
    for encoding in ("utf-16", "utf-16-be", "utf-32-le"):
        with pytest.raises(FormatError, match="x: a text of UTF-16 or UTF-32"):
            jsontext.loads('{"a": 1}'.encode(encoding), "x")


def test_depth_is_counted_exactly() -> None:
    assert jsontext.loads(b"[" * 64 + b"]" * 64, "file")
    with pytest.raises(FormatError, match="64 levels"):
        jsontext.loads(b"[" * 65 + b"]" * 65, "file")


TEXTS = st.text(alphabet='a[]{}"\\\\:,', max_size=6)


@given(st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)))
def test_depth_is_that_of_the_value(value: object) -> None:
    def depth(part: object) -> int:
        if not isinstance(part, (list, dict)):
            return 0
        return 1 + max(map(depth, part.values() if isinstance(part, dict) else part), default=0)

    data, levels = json.dumps(value).encode(), depth(value)
    jsontext.check_depth(data, "file", levels)
    if levels:
        with pytest.raises(FormatError, match="nested deeper"):
            jsontext.check_depth(data, "file", levels - 1)


def test_other_faults_keep_their_errors() -> None:
    with pytest.raises(json.JSONDecodeError):
        jsontext.loads(b"[1, 2", "file")
    with pytest.raises(FormatError, match="UTF-8"):
        jsontext.loads(b'["\xff"]', "file")


@pytest.mark.parametrize(("content", "says"), [(b"{", "not JSON"), (b"[" * 70, "deeper"), (b"[1, 2, 3]", "larger")])
def test_files_that_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(FormatError, match=says):
        jsontext.read_in(Folder.open(tmp_path), "f.json", 8 if says == "larger" else 100)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b"[1, 2]")
    folder = Folder.open(tmp_path)
    assert jsontext.read_in(folder, "f.json", 6) == [1, 2]
    with pytest.raises(InputError):
        jsontext.read_in(folder, "none.json", 6)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("5.0", 5),
        ("1e3", 1000),
        ("1E+2", 100),
        ("-0.0", 0),
        ("1.5e1", 15),
        ("1e20", 10**20),
        ("9007199254740993.0", 9007199254740993),
        ("123456789012345678901234567890.00", 123456789012345678901234567890),
        ("12300e-2", 123),
        ("1e26", 10**26),
    ],
)
def test_an_integer_with_a_fraction_or_an_exponent_is_what_its_text_says(text: str, exact: int) -> None:
    found = jsontext.number(text)
    assert (found, type(found)) == (exact, int)


@pytest.mark.parametrize(
    "text",
    [
        *("1.00000000000000000001", "4503599627370497.4", "9007199254740992.5", "1e-400", "-1e-400", "0.5e-99999999"),
        *("1e27", "1e400", "-1e999999999999999999999", "1e-999999999999999999999", "1." + "0" * 5000 + "1", "nan"),
    ],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_no_number_is_rounded_to_an_integer(text: str) -> None:
    assert not math.isfinite(jsontext.number(text))


@given(st.integers(-(10**30), 10**30), st.integers(0, 40), st.integers(-40, 0))
def test_any_number_is_exact_or_no_integer(digits: int, places: int, exponent: int) -> None:
    sign, text = "-" * (digits < 0), str(abs(digits)).rjust(places + 1, "0")
    written = f"{sign}{text[: len(text) - places]}.{text[len(text) - places :] or '0'}e{exponent}"
    exact, found = Fraction(written), jsontext.number(written)
    if exact.denominator == 1:
        assert found == exact
    else:
        assert not float(found).is_integer()
