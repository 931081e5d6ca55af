"""What a large circuit input costs, and that the short ways through it lead to the same values."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import FormatError, WitnessGenerationError
from distprove.groth16.inputs import MAX_INPUT, flatten, read_input, signals
from kernels.maths.curves import BN254

FIELD = BN254.fr


@pytest.mark.parametrize(
    ("value", "times"),
    [
        ({"in": [str(i) for i in range(20_000)]}, 17),
        ({"in": list(range(20_000))}, 16),
        ({f"s{i}": str(i % 9) for i in range(20_000)}, 12),
    ],
    ids=["strings", "numbers", "names"],
)
def test_what_an_input_takes_for_each_of_its_bytes(value: dict[str, Any], times: int) -> None:
    data = json.dumps(value, separators=(",", ":")).encode()
    tracemalloc.start()
    read = signals(read_input(data))
    for name, plain in read.items():
        flatten(name, plain, FIELD)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < times * len(data)


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
    assert flatten("in", values, FIELD) == expected


@pytest.mark.parametrize("odd", ["1_0", " 1", "1\n", "\u0661", "", "9" * 1025, None, 1.5, {}])
def test_one_odd_value_among_many_is_found(odd: object) -> None:
    with pytest.raises(WitnessGenerationError, match="signal 'in'"):
        flatten("in", ["1"] * 1500 + [odd], FIELD)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": [{"a": 1}, {"x:": 1, "a": 1, "a": 1}]}'])
def test_a_signal_that_is_given_twice_is_told(text: str) -> None:
    with pytest.raises(FormatError, match="the signal 'a' occurs twice"):
        read_input(text.encode())


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
    assert read_input(b'{"a:b": {":": [{"c": "::"}]}}') == {"a:b": {":": [{"c": "::"}]}}
