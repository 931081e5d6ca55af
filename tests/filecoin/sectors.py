"""Sectors that Filecoin's own software sealed."""

from __future__ import annotations

import copy
import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from distprove.filecoin.c1 import CommitOutput, parse_c1
from distprove.filecoin.porep import Sealed, SealStatement
from tests.support import ROOT

VECTORS = Path(__file__).parent / "vectors"
SHARED = Path(os.environ.get("DISTPROVE_SHARED_DATA", ROOT.parent / "shared" / "data")).parent / "found" / "filecoin"
SEALED = ("StackedDrg2KiBV1", "StackedDrg2KiBV1_1", "StackedDrg2KiBV1_1_Feat_SyntheticPoRep")
"""Types of the proofs of the sectors whose C1 outputs are here."""


@cache
def c1_text(kind: str) -> bytes:
    """The C1 output of a sector, in the layout of filecoin-proofs-api."""
    return gzip.decompress((VECTORS / f"c1-{kind}.json.gz").read_bytes())


def c1_value(kind: str) -> dict[str, Any]:
    """The same, decoded; it may be changed."""
    found: dict[str, Any] = json.loads(c1_text(kind))
    return found


def facts_of(kind: str) -> dict[str, Any]:
    """The public facts of the sector."""
    found: dict[str, Any] = json.loads((VECTORS / f"facts-{kind}.json").read_text())
    return found


def statement_of(output: CommitOutput, facts: dict[str, Any] | None = None) -> SealStatement:
    """What a sector's proof is to state; with facts on whose it is, its replica id is derived."""
    sealed = facts and Sealed(bytes.fromhex(facts["prover_id"]), facts["sector"], output.ticket)
    return SealStatement(
        output.proof,
        output.proof.porep_id,
        output.comm_d,
        output.comm_r,
        output.replica_id,
        output.seed,
        sealed or None,
    )


def parsed(value: dict[str, Any], proof_type: str | None = None) -> CommitOutput:
    return parse_c1(json.dumps(value).encode(), "c1.json", proof_type)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of all numbers and texts in a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if entries is None:
        yield path
        return
    for key, inner in entries:
        yield from leaves(inner, (*path, key))


def with_change(value: Any, path: tuple[str | int, ...], change: Any) -> Any:
    """A copy of a value with `change(old)` at one place."""
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    return made


def judged(name: str) -> tuple[Any, dict[str, Any]]:
    """Vanilla proofs of a PoSt or of an update, by the setting that takes them, and their facts."""
    name = name.removesuffix("_post")
    value = json.loads(gzip.decompress((VECTORS / f"{name}.json.gz").read_bytes()))
    return value, json.loads((VECTORS / f"{name}-facts.json").read_text())


def raw_vanilla(name: str) -> bytes:
    """The same vanilla proofs as Filecoin's API has them: a JSON list of texts, bincode in base64."""
    return gzip.decompress((VECTORS / f"{name.removesuffix('_post')}-raw.json.gz").read_bytes())


def written(path: Path, value: Any) -> Path:
    """Write a value as a JSON file."""
    path.write_text(json.dumps(value))
    return path
