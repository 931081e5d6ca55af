"""The fuzzer: spoiled files for every parser, in as many processes as wanted, each input known by its number.

    python -m tests.fuzz.fuzz --seconds 3600 --workers 2 [--seed N] [--only PARSER]... [--count N]
    python -m tests.fuzz.fuzz --replay build/fuzz/zkey-1-77.input

Whatever a parser is given, it succeeds or raises a DistproveError, within ten times the input's size in memory (and a
constant) and 5 seconds of CPU time; no changed proof is accepted. What does otherwise is written down with its number,
from which the same input is made again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from distprove.errors import DistproveError
from tests.fuzz.fuzz_targets import MIB, TARGETS

TIMES = 10
"""Bytes that reading may take for each byte of the input."""
CPU_SECONDS = 5.0
STUCK_SECONDS = 120.0
"""Wall time after which a process that shows no new input is ended."""
ADDRESS_SPACE = 12 << 30
"""Bytes that a process of the fuzzer may map: a fault does not take the machine along. A RISC-V guest maps 8 GiB, of
which it uses what it touches."""
SLICE_SECONDS = 1.0
"""How long a process stays with one parser."""
KEPT = 3
"""Inputs kept of each kind of fault."""
EVERY = 4
"""Memory is traced for one input in so many: tracing takes longer than reading."""


class TooSlow(BaseException):
    """The CPU time is up. Not an Exception, so that no parser takes it for its own."""


@dataclass(frozen=True)
class Fault:
    """What went wrong with one input."""

    parser: str
    number: int
    kind: str
    """Faults of one kind have one cause, most likely."""
    detail: str


def make(parser: str, seed: int, number: int) -> bytes:
    """The input of this number: the same in every process."""
    return TARGETS[parser].make(random.Random(f"{seed} {parser} {number}"))


def check(parser: str, number: int, data: bytes, traced: bool) -> Fault | None:
    """Give one input to its parser."""
    target = TARGETS[parser]
    if traced:
        tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited_time():
            target.use(data)
    except DistproveError:
        pass
    except TooSlow:
        return Fault(parser, number, "slow", f"more than {CPU_SECONDS} s")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        return Fault(parser, number, kind, traceback.format_exc())
    finally:
        peak = tracemalloc.get_traced_memory()[1] if traced else 0
        tracemalloc.stop()
    allowed = TIMES * len(data) + target.constant
    resident = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if peak > allowed or resident > allowed + 64 * MIB:
        return Fault(parser, number, "memory", f"{peak} bytes ({resident} resident) for an input of {len(data)}")
    return None


@contextlib.contextmanager
def _limited_time() -> Iterator[None]:
    """Raises TooSlow in the block after CPU_SECONDS of CPU time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def warm_up(parsers: list[str]) -> None:
    """Make the valid inputs, and see that they are taken: a parser that refuses everything proves nothing."""
    for parser in parsers:
        for data in TARGETS[parser].seeds():
            TARGETS[parser].use(data)


# -- processes --------------------------------------------------------------------------------------------------------


@dataclass
class Process:
    """One of the fuzzer's processes. Its arrays are shared, so that its parent sees how far it came when it dies."""

    index: int
    done: Any
    """Inputs by parser."""
    seconds: Any
    """Wall time by parser."""
    current: Any
    """The parser at work, as its place in the list."""
    child: Any = None
    faults: Any = None
    """What its child writes what it finds to, for this life alone: one that is killed can hold nobody up."""
    seen: int = -1
    since: float = 0.0

    def number(self, place: int, workers: int) -> int:
        """The number of its next input for a parser."""
        return int(self.done[place]) * workers + self.index

    def stuck(self) -> bool:
        """Whether it has shown no new input for too long."""
        if sum(self.done) != self.seen:
            self.seen, self.since = sum(self.done), time.monotonic()
        return time.monotonic() - self.since > STUCK_SECONDS


@dataclass(frozen=True)
class Plan:
    """What all processes know."""

    parsers: list[str]
    seed: int
    workers: int
    end: float
    share: int
    """Inputs for each parser from each process, at most."""
    folder: Path


def work(process: Process, plan: Plan, faults: Connection) -> None:
    """One process: slices of time for each parser in turn."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    while time.monotonic() < plan.end and any(done < plan.share for done in process.done):
        for place, parser in enumerate(plan.parsers):
            began = time.monotonic()
            until = min(plan.end, began + SLICE_SECONDS)
            process.current.value = place
            while time.monotonic() < until and process.done[place] < plan.share:
                number = process.number(place, plan.workers)
                process.done[place] += 1
                fault = check(parser, number, make(parser, plan.seed, number), number // plan.workers % EVERY == 0)
                if fault is not None:
                    faults.send(fault)
            process.seconds[place] += time.monotonic() - began


def fuzz(plan: Plan) -> Counter[tuple[str, str]]:
    """Runs until the time is up or the count reached. Returns how often each kind of fault was met, by parser."""
    context = multiprocessing.get_context("fork")
    many = len(plan.parsers)
    processes = [
        Process(i, context.Array("q", many), context.Array("d", many), context.Value("i")) for i in range(plan.workers)
    ]
    kinds: Counter[tuple[str, str]] = Counter()

    def note(fault: Fault) -> None:
        kinds[fault.parser, fault.kind] += 1
        if kinds[fault.parser, fault.kind] <= KEPT:
            keep(fault, plan)

    def start(process: Process) -> None:
        process.since = time.monotonic()
        process.faults, faults = context.Pipe(duplex=False)
        process.child = context.Process(target=work, args=(process, plan, faults))
        process.child.start()
        faults.close()  # the child has its own: when it ends, so does what comes from it

    for process in processes:
        start(process)
    at_work = list(processes)
    while at_work:
        told = wait([process.faults for process in at_work], timeout=0.2)
        for process in list(at_work):
            if process.stuck():
                process.child.kill()
            if process.faults not in told:
                continue
            with contextlib.suppress(EOFError, OSError):  # it ended, perhaps amid a fault
                note(process.faults.recv())
                continue
            process.faults.close()
            process.child.join()
            if process.child.exitcode == 0:
                at_work.remove(process)
            else:  # ended by a signal: the input that it was at is known
                place = process.current.value
                number = process.number(place, plan.workers) - plan.workers
                note(Fault(plan.parsers[place], number, f"exit {process.child.exitcode}", "the process ended"))
                start(process)
    for place, parser in enumerate(plan.parsers):
        done, seconds = sum(p.done[place] for p in processes), sum(p.seconds[place] for p in processes)
        print(f"{parser:16} {done:9} inputs {done / max(seconds, 1e-9):8.0f} a second and process")
    print(f"{sum(sum(p.done) for p in processes)} inputs in all")
    return kinds


def keep(fault: Fault, plan: Plan) -> None:
    """Write the input down, and what it did."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    path = plan.folder / f"{fault.parser}-{plan.seed}-{fault.number}.input"
    path.write_bytes(make(fault.parser, plan.seed, fault.number))
    again = f"python -m tests.fuzz.fuzz --replay {path}"
    path.with_suffix(".txt").write_text(f"{fault.kind}\n\n{fault.detail}\n{again}\n", errors="backslashreplace")
    print(f"{fault.parser}: {fault.kind}: {again}", flush=True)


def replay(path: Path) -> int:
    """Give a kept input to its parser again; a fault shows as it is. Its parser's name begins the file's."""
    parser, number = path.stem.rsplit("-", 2)[0], int(path.stem.rsplit("-", 1)[1])
    fault = check(parser, number, path.read_bytes(), traced=True)
    print(fault.detail if fault else "no fault")
    return int(fault is not None)


def main() -> int:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--seed", type=int, default=int(time.time()), help="another one gives other inputs")
    known.add_argument("--workers", type=int, default=2, help="processes")
    known.add_argument("--seconds", type=float, default=3600.0)
    known.add_argument("--count", type=int, default=0, help="inputs in all, at most; 0: as many as there is time for")
    known.add_argument("--only", action="append", choices=TARGETS, help="this parser, and others so named")
    known.add_argument("--failures", type=Path, default=Path("build/fuzz"), help="where inputs that fail are kept")
    known.add_argument("--replay", type=Path, help="give one kept input to its parser again")
    given = known.parse_args()
    if given.replay is not None:
        return replay(given.replay)
    parsers = given.only or list(TARGETS)
    warm_up(parsers)
    share = -(-given.count // (len(parsers) * given.workers)) if given.count else 1 << 62
    end = time.monotonic() + given.seconds
    print(f"seed {given.seed}, {given.workers} processes, {len(parsers)} parsers", flush=True)
    kinds = fuzz(Plan(parsers, given.seed, given.workers, end, share, given.failures))
    for (parser, kind), count in sorted(kinds.items()):
        print(f"FAULT {parser}: {kind}: {count} times")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
