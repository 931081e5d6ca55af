"""What a large circuit input costs, and that the short ways through it lead to the same values."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, WitnessGenerationError
from distprove.formats import jsonpieces
from distprove.groth16.inputs import MAX_INPUT, InputFile, Inputs, flatten, read_input, signals
from kernels.maths.curves import BN254
from tests.support.file_uses import use_input
from tests.support.large_inputs import LARGE_INPUTS

FIELD = BN254.fr
MIB = 1 << 20


def values_of(inputs: Inputs) -> dict[str, list[Any]]:
    """The values of each signal, its parts put together."""
    found: dict[str, list[Any]] = {}
    for signal, values, goes_on in signals(inputs):
        found[signal] = [*(found[signal] if goes_on else ()), *values]
    return found


def packed(values: Any) -> bytes:
    [(signal, leaves, _)] = signals({"in": values})
    return b"".join(flatten(signal, leaves, FIELD))


@pytest.mark.parametrize("shape", LARGE_INPUTS)
def test_no_input_takes_many_times_its_size(shape: str) -> None:
    data = LARGE_INPUTS[shape](200_000)
    tracemalloc.start()
    use_input(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(data) + 2 * MIB


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 1 << 62],
        [str(FIELD.modulus + 5), "7"],
        [1 << 63, 0],
        [-1, 2],
        ["0x10", "16", "-3", 4, True],
        [["1", "2"], [["3"], "4"]],
        [*range(3000), -1, *range(3000)],
        [],
        "0X1f",
    ],
    ids=lambda values: str(values)[:24],
)
def test_values_are_packed_one_like_the_other(values: Any) -> None:
    def leaves(value: Any) -> list[int]:
        if isinstance(value, list):
            return [leaf for item in value for leaf in leaves(item)]
        return [int(value, 0) if isinstance(value, str) else int(value)]

    expected = b"".join((leaf % FIELD.modulus).to_bytes(FIELD.bytes, "little") for leaf in leaves(values))
    assert packed(values) == expected


@pytest.mark.parametrize("odd", ["1_0", " 1", "1\n", "\u0661", "", "9" * 1025, None, 1.5, {}])
def test_one_odd_value_among_many_is_found(odd: object) -> None:
    with pytest.raises(WitnessGenerationError, match="signal 'in'"):
        packed(["1"] * 1500 + [odd])


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": [{"a": 1}, {"x:": 1, "a": 1, "a": 1}]}'])
def test_a_key_that_is_given_twice_is_told(text: str) -> None:
    with pytest.raises(FormatError, match="the key 'a' occurs twice"):
        values_of(read_input(text.encode()))


@pytest.mark.parametrize("between", [0, 100_000])
@pytest.mark.parametrize("first", ['"p": [{"x": [1]}]', '"p[0].x": 2', '"p[0].x": [1, 3, 4]'])
def test_a_signal_that_is_given_twice_is_told(first: str, between: int) -> None:
    text = f'{{{first}, "a": "{"0" * between}", "p": [{{"x": 2}}]}}'
    with pytest.raises((FormatError, WitnessGenerationError), match=r"'p\[0\]\.x' is given twice|'p' occurs twice"):
        values_of(read_input(text.encode()))


def test_an_input_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "in.json", "wb") as file:
        file.truncate(MAX_INPUT + 1)
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"in\.json: larger than 268435456 bytes"):
        read_input(tmp_path / "in.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_colons_in_names_are_no_entries() -> None:
    assert values_of(read_input(b'{"a:b": {":": [{"c": "::"}]}}')) == {"a:b.:[0].c": ["::"]}


@pytest.mark.parametrize("size", [1, 7, 40])
def test_pieces_lead_to_the_same_signals(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = {"x": [1, 2, "3"], "y": {"z": -4}}
    value = {"a": 1, "in": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "p": [bus, bus], "q": [[bus], [bus, bus]], "b": "5"}
    monkeypatch.setattr(jsonpieces, "PIECE", size)
    read = values_of(read_input(json.dumps(value).encode()))
    assert read == values_of(value)
    assert len(read) == 2 + 1 + 2 * 5


@pytest.mark.parametrize("mixed", ['[{"x": 1}, {"x": 2}, 3]', '[{"x": 1}, [2, 3]]'])
def test_numbers_after_objects_are_no_values_of_theirs(mixed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a piece of its own: the numbers would go on with the values of the signal before."""
    monkeypatch.setattr(jsonpieces, "PIECE", 1)
    with pytest.raises(WitnessGenerationError, match="signal 'p': a list mixes objects and numbers"):
        values_of(read_input(f'{{"p": {mixed}}}'.encode()))


@pytest.mark.parametrize("text", ["1.00000000000000000001", "4503599627370497.4", "1e-400", "1.5", "1e400", "NaN"])
@pytest.mark.parametrize("shape", ["%s", "[1, %s]", "[" + "1, " * 6000 + "%s]", '{"b": [[%s]]}'])
def test_a_number_that_is_no_integer_is_refused_and_not_rounded(text: str, shape: str) -> None:
    given = read_input(f'{{"a": {shape % text}}}'.encode(), name="in.json")
    with pytest.raises(WitnessGenerationError, match=r"signal 'a.*a number that is not an exact integer"):
        [list(flatten(signal, values, FIELD)) for signal, values, _ in signals(given)]


def test_an_integer_is_taken_as_its_text_says() -> None:
    written = {"9007199254740993.0": 9007199254740993, "1e3": 1000, "5.0": 5, "1e20": 10**20, "-2.0": -2, "-0.0": 0}
    given = read_input(f'{{"a": [{", ".join(written)}]}}'.encode(), name="in.json")
    [(signal, values, _)] = signals(given)
    packed_exactly = b"".join((value % FIELD.modulus).to_bytes(32, "little") for value in written.values())
    assert b"".join(flatten(signal, values, FIELD)) == packed_exactly


def test_a_float_of_python_that_may_have_been_rounded_is_refused() -> None:
    """9007199254740993.0 in a Python text is the float 9007199254740992.0 before anything of ours sees it."""
    assert packed([5.0, float((1 << 53) - 1)]) == packed([5, (1 << 53) - 1])
    for value in (float((1 << 53) + 1), 1e22, 0.5, float("nan"), float("inf"), np.float32(5), np.float64(1e16)):
        with pytest.raises(WitnessGenerationError, match=r"is not an (exact )?integer$"):
            packed([value])
    with pytest.raises(WitnessGenerationError, match="exact integer"):
        packed(np.array([2.0**53]))
    assert packed(np.array([5.0, 7.0])) == packed([5, 7])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, "M8[ns]"])
def test_an_array_of_numbers_that_are_no_integers_of_python_is_refused(kind: Any) -> None:
    """2^24 + 1 is 2^24 in float32, which Python's float of it no longer shows."""
    values = np.array([3, 5]).astype(kind)
    for given in (values, values[:1], values.reshape(1, 2), [values], values[0]):
        with pytest.raises(WitnessGenerationError, match="is not an integer"):
            packed(given)


def test_integers_from_the_modulus_on_are_reduced_as_snarkjs_does() -> None:
    assert packed([FIELD.modulus, FIELD.modulus + 7, -1, "-1"]) == packed([0, 7, FIELD.modulus - 1, FIELD.modulus - 1])


@pytest.mark.parametrize("depth", [32, 33])
def test_lists_are_nested_32_deep_at_most(depth: int) -> None:
    text = f'{{"a": {"[" * depth}1{"]" * depth}}}'
    with nullcontext() if depth == 32 else pytest.raises(WitnessGenerationError, match="more than 32 deep"):
        assert len(list(signals(InputFile(text.encode(), "inputs")))) == 1
