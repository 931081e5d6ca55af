"""A job that ends in one proof, at whose nodes things go wrong once; a module of its own, so that workers can import
it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from distprove.stark.recursion.system import OneProofProver, OneProofSystem
from distprove.system import Partition, PartitionProof, StepTimes, Witness

DIES, FORGES, STRAYS, FAILS = "dies", "forges", "strays", "fails"
"""The process ends; an opening of the proof is changed; the proof states another digest; the prover raises, always."""
OVERFLOWS, MISNAMES, POSES = "overflows", "misnames", "poses"
"""A public value has 71 bits; a leaf says that it is a node; the proof of a partition has the form of a node's."""


class FaultySystem(OneProofSystem):
    """`faults` says what happens at the first proof of a node; `folder` remembers, and counts all proofs."""

    faults: Mapping[str, str] = {}
    folder = Path()

    @classmethod
    def of(cls, system: OneProofSystem, folder: Path, **faults: str) -> FaultySystem:
        """A system like this one, with faults by the names of nodes, whose hyphens are underscores."""
        made = cls(system.program, system.params, system.partitions)
        made.folder = folder
        made.faults = {name.replace("_", "-"): fault for name, fault in faults.items()}
        return made

    def prover(self, shared: Any, backend: Any) -> FaultyProver:
        return FaultyProver(self, backend)

    def proven(self) -> list[str]:
        """Names of what was proven so far, in order."""
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []


class FaultyProver(OneProofProver):
    def __init__(self, system: FaultySystem, backend: Any) -> None:
        super().__init__(system, backend)
        self._system = system

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        with (self._system.folder / "log").open("a") as log:
            log.write(f"{partition.name}\n")
        fault, marker = self._system.faults.get(partition.name), self._system.folder / partition.name
        if marker.exists() and fault != FAILS:
            fault = None
        marker.touch()
        if fault == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == FAILS:
            raise RuntimeError("the device is lost")
        proof, times = super().prove_partition(partition, witness, challenge)
        if fault == FORGES:
            record = proof.data["proof"]
            openings = bytes([record["openings"][0] ^ 1]) + record["openings"][1:]
            proof = replace(proof, data={**proof.data, "proof": {**record, "openings": openings}})
        if fault == STRAYS:
            proof = replace(proof, public=(*proof.public[:-1], proof.public[-1] ^ 1))
        if fault == OVERFLOWS:
            proof = replace(proof, public=(*proof.public[:-1], 1 << 70))
        if fault == MISNAMES:
            proof = replace(proof, data={**proof.data, "kind": [proof.data["kind"][0], "node"]})
        if fault == POSES:
            proof = replace(proof, data={"key": [bytes(32)] * 2, "kind": [], "proof": proof.data})
        return proof, times
