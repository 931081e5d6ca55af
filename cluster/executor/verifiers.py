"""Processes beside the driver that verify proofs, for proof systems whose verifier holds the interpreter's lock.

The driver drives meanwhile, and several proofs are verified at once. They run on the driver's machine, whatever
machines the provers are on: what they say is as good as what the driver would.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from actors.grants import Ungoverned
from actors.process import VerifierSpec
from actors.processes import HostProcess, WorkerDied
from distprove.host.machine import usable_threads
from distprove.system import PartitionProof, ProofSystem


class Verifiers:
    """So many processes. They load while the provers do; until one has, proofs wait. `close` ends them."""

    def __init__(self, system: ProofSystem, count: int) -> None:
        self.count = count
        self._closed = False
        self._system = system
        self._processes = [
            HostProcess(f"verifier-{index}", VerifierSpec(system), Ungoverned()) for index in range(count)
        ]
        self._free: SimpleQueue[HostProcess] = SimpleQueue()
        for process in self._processes:
            threading.Thread(target=self._load, args=(process,), name="distprove-verifiers", daemon=True).start()

    def verify(self, proof: PartitionProof) -> bool:
        """`system.verify(proof)`, in a process that is free; here where that ended."""
        process = self._free.get()
        try:
            return bool(process.call("verify", proof))
        except WorkerDied:
            if self._closed:
                raise
            return self._system.verify(proof)
        finally:
            self._free.put(process)

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        """Whether all hold: one by one, for these systems gain nothing by verifying several together."""
        return all(self.verify(proof) for proof in proofs)

    def close(self) -> None:
        """End the processes, and what they are at with them."""
        self._closed = True
        for process in self._processes:
            process.end()

    def _load(self, process: HostProcess) -> None:
        try:
            process.start()
            process.call("load")
        except Exception:  # whatever it is: proofs are verified here, as when it died
            process.end()
        finally:
            self._free.put(process)


def verifiers_for(system: ProofSystem, provers: int) -> Verifiers | None:
    """For a job with so many provers, or None for a system whose verifier lets go of the lock: threads will do."""
    if not system.verifies_in_python:
        return None
    return Verifiers(system, max(1, min(2 * provers, usable_threads() // 4)))
