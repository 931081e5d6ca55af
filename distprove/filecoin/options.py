"""The options of Filecoin's statements: the part of a job file that belongs to them alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from distprove.errors import UsageError
from distprove.filecoin.sectors import find_seal_proof
from distprove.filecoin.values import hex_octets, prover_id_of
from distprove.options import InputFile, Options, setting


@dataclass(frozen=True)
class FilecoinOptions(Options):
    """A Groth16 key of one of Filecoin's circuits, `zkey` or `params` with its `r1cs`, and a file of vanilla proofs."""

    zkey: Path | None = setting("the proving key", flag="--zkey")
    params: Path | None = setting("a proving key of bellperson's (.params) in place of a zkey", flag="--params")
    r1cs: Path | None = setting("the circuit that `params` is for", flag="--r1cs")
    vk: Path | None = setting("a verification_key.json, or a .vk, that the key must agree with", flag="--vk")
    c1: Path | None = setting("a proof of replication: the output of the first commit phase (C1), JSON", flag="--c1")
    proof_type: str | None = setting(
        "the registered type of the proof, such as StackedDrg32GiBV1_1, if the file does not name it",
        flag="--proof-type",
    )
    prover_id: str | None = setting(
        "who proves: the miner's address, f01000, or 64 hexadecimal digits; with `sector` the replica id is derived",
        flag="--prover-id",
    )
    sector: int | None = setting(
        "the sector's number, if the file does not have it", bounds=(0, (1 << 64) - 1), flag="--sector"
    )
    porep_id: str | None = setting(
        "64 hexadecimal digits of the porep id, by default that of the proof type", flag="--porep-id"
    )

    @property
    def vanilla(self) -> Path | None:
        """The file of vanilla proofs."""
        return self.c1

    @property
    def sources(self) -> tuple[InputFile, ...]:
        return () if self.vanilla is None else (InputFile(self.vanilla.name, self.vanilla),)

    def check(self) -> None:
        """Raise InputError for a file that does not exist, UsageError for what does not go together."""
        if (self.zkey is None) == (self.params is None):
            raise UsageError("give either `zkey` or `params`")
        if self.params is not None and self.r1cs is None:
            raise UsageError("`params` and `r1cs` (the circuit that they are for) go together")
        if self.c1 is None:
            raise UsageError("no `c1`: the sector's vanilla proofs")
        if self.proof_type is not None:
            find_seal_proof(self.proof_type)
        if self.prover_id is not None:
            prover_id_of(self.prover_id)
        if self.porep_id is not None:
            self.porep_octets()
        super().check()

    def porep_octets(self) -> bytes | None:
        """The porep id; None for that of the proof type. Raises UsageError."""
        return None if self.porep_id is None else hex_octets(self.porep_id, "porep_id")
