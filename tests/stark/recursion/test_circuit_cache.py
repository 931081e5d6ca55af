"""Circuits in the user's cache: read as they were written, and made anew where a file is none."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernels
from distprove.errors import FormatError, UsageError
from distprove.formats import kept_arrays
from distprove.stark.recursion import circuit_cache
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.circuit_cache import (
    decode_circuit,
    decode_layout,
    encode_circuit,
    encode_layout,
    kept_circuit,
    kept_layout,
)
from distprove.stark.recursion.frame import LEAST, Frame
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import Child, node_circuit
from tests.stark.recursion.test_parity import circuit_of


@pytest.fixture
def child() -> Child:
    return circuit_of("range-check", 0)[1]


def same(a: Circuit, b: Circuit) -> bool:
    return (
        (a.wires, a.public, a.fields, a.messages) == (b.wires, b.public, b.fields, b.messages)
        and np.array_equal(a.kinds, b.kinds)
        and all(np.array_equal(a.tables[name], b.tables[name]) for name in a.tables)
        and all(np.array_equal(a.words[name], b.words[name]) for name in a.words)
    )


def test_a_circuit_is_read_as_it_was_written(child: Child) -> None:
    circuit = node_circuit([child, child])
    read = decode_circuit(encode_circuit(circuit))
    assert same(read, circuit)
    assert read.native.states == circuit.native.states


def test_a_large_circuit_is_recorded_once(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_circuit([child], tmp_path / "small")
    assert not (tmp_path / "small").exists() or not [*(tmp_path / "small").iterdir()]
    monkeypatch.setattr(circuit_cache, "KEPT_OPERATIONS", 1)
    recorded: list[Any] = []

    def counting(children: Any) -> Circuit:
        recorded.append(children)
        return node_circuit(children)

    monkeypatch.setattr(circuit_cache, "node_circuit", counting)
    first = kept_circuit([child], tmp_path)
    assert same(kept_circuit([child], tmp_path), first)
    assert len(recorded) == 1
    kept_circuit([child, child], tmp_path)
    assert len(recorded) == 2
    monkeypatch.setattr(circuit_cache, "digest_of", lambda files: b"changed code")
    kept_circuit([child], tmp_path)
    assert len(recorded) == 3
    monkeypatch.setattr(kept_arrays, "as_loaded", lambda files: False)
    for _ in range(2):
        kept_circuit([child, child], tmp_path)
    assert len(recorded) == 5, "nothing is kept by a process whose code was replaced"


def test_changed_native_code_finds_no_file_of_the_code_before_it(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the rows and roots that are kept."""
    monkeypatch.setattr(kernels, "BEGAN", time.time_ns() + 2 * 10**9)  # as if the files had been there for a while
    monkeypatch.setattr(circuit_cache, "code", circuit_cache.code.__wrapped__)  # not cached
    own = circuit_cache.name_of([child])
    for content in (b"one build", b"another"):
        library = tmp_path / content.decode() / "native.so"
        library.parent.mkdir()
        library.write_bytes(content)
        monkeypatch.setattr(circuit_cache, "native", SimpleNamespace(__file__=str(library)))
        assert circuit_cache.name_of([child]) not in (own, "")
        own = circuit_cache.name_of([child])
        assert circuit_cache.name_of([child]) == own


def test_a_file_that_is_no_circuit(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_cache, "KEPT_OPERATIONS", 1)
    circuit = kept_circuit([child], tmp_path)
    (path,) = tmp_path.glob("*.circuit")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # no longer of the digest in its name
    assert same(kept_circuit([child], tmp_path), circuit)
    (path,) = tmp_path.glob("*.circuit")
    assert path.read_bytes() == content
    for record, arrays in (({}, {}), ({"wires": 1}, {"kinds": np.zeros(3, dtype=np.uint8)})):
        monkeypatch.setattr(circuit_cache, "encode_circuit", lambda circuit, of=(record, arrays): of)
        path.unlink()
        kept_circuit([child], tmp_path)  # a file of its digest, and no circuit
        assert same(kept_circuit([child], tmp_path), circuit)
        (path,) = tmp_path.glob("*.circuit")


def test_a_layout_is_made_once_and_mapped(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = node_circuit([child])
    made = Layout.of(circuit)
    asked: list[Circuit] = []

    def recorded() -> Circuit:
        asked.append(circuit)
        return circuit

    kept_layout([child], made.frame, recorded, tmp_path / "small")
    assert not (tmp_path / "small").exists()
    monkeypatch.setattr(circuit_cache, "KEPT_OPERATIONS", 1)
    asked.clear()
    first, mapped = (kept_layout([child], made.frame, recorded, tmp_path) for _ in range(2))
    assert len(asked) == 1
    for layout in (first, mapped):
        assert (layout.frame, layout.rows) == (made.frame, made.rows)
        assert [*layout.preprocessed] == [*made.preprocessed]
        assert all(np.array_equal(layout.preprocessed[name], own) for name, own in made.preprocessed.items())
    assert not any(columns.flags.writeable for columns in mapped.preprocessed.values())
    low = Frame(dict.fromkeys(made.frame.log_heights, LEAST))
    with pytest.raises(UsageError, match="too large"):
        kept_layout([child], low, recorded, tmp_path)
    monkeypatch.setattr(circuit_cache, "digest_of", lambda files: b"changed code")
    kept_layout([child], made.frame, recorded, tmp_path)
    assert len(asked) == 3


def test_a_damaged_layout_is_made_anew(child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_cache, "KEPT_OPERATIONS", 1)
    circuit = node_circuit([child])
    made = Layout.of(circuit)
    kept_layout([child], made.frame, lambda: circuit, tmp_path)
    (path,) = tmp_path.glob("*.layout")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    found = kept_layout([child], made.frame, lambda: circuit, tmp_path)
    assert all(np.array_equal(found.preprocessed[name], own) for name, own in made.preprocessed.items())
    (path,) = tmp_path.glob("*.layout")
    assert path.read_bytes() == content


def test_content_that_is_no_layout(child: Child) -> None:
    made = Layout.of(node_circuit([child]))
    record, columns = encode_layout(made)
    assert decode_layout(made.frame, (record, columns)).rows == made.rows
    higher = Frame({name: height + 1 for name, height in made.frame.log_heights.items()})
    fewer = {name: own for name, own in columns.items() if name != "bits"}
    narrow = {**columns, "bits": columns["bits"].astype(np.uint32)}
    flat = {**columns, "bits": columns["bits"].reshape(-1)}
    for frame, content in (
        (higher, (record, columns)),
        (made.frame, (record, fewer)),
        (made.frame, (record, narrow)),
        (made.frame, (record, flat)),
        (made.frame, ({}, columns)),
        (made.frame, ({"rows": {**record["rows"], "bits": -1}}, columns)),
        (made.frame, ({"rows": {**record["rows"], "bits": 1 << 30}}, columns)),
        (made.frame, ({"rows": {**record["rows"], "more": 1}}, columns)),
    ):
        with pytest.raises(FormatError):
            decode_layout(frame, content)


def changed(record: Any, *place: str, value: Any) -> Any:
    *outer, last = place
    inner = record
    for name in outer:
        inner = inner[name]
    inner[last] = value
    return record


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("wires",), -1),
        (("wires",), 1 << 40),
        (("wires",), 3),
        (("wires",), "3"),
        (("messages",), [3]),
        (("messages",), []),
        (("public",), []),
        (("public",), [["challenge", -1]]),
        (("public",), [["challenge", 1, 2]]),
        (("fields",), []),
        (("fields",), [[3, "name"]]),
    ],
)
def test_records_that_are_no_circuit(child: Child, place: tuple[str, ...], value: Any) -> None:
    record, arrays = encode_circuit(node_circuit([child]))
    assert decode_circuit((record, arrays)).wires == record["wires"]
    with pytest.raises(FormatError, match="circuit"):
        decode_circuit((changed(record, *place, value=value), arrays))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("kinds", np.zeros(0, dtype=np.uint8)),
        ("kinds", np.full(1, 200, dtype=np.uint8)),
        ("kinds", np.zeros(1, dtype=np.uint32)),
        ("relations", np.zeros((4, 5), dtype=np.uint32)),
        ("relations", np.zeros((0, 6), dtype=np.uint32)),
        ("relations", np.zeros((4, 6), dtype=np.uint64)),
        ("more", np.zeros(0, dtype=np.uint32)),
        ("bases", np.zeros(9, dtype=np.uint64)),
        ("constant_words", np.zeros((0, 4), dtype=np.uint64)),
    ],
)
def test_arrays_that_are_no_circuit(child: Child, name: str, array: Any) -> None:
    record, arrays = encode_circuit(node_circuit([child]))
    with pytest.raises(FormatError):
        decode_circuit((record, {**arrays, name: array}))
