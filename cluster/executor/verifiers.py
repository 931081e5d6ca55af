"""Processes that verify proofs, for proof systems whose verifier holds the interpreter's lock: the driver drives
meanwhile, and several proofs are verified at once.

They are beside the driver, or, where a cluster has several nodes, spread over these. A device must not check itself: a
process verifies nothing that was proven on its own node, unless the driver started it beside itself. What it says of a
proof counts for the proof with the fingerprint that it says. One that dies or hangs is replaced, and what it was asked
is asked of another one, at last of the driver's own process. A late answer of one that was given up is not read.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from actors import patience
from actors.grants import Ungoverned
from actors.messages import VerifierSpec
from actors.processes import HostProcess
from actors.protocol import Transport, WorkerDied
from actors.server import VerifierServer
from cluster.executor.placement import Node
from distprove.host.beside import at_once, in_background
from distprove.host.machine import usable_threads
from distprove.proof import fingerprint
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof, ProofSystem, VerifiesHere

Value = TypeVar("Value")

TRIES = 2
"""Processes that are asked about a proof before it is verified in the driver's."""
FOR_EACH = 4
"""Verifiers for each prover, at most. A multilinear proof of a RISC-V segment took 0.067 s to make on an H200 and 0.177
s to verify, so two for each prover could not keep up."""
LIVES = 3
"""Times in a row that a process is started without a verdict before it is given up."""


@dataclass(eq=False)
class Verifier:
    """A process that verifies: where it is, or None for one beside the driver, and how it is reached."""

    node: str | None
    transport: Transport
    lives: int = 0
    """Number of starts since its last verdict."""
    begun: bool = False
    """Whether it was started ever: it may hang, and is ended before it is started again."""
    silent: Callable[[], bool] = lambda: False
    """Whether its node does not answer: nobody waits for it."""


class Verifiers:
    """Verifying processes. They load while the provers do; until one has, proofs wait. `close` ends them."""

    def __init__(self, system: ProofSystem, verifiers: Sequence[Verifier], settings: ExecutorSettings) -> None:
        self.count = len(verifiers)
        self._system = system
        self._settings = settings
        self._all = tuple(verifiers)
        self._kept = set(verifiers)
        """Verifiers that were not given up."""
        self._free: list[Verifier] = []
        self._changed = threading.Condition()
        self._closed = False
        self._homes: dict[int, str | None] = {}
        """The node on which each proof that is to be verified was made, by its identity: names are a job's own."""
        self._longest: float | None = None
        """Seconds that a verdict took, at most."""
        self._factor = float(patience.HANG_FACTOR)
        for each in verifiers:
            self._replace(each)

    def made_on(self, node: str | None, proofs: Sequence[PartitionProof]) -> None:
        """These proofs come from that node; None: it is not known, and they are verified beside the driver."""
        self._homes.update((id(proof), node) for proof in proofs)

    def done_with(self, proofs: Sequence[PartitionProof]) -> None:
        """These proofs are verified."""
        for proof in proofs:
            self._homes.pop(id(proof), None)

    def verify(self, proof: PartitionProof) -> bool:
        """`system.verify(proof)`, in a process that may and is free, or here where the system asks for it."""
        if isinstance(self._system, VerifiesHere) and self._system.verifies_here(proof):
            return self._system.verify(proof)
        for _ in range(TRIES):
            verifier = self._take(self._homes.get(id(proof)))
            if verifier is None:
                break
            started = time.monotonic()
            try:
                ask = partial(verifier.transport.call, VerifierServer.verify, proof)
                holds, of = within(self._limit(), ask)
                if of != fingerprint(proof):
                    raise WorkerDied("it answered for another proof")
            except (WorkerDied, Hangs) as error:
                if isinstance(error, Hangs):
                    self._factor *= patience.HANG_GRACE  # perhaps it does not
                self._replace(verifier)
            except BaseException:  # of the proof
                self._give_back(verifier, time.monotonic() - started)
                raise
            else:
                self._give_back(verifier, time.monotonic() - started)
                return holds
        if self._closed:
            raise WorkerDied("the verifiers were ended")
        return self._system.verify(proof)

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        """Whether all hold: one by one, for these systems gain nothing by verifying several together."""
        return all(self.verify(proof) for proof in proofs)

    def close(self) -> None:
        """End the processes, and what they are at with them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        at_once(lambda each: each.transport.end(), self._all, patience.FLEET_CLOSES, "distprove-end")

    def _take(self, home: str | None) -> Verifier | None:
        """A free process that may verify what was proven on that node; None when none is left."""

        def may(verifier: Verifier) -> bool:
            return verifier.node is None or (home is not None and verifier.node != home and not verifier.silent())

        with self._changed:
            while not self._closed and any(map(may, self._kept)):
                for each in filter(may, self._free):
                    self._free.remove(each)
                    return each
                self._changed.wait(patience.VERIFIERS_LOOK)
        return None

    def _give_back(self, verifier: Verifier, seconds: float) -> None:
        with self._changed:
            verifier.lives = 0
            self._longest = max(self._longest or 0.0, seconds)
            self._free.append(verifier)
            self._changed.notify_all()

    def _limit(self) -> float:
        """Seconds after which a process counts as hung, as for workers (`cluster.scheduler.workers.Watch`)."""
        floor = self._settings.hang_timeout
        return patience.HANG_FACTOR * floor if self._longest is None else max(floor, self._factor * self._longest)

    def _replace(self, verifier: Verifier) -> None:
        """Start a process, again where it died or hangs."""
        threading.Thread(target=self._start, args=(verifier,), name="distprove-verifiers", daemon=True).start()

    def _start(self, verifier: Verifier) -> None:
        started = False
        while not started and not self._closed and verifier.lives < LIVES:
            with suppress(Exception):  # whatever it is: another one verifies
                if verifier.begun:
                    verifier.transport.kill()
                verifier.begun = True
                verifier.lives += 1
                within(self._settings.start_timeout, partial(_load, verifier.transport))
                started = True
        with self._changed:
            if started:
                self._free.append(verifier)
            else:
                self._kept.discard(verifier)
            self._changed.notify_all()


def _load(transport: Transport) -> None:
    transport.start()
    transport.call(VerifierServer.load)


class Hangs(Exception):
    """Raised when no answer comes in time."""


def within(limit: float, call: Callable[[], Value]) -> Value:
    """Call `call` on a thread of its own and return its result. Raises what it raises, or Hangs after `limit` seconds:
    what comes later is not read."""
    answer = in_background(call, "distprove-verifier-call")
    if not wait([answer], limit).done:
        raise Hangs
    return answer.result()


def beside_driver(system: ProofSystem, provers: int, settings: ExecutorSettings) -> Verifiers | None:
    """Make the verifiers of a job with so many provers; None for a system whose verifier releases the interpreter's
    lock, for which threads do."""
    if not system.verifies_in_python:
        return None
    specs = [VerifierSpec(f"verifier-{index}", system) for index in range(how_many(provers, usable_threads()))]
    processes = [HostProcess(spec.name, spec, Ungoverned()) for spec in specs]
    return Verifiers(system, [Verifier(None, process) for process in processes], settings)


def provers_for(node: Node, nodes: Sequence[Node], homes: Sequence[str | None]) -> int:
    """Number of provers for which a node verifies. `homes` are the nodes of all provers, by id. The proofs of one are
    shared out among all other nodes with CPUs."""
    able = [each.id for each in nodes if each.cpus]
    if node.id not in able:
        return 0
    others = (len(able) - (home in able) for home in homes if home != node.id)
    return math.ceil(round(sum(1 / count for count in others), 6))


def how_many(provers: int, threads: int) -> int:
    """Verifiers of a machine with so many threads, for so many provers; none for none."""
    return max(1, min(FOR_EACH * provers, threads // 4)) if provers else 0
