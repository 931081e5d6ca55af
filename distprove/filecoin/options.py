"""The options of Filecoin's statements: the part of a job file that belongs to them alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from distprove.errors import UsageError
from distprove.filecoin.sectors import POST_PROOFS, SEAL_PROOFS, UPDATE_PROOFS, find_proof
from distprove.filecoin.values import hex_octets, prover_id_of
from distprove.options import InputFile, Options, setting

VANILLA = ("c1", "winning_post", "window_post", "update")
"""The settings that name a file of vanilla proofs."""
COMMITMENTS = ("comm_r_old", "comm_r_new", "comm_d_new")
"""The settings that say what an update is to state."""


@dataclass(frozen=True)
class FilecoinOptions(Options):
    """A Groth16 key of one of Filecoin's circuits, `zkey` or `params`, and a file of vanilla proofs."""

    zkey: Path | None = setting("the proving key", flag="--zkey")
    params: Path | None = setting("a proving key of bellperson's (.params) in place of a zkey", flag="--params")
    vk: Path | None = setting("a verification_key.json, or a .vk, that the key must agree with", flag="--vk")
    c1: Path | None = setting("a proof of replication: the output of the first commit phase (C1), JSON", flag="--c1")
    winning_post: Path | None = setting(
        "a WinningPoSt: the vanilla proof of one sector, JSON; needs `randomness`", flag="--winning-post"
    )
    window_post: Path | None = setting(
        "a WindowPoSt: the vanilla proofs of sectors, JSON; needs `randomness`", flag="--window-post"
    )
    update: Path | None = setting("SnapDeals: the vanilla proofs of an update's partitions, JSON", flag="--update")
    proof_type: str | None = setting(
        "the registered type of the proof, such as StackedDrg32GiBV1_1, if the file does not name it",
        flag="--proof-type",
    )
    prover_id: str | None = setting(
        "of a PoRep: the miner's address, f01000, or 64 hexadecimal digits; with `sector` the replica id is derived",
        flag="--prover-id",
    )
    sector: int | None = setting(
        "of a PoRep: the sector's number, if the file does not have it", bounds=(0, (1 << 64) - 1), flag="--sector"
    )
    porep_id: str | None = setting(
        "of a PoRep: 64 hexadecimal digits, by default those of the proof type", flag="--porep-id"
    )
    randomness: str | None = setting("of a PoSt: 64 hexadecimal digits", flag="--randomness")
    comm_r_old: str | None = setting(
        "of an update: 64 hexadecimal digits of the replica before, if another one is to be refused",
        flag="--comm-r-old",
    )
    comm_r_new: str | None = setting("of an update: likewise of the new replica", flag="--comm-r-new")
    comm_d_new: str | None = setting("of an update: likewise of the new data", flag="--comm-d-new")

    aggregate: Path | None = setting(
        "of a PoRep: aggregation keys (.srs); at the end the partitions' proofs are also aggregated, into the run's "
        "aggregate.bin",
        flag="--aggregate",
    )

    @property
    def vanilla(self) -> tuple[str, Path]:
        """The setting of the vanilla proofs, and their file. Raises UsageError unless there is one."""
        files = {name: getattr(self, name) for name in VANILLA}
        given = [(name, path) for name, path in files.items() if path is not None]
        if len(given) != 1:
            raise UsageError("give one of `c1`, `winning_post`, `window_post` and `update`: a file of vanilla proofs")
        return given[0]

    @property
    def sources(self) -> tuple[InputFile, ...]:
        name, path = self.vanilla
        return (InputFile(name, path),)

    def check(self) -> None:
        """Raise InputError for a file that does not exist, UsageError for what does not go together."""
        if (self.zkey is None) == (self.params is None):
            raise UsageError("give either `zkey` or `params`")
        name, _ = self.vanilla
        post = name.endswith("post")
        if post != (self.randomness is not None):
            raise UsageError("`randomness` and `winning_post` or `window_post` go together")
        of_porep = ("prover_id", "sector", "porep_id", "aggregate")
        if name != "c1" and (other := [each for each in of_porep if getattr(self, each) is not None]):
            raise UsageError(f"`{other[0]}` is for `c1`")
        if name != "update" and any(getattr(self, each) is not None for each in COMMITMENTS):
            raise UsageError(f"`{'`, `'.join(COMMITMENTS)}` are for `update`")
        if self.proof_type is not None:
            known: Mapping[str, object] = SEAL_PROOFS if name == "c1" else POST_PROOFS if post else UPDATE_PROOFS
            find_proof(self.proof_type, known)
        if self.prover_id is not None:
            prover_id_of(self.prover_id)
        for each in ("porep_id", "randomness", *COMMITMENTS):
            if (text := getattr(self, each)) is not None:
                hex_octets(text, each)
        super().check()
