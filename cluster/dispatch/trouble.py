"""What goes wrong: bad proofs and faults, workers that die or hang, what is tried again, and who is given up."""

from __future__ import annotations

import time

from cluster.dispatch.handing import HandingOut
from cluster.dispatch.members import Member
from cluster.dispatch.partitions import OVER, SAFE, Item, Stage
from cluster.dispatch.state import State
from cluster.record.report import public_message
from kernels.errors import OutOfMemory

MAX_STRIKES = 3
"""Bad proofs, faults or deaths of one worker in a row before it is retired."""


class Trouble:
    """Sees to it that each partition is tried again or fails, and that no worker is trusted for ever."""

    def __init__(self, state: State, handing: HandingOut) -> None:
        self._state = state
        self._handing = handing
        self._items = state.items
        self._members = state.members

    def look(self) -> None:
        """See who is late, who hangs, and whether anybody is left."""
        self._retire_the_late()
        self._end_the_hung()
        self._fail_if_stranded()

    # -- of partitions ----------------------------------------------------------------------------------------------

    def suspect(self, item: Item, reason: str) -> None:
        """After a proof that does not verify: ask the prover it came from whether the witness is to blame."""
        member = self._members.provers[item.home or ""]
        item.suspicion = reason
        if member.usable:
            self._handing.diagnose(item, member)
        else:
            self.bad_proof(item, reason)

    def bad_proof(self, item: Item, reason: str) -> None:
        """A prover's proof or commitment does not hold, and its witness is not known to be to blame."""
        member = self._members.provers[item.home or ""]
        self._state.report.counters.bad_proofs += 1
        member.report.bad_proofs += 1
        item.report.bad_proofs += 1
        self._count_against(member, item, "bad-proof", reason)

    def fault(self, item: Item, member: Member, error: BaseException) -> None:
        """A worker came to nothing with a partition, and the input is not at fault."""
        self._state.report.counters.faults += 1
        member.report.faults += 1
        # Too little memory for this partition says nothing against the worker.
        self._count_against(member, item, "fault", public_message(error), strike=not isinstance(error, OutOfMemory))

    def _count_against(self, member: Member, item: Item, event: str, reason: str, strike: bool = True) -> None:
        if member.proves:
            item.avoid.add(member.report.id)
        self._state.run.note(event, partition=item.partition.name, worker=member.report.id, reason=reason)
        self.again(item, reason)
        if strike:
            self._strike(member, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {reason}")

    def again(self, item: Item, reason: str, charge: bool = True) -> None:
        """Put a partition back in line; `charge` an attempt, so that no partition is tried for ever."""
        item.charged += charge
        most = self._state.settings.max_retries
        if charge and item.charged > most:
            self._state.fail(item, f"given up after {most + 1} attempts; the last: {reason}")
            return
        self._state.report.counters.retries += 1
        item.home, item.proof = None, None
        self._items.move(item, Stage.WAITING)

    # -- of workers -------------------------------------------------------------------------------------------------

    def died(self, member: Member, reason: str, was_ready: bool = True) -> None:
        """Count the death of a worker's process once, however often it is reported, and have the worker loaded again.
        What it had goes back; only the partition at work may be to blame and is charged for it."""
        state = self._state
        if member.retired or (was_ready and not member.ready):
            return
        blamed = member.at_work_on()
        state.watch.forget(member.worker.id)
        self._note_death(member, reason)
        self._take_back(member, "its worker died", blamed)
        for maker in self._members.makers_of(member.worker):
            maker.ready, maker.report.status = False, "starting"
        if state.checker == member.worker.id:
            state.checker = None
        self._strike(member, f"died {MAX_STRIKES} times in a row, the last: {reason}")
        if not member.retired:
            member.deadline = state.deadline()
            state.executor.load(member.worker, state.key_checked)
        self._handing.check_key()

    def maker_died(self, maker: Member, item: Item, reason: str) -> None:
        """So did a synthesiser's, at work on a partition; its worker loads it again."""
        self._note_death(maker, reason)
        self.again(item, "its worker died")
        self._strike(maker, f"died {MAX_STRIKES} times in a row, the last: {reason}")

    def retire(self, member: Member, reason: str) -> None:
        """Give up a worker, and its synthesisers with it."""
        if member.retired:
            return
        self._note_retired(member, reason)
        for maker in self._members.makers_of(member.worker):
            maker.retired, maker.report.status, maker.report.reason = True, "retired", "its prover was retired"
        self._state.executor.retire(member.worker)
        self._take_back(member, "its worker was retired")

    def retire_maker(self, maker: Member, reason: str) -> None:
        """Give up a synthesiser, and with the last one its worker."""
        if maker.retired:
            return
        self._note_retired(maker, reason)
        self._state.executor.dismiss(maker.worker, maker.report.id)
        if not self._members.makers_of(maker.worker):
            self.retire(self._members.provers[maker.worker.id], f"it has no synthesiser left ({reason})")

    def _strike(self, member: Member, reason: str) -> None:
        member.strikes += 1
        if member.strikes >= MAX_STRIKES:
            (self.retire if member.proves else self.retire_maker)(member, reason)

    def _take_back(self, member: Member, reason: str, blamed: str | None = None) -> None:
        """Hand out again what a worker had: its witnesses and what it committed to went with it."""
        names, member.tasks, member.under_way, member.asked_back = list(member.tasks), {}, [], False
        committed = [item for item in self._items.at[Stage.COMMITTED].values() if item.home == member.worker.id]
        for item in (*(self._items[name] for name in names), *committed):
            if item.stage is Stage.DIAGNOSING:
                self.bad_proof(item, item.suspicion)  # nothing more can be found out
            elif item.stage not in OVER:
                item.report.attempts += item.stage is Stage.PROVING
                self.again(item, reason, charge=item.partition.name == blamed)

    def _note_death(self, member: Member, reason: str) -> None:
        member.ready = False
        member.report.status = "starting"
        member.report.deaths += 1
        self._state.report.counters.deaths += 1
        self._state.note("death", member, reason)

    def _note_retired(self, member: Member, reason: str) -> None:
        member.retired = True
        member.report.status, member.report.reason = "retired", reason
        self._state.report.counters.retired += 1
        self._state.note("retired", member, reason)

    # -- of time ----------------------------------------------------------------------------------------------------

    def _retire_the_late(self) -> None:
        now = time.monotonic()
        for member in self._members.live():
            if not member.ready and now > member.deadline:
                self.retire(member, f"not ready within {self._state.settings.start_timeout:.0f} s")

    def _end_the_hung(self) -> None:
        """End what gives no sign of life: it is then taken for what it is, dead."""
        state = self._state
        state.watch.look(time.monotonic())
        for member in self._members.provers.values():
            hung = state.watch.hung(member.worker.id) if member.usable else None
            if hung is not None:
                state.run.note("hung", worker=hung.who, reason=hung.reason)
                state.tell("hung", None, member, hung.reason)
                state.watch.forget(member.worker.id)  # until it says something
                state.executor.interrupt(member.worker, hung.who)

    def _fail_if_stranded(self) -> None:
        """Fail what needs a worker when none is left."""
        if self._members.live():
            return
        reason = next((m.report.reason for m in self._members.provers.values() if m.report.reason), "there is none")
        for item in [item for stage in Stage if stage not in SAFE for item in self._items.at[stage].values()]:
            self._state.fail(item, f"no prover is left ({reason})")
