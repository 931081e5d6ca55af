"""The way into the toy system: what a proof system needs to be proven with from job files and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from distprove.entry import Entry, Exported
from distprove.options import InputFile, Options, setting
from distprove.system import PartitionProof
from tests.support.toy_system import Faults, ToySystem

KEY = "toy.key"


@dataclass(frozen=True)
class ToyOptions(Options):
    folder: str = setting("where faults are counted", MISSING, flag="--folder")
    whole: bool = setting("whether proofs are verified as one job, which no short job is", False)
    count: int = setting("partitions", 1, bounds=(1, 100), flag="--count")
    bad_input: str = setting("a partition whose input is at fault", "")
    input: Path | None = setting("a file that is looked for as Groth16's inputs are", None)

    @classmethod
    def with_files(cls, table: Mapping[str, Any], named: Callable[[str], str]) -> dict[str, Any]:
        folder = table.get("folder")
        moved = {"folder": named(folder)} if isinstance(folder, str) else {}
        return {**super().with_files(table, named), **moved}

    @property
    def sources(self) -> tuple[InputFile, ...]:
        return () if self.input is None else (InputFile("p0", self.input),)

    def keyed(self) -> ToyOptions:
        return replace(self, input=None)


def verifier(own_key: dict[str, Any], vk: Path | None) -> ToySystem:
    return ToySystem(0, Faults(Path()), key=own_key["key"] if vk is None else vk.read_bytes())


def export(proof: Any, run: Path, folder: Path) -> Exported:
    folder.mkdir()
    (folder / KEY).write_bytes(proof.verification_key["key"])
    return Exported([p.name for p in proof.partitions], ("toy-verify", str(folder / KEY)), True, True)


class WholeSystem(ToySystem):
    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Accept: the proofs need nothing of each other."""


class ToyMaker:
    @staticmethod
    def from_options(options: ToyOptions) -> ToySystem:
        faults = Faults(Path(options.folder), bad_input=(options.bad_input,))
        kind = WholeSystem if options.whole else ToySystem
        return kind(options.count, faults, sources=options.sources)


ENTRY = Entry(
    title="Toy",
    help="Prove squares.",
    options=ToyOptions,
    system="tests.support.toy_entry:ToyMaker",
    verifier=verifier,
    remakes_key=False,
    export=export,
)
