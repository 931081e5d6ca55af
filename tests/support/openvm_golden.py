"""The golden keys and proofs, which stark-backend's own prover wrote (`tests/interop/openvm-judge`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.key_file import read_key
from distprove.stark.openvm.proof import OpenVmProof
from tests.support import ROOT

GOLDEN = ROOT / "tests" / "stark" / "openvm" / "golden"
NAMES = tuple(sorted(path.parent.name for path in GOLDEN.glob("*/proof.bin")))
assert NAMES, "no golden proof"


def key_path(name: str) -> Path:
    return GOLDEN / name / "key.bin"


def proof_bytes(name: str) -> bytes:
    return (GOLDEN / name / "proof.bin").read_bytes()


@cache
def key_of(name: str) -> OpenVmKey:
    return read_key(key_path(name))


@cache
def proof_of(name: str) -> OpenVmProof:
    return OpenVmProof.from_bytes(proof_bytes(name))
