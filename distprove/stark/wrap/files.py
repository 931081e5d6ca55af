"""The files of a wrapped run, in the forms of snarkjs and of contracts: all that others need beside the list of
partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import (
    format_proof,
    format_public,
    format_verification_key,
    read_proof,
    read_public,
    read_verification_key,
)
from distprove.groth16.solidity import calldata
from distprove.proof import TakenWrap
from kernels.maths.curves import BN254

PROOF, PUBLIC, CALLDATA, KEY = "proof.json", "public.json", "calldata.hex", "verification_key.json"


@dataclass(frozen=True)
class Wrap:
    """A Groth16 proof over BN254 that a job's one proof holds, with what it states and its verification key."""

    key: VerificationKey
    proof: Groth16Proof
    public: tuple[int, ...]

    @classmethod
    def read(cls, run: Path, key: Path) -> Wrap:
        """Read the wrap of a run's folder, or that beside a proof's file, under a key that is trusted. Raises
        InputError, FormatError, CurveMismatch."""
        folder = run if run.is_dir() else run.parent
        return cls(read_verification_key(key), read_proof(folder / PROOF, BN254), read_public(folder / PUBLIC, BN254))

    def taken(self) -> TakenWrap:
        """What a verifier prints of the wrap, which has been verified."""
        (public,) = self.public
        known = "its soundness is not proven in bits, some 100 by what is known of BN254"
        return TakenWrap(self.key.digest(), public, "Groth16 over BN254", known)

    def contents(self) -> Mapping[str, bytes]:
        """The content of each file, by its name."""
        return {
            PROOF: format_proof(self.proof).encode(),
            PUBLIC: format_public(self.public).encode(),
            CALLDATA: f"0x{calldata(self.proof, self.public).hex()}\n".encode(),
            KEY: format_verification_key(self.key).encode(),
        }
