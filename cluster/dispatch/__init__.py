"""The dispatch loop: which partition goes to which worker, and what happens when one fails.

    waiting -> handed -> synthesising -> ready -> [committing -> committed -> handed ->] proving
        ^                                                                               -> verifying -> keeping -> done
        '------------------------------- diagnosing <--------------------------------------'            | failed

Rules:

* A worker has orders for about `CHUNK` seconds of work, and as many again behind them. It makes the witness of a
  partition that it proves. Near the end of the job each worker gets its share of what is left, and what it has not
  begun is asked back when another one has nothing to do.
* Nothing is proven before one worker has checked the key, for systems that have such a check.
* No proof counts before it has been verified here, and is on disk. After a bad one the witness is diagnosed; if that is
  not to blame, the partition goes to another worker if there is one.
* This loop waits for nothing but what is over, and takes in all that is over before it hands out.
* An error of the input (`InputError`) is its node's until another node says the same; then its partition fails, as it
  does at once where there is one node. What fits no kind of device fails too. Everything else is tried again,
  `max_retries` times.
* A worker whose process died is loaded again and goes on; what it had not answered for goes back. One that hangs is
  ended (`cluster.hangs`). One that keeps failing, by the rules of `trouble`, or does not come back in time, is retired.
  A synthesiser is after three failures with nothing good in between. With no worker or synthesiser left, what remains
  fails; what is done is kept.
* With a barrier, every partition is committed before any is proven, by the worker that committed to it. A partition
  that moves to another worker after that, because the first one died or has more left, must reproduce its commitment.

It hands out (`handing`), takes in (`taking`) and sees to what goes wrong (`trouble`). These share one `state`: the
partitions by stage, the workers with their synthesisers, and what is told of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster.dispatch.barrier import draw_challenge, made_under
from cluster.dispatch.handing import hand_out
from cluster.dispatch.state import Progress, State
from cluster.dispatch.taking import take
from cluster.dispatch.trouble import see_to_workers
from distprove.system import PartitionProof
from distprove.wanted import require_wanted

MANY = 64
"""Workers from which on news are gathered before they are taken in: to hand out costs a walk over all workers, and a
round for each piece of news would take the driver all its time."""
GATHER = 2e-5
"""Seconds for each worker that they are gathered."""

__all__ = ["Progress", "State", "dispatch", "draw_challenge", "made_under"]


def dispatch(state: State, post: Callable[[Callable[[], dict[str, Any]]], None]) -> dict[str, PartitionProof]:
    """Take the partitions that are not done through the executor, until each is done or has failed. Returns the proofs
    there are, by name. Raises InputError when the key itself is at fault, CalledOff where the job is.

    `post` is offered a view of the work now and then, for status.json.
    """
    partitions, workers, executor, tell = state.partitions, state.workers, state.executor, state.tell
    if partitions.open:
        executor.waits_for = tell.wait
        for handle in executor.start(state.system):
            workers.add(handle, state.deadline())
            executor.load(handle, state.key_checked)
        state.report.workers += workers.reports()
        tell.loading()
    while partitions.open:
        require_wanted()
        hand_out(state)
        news = executor.wait(timeout=1.0)
        if len(workers.by_id) >= MANY:
            time.sleep(GATHER * len(workers.by_id))
            news += executor.wait(timeout=0.0)
        for finished in news:
            take(state, finished)
        see_to_workers(state)
        tell.moved()
        post(tell.view)
    return state.proofs
