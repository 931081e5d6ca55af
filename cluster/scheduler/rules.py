"""The rules for partitions and workers, told once.

    blocked -> waiting -> handed -> synthesising -> ready -> [committing -> committed -> handed ->] proving
                  ^                                                            -> verifying -> keeping -> done
                  '------------------------ diagnosing <-------------------------'          | failed

`RULES` says what follows for a partition, for each thing that can happen to it. A rule that leads to `waiting` counts a
retry; a partition whose failures are charged more than `max_retries` times fails. One that needs others is `blocked`
until these are proven. It begins before they are verified, and is kept after all of them: what it does in between says
nothing of its worker.

A worker is given up, and its partitions go to others, by these rules. A failure is a bad proof whose witness holds, a
fault, or a death at a partition.

    it fails MAX_STRIKES times in a row    at partitions at which no other worker failed before
    MAX_STRIKES failures are its own       at partitions that another worker then proved; 20 good proofs make up for one
    it hangs MAX_HANGS times               whatever it did in between, where there is another worker
    others take MAX_STRIKES inputs         in a row, that its node refused
    MAX_DEATHS deaths in a row             of any jobs, with no good proof in between: given up for all jobs
    MAX_GIVEN_UP jobs in a row             gave it up, with no good proof in between: given up for all jobs

So a worker that fails at more than one partition in twenty is found however often it succeeds in between, and one that
meets partitions at which every worker fails is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MAX_STRIKES = 3
"""Failures of one worker in one job before the job gives it up: in a row, or known to be its own."""
MADE_UP = 1 / 20
"""Part of a failure that a good proof makes up for."""
MAX_HANGS = 2
"""Times that a worker hangs in one job before the job gives it up, where there is another one."""
MAX_GIVEN_UP = 3
"""Jobs in a row that give up a worker before it is given up for all. Before the last, its process is started anew."""
MAX_DEATHS = 6
"""Deaths in a row before a worker is given up for all: twice as many as a job takes, so that a job's own partition is
found first."""


class Stage(str, Enum):
    BLOCKED = "blocked"
    WAITING = "waiting"
    HANDED = "handed"
    SYNTHESISING = "synthesising"
    READY = "ready"
    COMMITTING = "committing"
    COMMITTED = "committed"
    PROVING = "proving"
    VERIFYING = "verifying"
    KEEPING = "keeping"
    DIAGNOSING = "diagnosing"
    DONE = "done"
    FAILED = "failed"


PREPARING = (Stage.HANDED, Stage.SYNTHESISING, Stage.READY, Stage.DIAGNOSING)
SAFE = (Stage.VERIFYING, Stage.KEEPING, Stage.DONE, Stage.FAILED)
"""Stages that need no worker."""
PROVEN = (Stage.VERIFYING, Stage.KEEPING, Stage.DONE)
"""Stages of a partition that has a proof. Partitions that need it may begin."""
OVER = (Stage.DONE, Stage.FAILED)


class Fact(str, Enum):
    """What can happen to a partition."""

    UNBLOCKED = "every partition that it needs is proven"
    WITHDRAWN = "a proof that it was made of is bad, or it failed before all of these were known to be good"
    HANDED = "a worker gets its order"
    RETURNED = "its worker returns the order, which it had not begun"
    COMMITTED = "its worker committed to it"
    PROVEN = "its worker proved it"
    HOLDS = "its proof verifies"
    KEPT = "its proof is on disk"
    SUSPECT = "its proof does not verify, and its worker can check the witness"
    BAD_PROOF = "its proof or commitment is bad, and the witness is not known to be to blame"
    FAULT = "its worker failed at it"
    DEVICE_FULL = "its worker's device has too little memory for it"
    REFUSED = "a node refuses its input, and another node can be asked"
    WITNESS_LOST = "its witness was lost"
    SYNTHESISER_DIED = "its synthesiser died at it"
    WORKER_DIED_AT = "its worker died at it"
    WORKER_GONE = "its worker died at something else, or was given up"
    GIVEN_UP = (
        "it is charged too often, two nodes refuse its input, no device is large enough, a partition that it needs "
        "failed, or no worker is left"
    )


@dataclass(frozen=True)
class Rule:
    """What follows for a partition."""

    to: Stage
    charge: bool = False
    """Whether the attempt counts against `max_retries`."""
    strike: bool = False
    """Whether the failure counts against its worker, which does not get the partition again while another may."""
    counter: str = ""
    """Counter of the report that it increases."""
    event: str = ""
    """Journal event that tells of it."""
    front: bool = False
    """Whether it goes before all others at that stage."""


RULES: dict[Fact, Rule] = {
    Fact.UNBLOCKED: Rule(Stage.WAITING, front=True),
    Fact.WITHDRAWN: Rule(Stage.WAITING, front=True),
    Fact.HANDED: Rule(Stage.HANDED),
    Fact.RETURNED: Rule(Stage.WAITING),
    Fact.COMMITTED: Rule(Stage.COMMITTED),
    Fact.PROVEN: Rule(Stage.VERIFYING),
    Fact.HOLDS: Rule(Stage.KEEPING),
    Fact.KEPT: Rule(Stage.DONE),
    Fact.SUSPECT: Rule(Stage.DIAGNOSING),
    Fact.BAD_PROOF: Rule(Stage.WAITING, charge=True, strike=True, counter="bad_proofs", event="bad-proof", front=True),
    Fact.FAULT: Rule(Stage.WAITING, charge=True, strike=True, counter="faults", event="fault", front=True),
    Fact.DEVICE_FULL: Rule(Stage.WAITING, charge=True, counter="faults", event="fault", front=True),
    Fact.REFUSED: Rule(Stage.WAITING, event="fault"),
    Fact.WITNESS_LOST: Rule(Stage.WAITING, charge=True, counter="lost_witnesses", front=True),
    Fact.SYNTHESISER_DIED: Rule(Stage.WAITING, charge=True, front=True),
    Fact.WORKER_DIED_AT: Rule(Stage.WAITING, charge=True, front=True),
    Fact.WORKER_GONE: Rule(Stage.WAITING),
    Fact.GIVEN_UP: Rule(Stage.FAILED, event="failed"),
}

RETRIES = frozenset(
    fact
    for fact, rule in RULES.items()
    if rule.to is Stage.WAITING and fact not in (Fact.UNBLOCKED, Fact.WITHDRAWN, Fact.RETURNED)
)
"""Facts after which a partition is tried again, and which count as retries."""
