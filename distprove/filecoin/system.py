"""Filecoin's statements as a proof system for the driver: a sector's partitions under one Groth16 key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from distprove.errors import UsageError
from distprove.filecoin.kinds import Given, read_given
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.verifier import SNARK, Stated, snark
from distprove.groth16.inputs import Inputs
from distprove.groth16.system import Groth16Synthesiser, Groth16System, SharedFiles
from distprove.options import InputFile
from distprove.proof import Proof
from distprove.system import DeviceTask, Partition, PartitionProof
from kernels.maths.curves import BLS12_381
from kernels.maths.encoding import pack, unpack


class FilecoinKey(Groth16System):
    """A key of one of Filecoin's circuits, without a statement: what workers need of a system."""

    name = "filecoin"

    @classmethod
    def of_key(cls, files: Mapping[str, Path], circuit: str | None) -> Groth16System:
        if circuit is None or files.keys() - {"zkey", "params"}:
            raise UsageError("a key of Filecoin's is `zkey` or `params`, and its `circuit`")
        return super().of_key(files, circuit)

    def synthesiser(self, shared: SharedFiles, threads: int) -> FilecoinSynthesiser:
        return FilecoinSynthesiser(shared, self.circuit, threads)


class FilecoinSystem(Stated, FilecoinKey):
    """Implements `distprove.system.ProofSystem`, and `Publishes` of `distprove.proof`."""

    def __init__(self, key: Mapping[str, Path], given: Given) -> None:
        """Open the key. Raises as `Groth16System` does."""
        self.statement = given.statement
        self._given: Given | None = given
        names = [f"partition-{k}" for k in range(self.statement.partitions)]
        super().__init__(key, [InputFile(name, Path(), b"") for name in names], circuit=self.statement.circuit)

    @classmethod
    def from_options(cls, options: FilecoinOptions) -> FilecoinSystem:  # type: ignore[override]
        """Make the system of a job. The vanilla proofs are read and checked. Raises InputError, UsageError; InvalidKey
        when the job's `vk` is not the key inside its proving key."""
        named = {"zkey": options.zkey, "params": options.params}
        system = cls({name: path for name, path in named.items() if path is not None}, read_given(options))
        if options.aggregate is not None:
            system.aggregate_with(options.aggregate)
        system.require_key(options.vk)
        return system

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_given": None}

    def with_inputs(self, sources: Sequence[InputFile]) -> FilecoinSystem:
        """This system: it is made for one sector, and never for others."""
        return self

    @cached_property
    def _places(self) -> list[dict[str, Any]]:
        """The inputs of each partition, packed: a large one has 50 MB of them, most have less than one."""
        given, limbs = self._given, BLS12_381.fr.limbs
        assert given is not None
        self._given = None  # the vanilla proofs are not needed any more
        made = []
        for number in range(self.statement.partitions):
            signals = given.inputs(number)
            made.append({"signals": {name: pack(values, limbs) for name, values in signals.items()}})
        return made

    def verification_key(self) -> dict[str, Any]:
        """The Groth16 key, and the statement from which a verifier derives the public inputs."""
        return {"key": self.key.to_dict(), "kind": self.statement.kind, "statement": self.statement.record()}

    def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
        """The aggregate of the sector's partitions as Filecoin's network takes it, otherwise as of Groth16."""
        if (keys := self._aggregation_keys()) is None:
            return None
        from distprove.filecoin.aggregate import AGGREGATE, aggregate_sectors, sectors_of
        from distprove.host.machine import usable_threads

        key, sectors, proofs = sectors_of([proof])
        return AGGREGATE, aggregate_sectors(key, sectors, proofs, keys, run, threads=usable_threads())

    def published(self, proofs: Sequence[PartitionProof]) -> dict[str, bytes]:
        return {SNARK: snark(proofs)}


class FilecoinSynthesiser(Groth16Synthesiser):
    """Turns a partition's packed inputs into a witness."""

    def given(self, partition: Partition) -> Inputs:
        return {name: unpack(values) for name, values in partition.source["signals"].items()}
