"""The encoding of proofs: both ways byte for byte, and whatever is no encoding is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from distprove.errors import FormatError
from distprove.stark.openvm.proof import OpenVmProof
from kernels.maths.babybear import P
from tests.support.openvm_golden import NAMES, proof_bytes, proof_of


@pytest.mark.parametrize("name", NAMES)
def test_golden_proofs_both_ways(name: str) -> None:
    assert proof_of(name).to_bytes() == proof_bytes(name)


@pytest.mark.parametrize("name", ["mixed", "fibonacci"])
def test_an_encoding_ends_where_it_ends(name: str) -> None:
    data = proof_bytes(name)
    with pytest.raises(FormatError, match="1 byte after its end"):
        OpenVmProof.from_bytes(data + b"\0")
    for cut in (*range(0, 200), *range(200, len(data), 97), len(data) - 1):
        with pytest.raises(FormatError):
            OpenVmProof.from_bytes(data[:cut])


@pytest.mark.parametrize("name", ["mixed", "cached"])
def test_every_word_decodes_to_itself_or_is_refused(name: str) -> None:
    """Each word set to p, which no element may be, and to a small number, which may be a length."""
    data, changed = proof_bytes(name), 0
    for at in range(0, len(data) - 4, 61):
        for word in (P, 3, 0xFFFFFFFF):
            spoiled = data[:at] + struct.pack("<I", word) + data[at + 4 :]
            try:
                decoded = OpenVmProof.from_bytes(spoiled)
            except FormatError:
                continue
            assert decoded.to_bytes() == spoiled
            changed += 1
    assert changed


def test_refuses_versions_bits_of_no_air_and_elements_that_are_not_canonical() -> None:
    data = proof_bytes("fibonacci")
    with pytest.raises(FormatError, match="version 2"):
        OpenVmProof.from_bytes(struct.pack("<I", 2) + data[4:])
    assert data[36:41] == struct.pack("<IB", 1, 1), "one AIR, which is present"
    with pytest.raises(FormatError, match="beyond the last"):
        OpenVmProof.from_bytes(data[:40] + b"\3" + data[41:])
    with pytest.raises(FormatError, match="not below"):
        OpenVmProof.from_bytes(data[:4] + struct.pack("<I", P) + data[8:])


def test_lists_without_content_are_bounded() -> None:
    """Lengths of many bytes' worth of nothing are refused before anything is made of them."""
    front = struct.pack("<I", 3) + bytes(32)
    for lengths in [(0xFFFFFFFF,), (0, 0xFFFFFFFF), (1 << 20,)]:
        with pytest.raises(FormatError):
            OpenVmProof.from_bytes(front + struct.pack(f"<{len(lengths)}I", *lengths))


def test_writes_no_proof_without_an_encoding() -> None:
    proof = proof_of("interactions")
    whir, buses = proof.whir, proof.buses
    for spoiled in (
        replace(proof, main_root=proof.main_root[:7]),
        replace(proof, main_root=np.full(8, P, dtype=np.uint32)),
        replace(proof, buses=replace(buses, rounds=buses.rounds[:-1])),
        replace(proof, whir=replace(whir, mu_pow_witness=P)),
        replace(proof, whir=replace(whir, rounds=whir.rounds[:-1])),
        replace(proof, whir=replace(whir, words=whir.words[:-1])),
        replace(proof, whir=replace(whir, rows=(), row_paths=())),
        replace(proof, constraints=replace(proof.constraints, openings=proof.constraints.openings[:-1])),
    ):
        with pytest.raises(ValueError, match=r"another number|shape|canonical|sumcheck rounds"):
            spoiled.to_bytes()
