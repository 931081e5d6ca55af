"""Circuits in the user's cache: read as they were written, and made anew where a file is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.stark.recursion import circuit_cache
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.circuit_cache import decode_circuit, encode_circuit, kept_circuit
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
    monkeypatch.setattr(circuit_cache, "_code", lambda: b"changed code")
    kept_circuit([child], tmp_path)
    assert len(recorded) == 3


def test_changed_native_code_finds_no_file_of_the_code_before_it(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes the rows and roots that are kept."""
    monkeypatch.setattr(circuit_cache, "_code", circuit_cache._code.__wrapped__)  # not cached
    own = circuit_cache.name_of([child])
    library = tmp_path / "native.so"
    for content in (b"one build", b"another"):
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
    monkeypatch.setattr(circuit_cache, "encode_circuit", lambda circuit: b"of its digest, and no circuit")
    path.unlink()
    kept_circuit([child], tmp_path)
    assert same(kept_circuit([child], tmp_path), circuit)


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
        (("kinds",), b""),
        (("kinds",), bytes([200])),
        (("tables", "relations"), bytes(23)),
        (("tables", "relations"), b""),
        (("tables", "more"), b""),
        (("words", "bases"), bytes(9)),
        (("words", "constant_words"), b""),
    ],
)
def test_bytes_that_are_no_circuit(child: Child, place: tuple[str, ...], value: Any) -> None:
    record = canonical.decode(encode_circuit(node_circuit([child])), "circuit")
    with pytest.raises(FormatError, match="circuit"):
        decode_circuit(canonical.encode(changed(record, *place, value=value)))
