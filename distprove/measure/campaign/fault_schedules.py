"""Random schedules of faults, what became of them, and their counts. A seed makes a schedule, and the same one each
time."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from distprove.measure.campaign import TOY, Toy, load_toy, load_tree
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem

ANYWHERE = ("bad_proof", "fault", "out_of_memory", "slow", "bad_input", "disk_full", "kill_driver", "cut_files")
IN_PROCESSES = ("kill_prover", "kill_synthesiser", "stop_prover", "stop_synthesiser", "kill_verifier", "stop_verifier")
IN_ACTORS = ("kill_actor", "stop_actor")
OF_A_CLUSTER = ("lost_node", "lost_raylet", "returning_node", "lost_head", "cut", "cut_for_good", "cut_from_head")
OF_AN_OWN_RAY = ("lost_head", "lost_raylet")
TRANSPORTS = {
    "threads": ANYWHERE,
    "processes": (*ANYWHERE, *IN_PROCESSES),
    "ray": (*ANYWHERE, *IN_PROCESSES, *IN_ACTORS),
    "own-ray": (*ANYWHERE, *IN_PROCESSES, *IN_ACTORS),
}
"""The faults of each transport. "ray" is a cluster that the job joins, "own-ray" one that it starts for itself."""
OUTSIDE = ("kill_driver", "cut_files", "disk_full", *OF_A_CLUSTER)
"""Faults that do not happen inside of a worker or verifier."""


@dataclass(frozen=True)
class Schedule:
    """A job, and what befalls it."""

    seed: int
    transport: str
    partitions: int
    workers: int
    barrier: bool
    in_python: bool
    """Whether its verifier is Python, and runs in processes of its own."""
    faults: tuple[tuple[str, str], ...]
    """Kinds of faults, each with the partition that it happens at."""
    after: float
    """Seconds into the session after which the driver is killed."""
    nodes: int = 1
    """Nodes of the Ray that the job joins; 0: it starts its own."""
    toy: str = TOY
    """The module of the job's proof system."""

    tree: bool = False
    """Whether the partitions are the leaves of a tree whose root is the job's last proof."""
    checks: bool = False
    """Whether the proof system of a tree compares nodes with their children."""

    @classmethod
    def over_ray(cls, seed: int, transport: str) -> Schedule:
        """The schedule of a seed over Ray: most have one fault of the cluster, and up to three others."""
        chance = random.Random(f"{transport} {seed}")
        count, in_python = chance.randint(4, 12), chance.random() < 0.3
        nodes = 0 if transport == "own-ray" else 3 if seed % 16 >= 12 else 2
        kinds = [kind for kind in TRANSPORTS["ray"] if in_python or not kind.endswith("_verifier")]
        drawn = [chance.choice(kinds) for _ in range(chance.randint(0, 3))]
        if chance.random() < 0.75 or not drawn:
            drawn.append(chance.choice(OF_A_CLUSTER if nodes else OF_AN_OWN_RAY))
        faults = tuple((kind, f"p{chance.randrange(count)}") for kind in drawn)
        return cls(
            seed, transport, count, 1, chance.random() < 0.25, in_python, faults, chance.uniform(0.1, 4.0), nodes
        )

    @classmethod
    def of(cls, seed: int, transport: str) -> Schedule:
        """The schedule of a seed."""
        if transport.endswith("ray"):
            return cls.over_ray(seed, transport)._perhaps_a_tree()
        chance = random.Random(f"{transport} {seed}")
        count = chance.randint(3, 12)
        in_python = transport != "threads" and chance.random() < 0.4
        kinds = [kind for kind in TRANSPORTS[transport] if in_python or not kind.endswith("_verifier")]
        faults = tuple((chance.choice(kinds), f"p{chance.randrange(count)}") for _ in range(chance.randint(1, 4)))
        workers, barrier = chance.randint(1, 3), chance.random() < 0.3
        made = cls(seed, transport, count, workers, barrier, in_python, faults, chance.uniform(0.05, 2.5))
        return made._perhaps_a_tree()

    def _perhaps_a_tree(self) -> Schedule:
        """Makes two schedules of five one of a tree. Half of its faults strike nodes."""
        chance = random.Random(f"tree {self.transport} {self.seed}")
        if chance.random() >= 0.4:
            return self
        made = replace(self, tree=True, partitions=self.partitions + 4, checks=chance.random() < 0.5)
        leaves = [name for name, needs in made.needs.items() if not needs]
        nodes = [name for name, needs in made.needs.items() if needs]
        at = [chance.choice(nodes if chance.random() < 0.5 else leaves) for _ in self.faults]
        return replace(made, faults=tuple((kind, name) for (kind, _), name in zip(self.faults, at, strict=True)))

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        """The names of all partitions, in the order of the plan, with those that each needs."""
        if self.tree:
            return load_tree().tree_of(self.partitions)
        return {f"p{i}": () for i in range(self.partitions)}

    @property
    def on_ray(self) -> bool:
        return self.transport.endswith("ray")

    @property
    def bad_inputs(self) -> set[str]:
        """The partitions whose inputs are at fault."""
        return {name for kind, name in self.faults if kind == "bad_input"}

    @property
    def refused(self) -> set[str]:
        """The partitions that fail for inputs at fault: these, what needs them, and all that share a challenge with
        one."""
        failed = self.bad_inputs
        if self.barrier and any(not self.needs[name] for name in failed):
            failed |= {name for name, needs in self.needs.items() if not needs}
        for name, needs in reversed(list(self.needs.items())):  # what is needed comes last
            if failed & set(needs):
                failed.add(name)
        return failed

    def system(self, folder: Path) -> ProofSystem:
        """The job's proof system, whose faults count in `folder`."""
        return self._system(self._inside(load_toy(self.toy), folder), self.in_python, self.checks)

    def sound_system(self, folder: Path) -> ProofSystem:
        """The same system without faults, with a verifier that is not run in processes, and comparing what it can."""
        return self._system(load_toy(self.toy).Faults(folder), in_python=False, checks=True)

    def _system(self, faults: Any, in_python: bool, checks: bool) -> ProofSystem:
        make = load_toy(self.toy).ToySystem
        if self.tree:
            make = load_tree().CheckingTree if checks else load_tree().TreeSystem
        return make(self.partitions, faults, self.barrier, in_python)

    def _inside(self, toy: Toy, folder: Path) -> Any:
        """The faults that happen inside of workers and verifiers."""
        inside: dict[str, Any] = {}
        for kind, name in self.faults:
            if kind == "bad_input":
                inside[kind] = (*inside.get(kind, ()), name)
            elif kind == "slow":
                inside.setdefault(kind, {})[name] = 1.5
            elif kind in OF_A_CLUSTER:
                inside["outside"] = {name: 1}
            elif kind not in OUTSIDE:
                of_kind = inside.setdefault(kind, {})
                of_kind[name] = of_kind.get(name, 0) + 1
        usual = 0.2 if self.on_ray else 0.03
        inside["slow"] = {**dict.fromkeys(self.needs, usual), **inside.get("slow", {})}
        return toy.Faults(folder, **inside)

    def settings(self, address: str | None = None) -> ExecutorSettings:
        """How the job is run: patient enough for its faults, and quick to hold who is silent for hung."""
        common: dict[str, Any] = {"backend": load_toy(self.toy).TOY_BACKEND, "max_retries": 50, "hang_timeout": 3.0}
        if self.on_ray:
            if not any(kind.startswith("stop_") for kind, _ in self.faults):
                common["hang_timeout"] = 60.0  # what befalls a node is seen before that
            return ExecutorSettings(**common, gpus=0, address=address, local=False, start_timeout=90.0)
        isolate = self.transport == "processes"
        return ExecutorSettings(**common, local=True, isolate=isolate, threads=2, gpu_workers=self.workers)

    def has(self, kind: str) -> bool:
        return any(each == kind for each, _ in self.faults)


@dataclass
class Outcome:
    """What became of a schedule."""

    seed: int
    transport: str
    faults: list[str]
    tree: bool = False
    outcome: str = "wrong"
    """ "proved", "resumed", "refused" for inputs that are at fault, or "wrong"."""
    why: list[str] = field(default_factory=list)
    """What was wrong."""
    ends: list[str] = field(default_factory=list)
    """How each session ended."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from a death until the worker was ready again, by the kind of worker; from the loss of a node until what
    it had was handed to others; and from the loss of the head until the job ended with the reason, or went on."""
    seconds: float = 0.0


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts by fault, transport and outcome, and times of recovery."""
    times: dict[str, list[float]] = {}
    for outcome in outcomes:
        for kind, seconds in outcome.recoveries.items():
            times.setdefault(f"{outcome.transport} {kind}", []).extend(seconds)
    by_fault: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for kind in outcome.faults:
            by_fault.setdefault(f"{outcome.transport} {kind}", Counter())[outcome.outcome] += 1
    outcomes = [outcome for outcome in outcomes if outcome.outcome != "skipped"]
    return {
        "format": "distprove.fault-campaign",
        "what": "random schedules of faults: a toy proof system",
        "schedules": dict(Counter(outcome.transport for outcome in outcomes)),
        "trees": dict(Counter(outcome.transport for outcome in outcomes if outcome.tree)),
        "faults": sum(len(outcome.faults) for outcome in outcomes),
        "outcomes": {
            transport: dict(Counter(each.outcome for each in outcomes if each.transport == transport))
            for transport in sorted({outcome.transport for outcome in outcomes})
        },
        "by_fault": {kind: dict(counts) for kind, counts in sorted(by_fault.items())},
        "recovery_seconds": {
            kind: {"count": len(found), "median": round(statistics.median(found), 3), "worst": max(found)}
            for kind, found in sorted(times.items())
        },
        "wrong": [asdict(outcome) for outcome in outcomes if outcome.outcome == "wrong"],
    }


def merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What was found, with what is there of other transports."""

    def is_of_another(name: str) -> bool:
        return name.partition(" ")[0] not in found["schedules"]

    whole = {**before, **found}
    for part in ("schedules", "trees", "outcomes", "by_fault", "recovery_seconds"):
        kept = {name: value for name, value in before.get(part, {}).items() if is_of_another(name)}
        whole[part] = dict(sorted({**kept, **found[part]}.items()))
    whole["faults"] = sum(sum(counts.values()) for counts in whole["by_fault"].values())
    whole["wrong"] = [each for each in before.get("wrong", []) if is_of_another(each["transport"])] + found["wrong"]
    return whole
