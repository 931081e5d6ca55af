"""Vanilla proofs in bincode are read as the same proofs in JSON are; both were written by filecoin-proofs-api."""

from __future__ import annotations

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import FormatError, InputError
from distprove.filecoin.bincode import partition_proof, sector_proof
from distprove.filecoin.kinds import Given, read_given
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.values import json_value
from tests.filecoin.sectors import VECTORS

KINDS = {"winning": "winning_post", "window": "window_post", "update": "update"}


def load() -> dict[str, Any]:
    """What the judge wrote of each kind: the proofs as JSON, the same in bincode, and the facts."""
    found: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "bincode.json.gz").read_bytes()))
    return found


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return load()


def given(folder: Path, kind: str, proofs: Any, facts: dict[str, Any]) -> Given:
    path = folder / "vanilla.json"
    path.write_text(json.dumps(proofs))
    randomness = {"randomness": facts["randomness"]} if "randomness" in facts else {}
    return read_given(FilecoinOptions(zkey=path, **{KINDS[kind]: path}, **randomness))


@pytest.mark.parametrize("kind", KINDS)
def test_bincode_says_what_json_says(kind: str, written: dict[str, Any], tmp_path: Path) -> None:
    own = written[kind]
    plain, encoded = (given(tmp_path, kind, own[form], own["facts"]) for form in ("json", "bincode"))
    assert plain.statement == encoded.statement
    assert [plain.inputs(k) for k in range(plain.statement.partitions)] == [
        encoded.inputs(k) for k in range(plain.statement.partitions)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_bincode_is_refused(kind: str, written: dict[str, Any], tmp_path: Path) -> None:
    own = written[kind]
    data = base64.b64decode(own["bincode"][0])
    read = partition_proof if kind == "update" else sector_proof
    for spoiled in (data[:-1], data + b"\0", b"", data[:40], b"\xff" * len(data)):
        with pytest.raises(FormatError):
            read(spoiled)
    chosen = random.Random(kind)
    for at in chosen.sample(range(len(data)), 40):
        changed = data[:at] + bytes([data[at] ^ 1 << chosen.randrange(8)]) + data[at + 1 :]
        listed = [base64.b64encode(changed).decode(), *own["bincode"][1:]]
        if kind != "update" and at < 8:
            continue  # the sector's number: the challenges are other ones then, and refused likewise
        with pytest.raises(InputError, match=r"vanilla\.json: "):
            given(tmp_path, kind, listed, own["facts"])


def test_what_is_no_base64_is_named(written: dict[str, Any], tmp_path: Path) -> None:
    own = written["window"]
    with pytest.raises(FormatError, match=r"vanilla proof 1: not base64"):
        given(tmp_path, "window", [own["bincode"][0], "%%"], own["facts"])


def test_texts_may_hold_what_looks_like_a_truth() -> None:
    """As base64 of some megabytes does."""
    assert json_value(b'["xtruex", "false", "\\"true"]') == ["xtruex", "false", '"true']
    for text in (b"[true]", b'["true", false]', b'["a\\\\", true]', b'{"a": {"b": [1, {"c": true}]}}', b"true"):
        with pytest.raises(FormatError, match="true or false"):
            json_value(text)


@pytest.mark.parametrize("ended", [b"", b'"', b'\\"]'])
def test_a_text_without_an_end_is_not_json(ended: bytes) -> None:
    """Escaped quotes, each of which may begin a text, must not be looked at again and again."""
    text = b'["true' + b'\\"' * 500_000 + ended
    with pytest.raises(FormatError, match="not JSON, at byte"):
        json_value(text)
