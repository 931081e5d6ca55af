"""Keys: the golden ones are read and their hashes are right; whatever is no key is refused."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError, InputError, InvalidKey
from distprove.stark.openvm.graph import MOST_DEGREE, Graph, Kind
from distprove.stark.openvm.key_file import key_from_bytes, read_key
from tests.support.openvm_golden import NAMES, key_of, key_path

Header = dict[str, Any]


def parts(name: str) -> tuple[Header, bytes]:
    data = key_path(name).read_bytes()
    end = 16 + int(struct.unpack("<Q", data[8:16])[0])
    return json.loads(data[16:end]), data[-(-end // 64) * 64 :]


def joined(header: Header, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    front = b"OVMKEY01" + struct.pack("<Q", len(text)) + text
    return front + bytes(-len(front) % 64) + body


def spoiled(name: str, spoil: Callable[[Header], object]) -> bytes:
    header, body = parts(name)
    spoil(header)
    return joined(header, body)


@pytest.mark.parametrize("name", NAMES)
def test_golden_keys(name: str) -> None:
    """Reading checks the hash, which stark-backend computed, so that every field was read right."""
    key = key_of(name)
    header, body = parts(name)
    assert [air.name for air in key.airs] == [air["name"] for air in header["airs"]]
    assert key_from_bytes(joined(header, body)).pre_hash.tolist() == header["pre_hash"]


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all numbers in a header that are not of arrays, and of those that the hash covers."""
    if isinstance(value, dict):
        if value.keys() == {"offset", "shape"}:
            return []
        return [found for key, each in value.items() for found in numbers(each, (*path, key))]
    if isinstance(value, list):
        return [found for i, each in enumerate(value) for found in numbers(each, (*path, i))]
    return [path] if type(value) in (int, bool) else []


@pytest.mark.parametrize("name", ["preprocessed", "interactions", "cached"])
def test_every_number_of_a_header_is_bound(name: str) -> None:
    header, body = parts(name)
    every = numbers(header)
    assert len(every) >= 40
    for path in every:
        changed = copy.deepcopy(header)
        at = changed
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = not at[path[-1]] if isinstance(at[path[-1]], bool) else at[path[-1]] + 1
        with pytest.raises((FormatError, InvalidKey)):
            key_from_bytes(joined(changed, body))


def test_every_node_is_bound() -> None:
    """Each word of the graph's nodes, changed once, is refused: as no node, or by the hash."""
    header, body = parts("fibonacci")
    nodes = header["airs"][0]["nodes"]
    for at in range(nodes["offset"], nodes["offset"] + 16 * nodes["shape"][0], 4):
        word = struct.unpack_from("<I", body, at)[0]
        changed = body[:at] + struct.pack("<I", word + 1) + body[at + 4 :]
        with pytest.raises((FormatError, InvalidKey)):
            key_from_bytes(joined(header, changed))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("fibonacci", lambda h: h.update(version=2)),
        ("fibonacci", lambda h: h.update(version=True)),
        ("fibonacci", lambda h: h.update(format="openvm-traces")),
        ("fibonacci", lambda h: h.update(more=1)),
        ("fibonacci", lambda h: h.pop("airs")),
        ("fibonacci", lambda h: h["params"].pop("whir")),
        ("fibonacci", lambda h: h["params"].update(l_skip="2")),
        ("fibonacci", lambda h: h["params"].update(l_skip=-1)),
        ("fibonacci", lambda h: h["params"]["whir"].update(rounds=[])),
        ("fibonacci", lambda h: h["params"]["whir"]["rounds"][0].update(num_queries=0)),
        ("fibonacci", lambda h: h["params"]["whir"].update(proximity="Conjectured")),
        ("fibonacci", lambda h: h["airs"][0]["width"].update(preprocessed=1)),
        ("fibonacci", lambda h: h["airs"][0]["width"].update(common_main=0)),
        ("fibonacci", lambda h: h["airs"][0].update(need_rot=False)),
        ("fibonacci", lambda h: h["airs"][0].update(max_constraint_degree=0)),
        ("fibonacci", lambda h: h["airs"][0]["constraints"].reverse()),
        ("fibonacci", lambda h: h["airs"][0]["constraints"].append(10**6)),
        ("fibonacci", lambda h: h["airs"][0]["nodes"].update(offset=4)),
        ("fibonacci", lambda h: h["airs"][0]["nodes"].update(offset=-64)),
        ("fibonacci", lambda h: h["airs"][0]["nodes"]["shape"].append(1)),
        ("fibonacci", lambda h: h["airs"].append(copy.deepcopy(h["airs"][0]))),
        ("fibonacci", lambda h: h["airs"][0].update(name="\ud800")),
        ("interactions", lambda h: h["airs"][0]["interactions"][0].update(message=[])),
        ("interactions", lambda h: h["airs"][0]["interactions"][0].update(bus=1 << 16)),
        ("preprocessed", lambda h: h["airs"][0].update(preprocessed=None)),
        ("preprocessed", lambda h: h["airs"][0]["preprocessed"].update(hypercube_dim=60)),
    ],
)
def test_refuses_headers_that_are_none(name: str, spoil: Callable[[Header], object]) -> None:
    with pytest.raises(FormatError):
        key_from_bytes(spoiled(name, spoil))


def test_refuses_files_that_are_none(tmp_path: Any) -> None:
    data = key_path("preprocessed").read_bytes()
    for other in (
        b"",
        b"OVMKEY01",
        b"OVMTRC01" + data[8:],
        data[:-1],
        data + b"\0",
        data[:8] + b"\xff" * 8 + data[16:],
    ):
        with pytest.raises(FormatError):
            key_from_bytes(other)
    end = 16 + int(struct.unpack("<Q", data[8:16])[0])
    assert end % 64, "there are zeros behind this header"
    with pytest.raises(FormatError, match="zeros"):
        key_from_bytes(data[:end] + b"\1" + data[end + 1 :])
    with pytest.raises(InputError):
        read_key(tmp_path / "none")


def test_work_on_a_file_is_bounded_by_its_size() -> None:
    """An array is read once, however many AIRs name it. A chain of squares has a degree of bounded size."""
    header, body = parts("fibonacci")
    header["airs"] *= 3
    with pytest.raises(FormatError, match="arrays overlap"):
        key_from_bytes(joined(header, body))
    squares = np.zeros((20_000, 4), dtype=np.uint32)
    squares[0] = Kind.MAIN, 0, 0, 0
    squares[1:, 0], squares[1:, 1:3] = Kind.MUL, np.arange(len(squares) - 1)[:, None]
    degrees = Graph(squares, (len(squares) - 1,), ()).degrees()
    assert degrees[:17] == [1 << k for k in range(17)]
    assert {*degrees[17:]} == {MOST_DEGREE}
