"""Run folders as a driver would leave them, of any size and with any trouble, without proving anything."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.record.report import Counters, PartitionReport, Report, WorkerReport
from cluster.record.timeline import Place, Session, Span, timeline_json
from kernels.interface.busy import DeviceTime

BEGAN = 1_790_000_000.0
GPU = "NVIDIA H200"
STEPS = (
    ("upload", 0.1),
    ("witness_msm", 0.02),
    ("quotient", 0.03),
    ("quotient_msm", 0.02),
    ("wait", 0.75),
    ("assemble", 0.08),
)


@dataclass
class MadeRun:
    """What `make` writes."""

    partitions: int = 12
    gpus: int = 2
    nodes: int = 1
    title: str = "votes of May"
    seed: int = 1
    prove_seconds: float = 0.4
    failing: tuple[int, ...] = ()
    """Partitions that fail for good."""
    faults: tuple[int, ...] = ()
    """Partitions whose first attempt ends in a fault."""
    governors: list[dict[str, Any]] = field(default_factory=list)
    name: str = "part"

    def make(self, path: Path) -> Path:
        """Write the folder; returns its path."""
        chance = random.Random(self.seed)
        session = Session(BEGAN, executor="ray", status="failed" if self.failing else "proved")
        provers = self.nodes * self.gpus
        for number in range(provers):
            node, gpu = divmod(number, self.gpus)
            session.workers.append(Place(f"prover-{number}", "prover", f"node{node}", GPU, "cuda", (str(gpu),)))
        for number in range(2 * provers):
            node = f"node{number // (2 * self.gpus)}"
            session.workers.append(Place(f"synthesiser-{number}", "synthesiser", node, "CPU", "cpu"))
        report = Report("groth16", {"curve": "bn128"}, "ray", "ab" * 32, [], status=session.status, started=BEGAN)
        report.workers = [
            WorkerReport(p.id, p.role, p.node, "ready", {"device": p.device, "host": p.node, "node": p.node})
            for p in session.workers
        ]
        counters = report.counters
        events: list[dict[str, Any]] = [{"time": BEGAN, "event": "session", "partitions": self.partitions}]
        free = {place.id: 0.0 for place in session.workers}
        for place in session.workers:
            free[place.id] = end = 2.0 + chance.random()
            session.spans.append(Span(place.id, None, "load", BEGAN, BEGAN + end - 0.3))
        first = session.workers[0].id
        session.spans.append(Span(first, None, "check", BEGAN + free[first] - 0.3, BEGAN + free[first]))
        for index in range(self.partitions):
            self._prove(index, chance, session, report, counters, events, free)
        session.wall_seconds = report.wall_seconds = max((s.end for s in session.spans), default=BEGAN) - BEGAN + 0.2
        report.governors, report.driver_memory = self.governors, 300 << 20
        if self.failing:
            report.error = f"{len(self.failing)} of {self.partitions} partitions failed"
        else:
            report.job_digest = "cd" * 32
        path.mkdir(parents=True)
        names = [{"name": p.name, "digest": "00" * 32} for p in report.partitions]
        record = {"format": "distprove.run", "version": 1, "created": BEGAN, "system": "groth16", "sources": {}}
        record |= {"key_digest": "ab" * 32, "facts": {}, "job": {"title": self.title}, "partitions": names}
        (path / "job.json").write_text(json.dumps(record))
        (path / "report.json").write_text(json.dumps(report.to_record()))
        (path / "timeline.json").write_text(timeline_json([session]))
        (path / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        return path

    def _prove(
        self,
        index: int,
        chance: random.Random,
        session: Session,
        report: Report,
        counters: Counters,
        events: list[dict[str, Any]],
        free: dict[str, float],
    ) -> None:
        name = f"{self.name}-{index}"
        entry = PartitionReport(name, "proved", attempts=1, witness_bytes=8 << 20)
        report.partitions.append(entry)
        synthesiser = min((p.id for p in session.workers if p.role == "synthesiser"), key=lambda w: free[w])
        begun = free[synthesiser]
        made = begun + self.prove_seconds * (1.2 + chance.random())
        free[synthesiser] = made
        session.spans.append(Span(synthesiser, name, "synthesise", BEGAN + begun, BEGAN + made, attempt=1))
        entry.synthesise_seconds = made - begun
        attempts = 2 if index in self.faults or index in self.failing else 1
        for attempt in range(1, attempts + 1):
            prover = min((p.id for p in session.workers if p.role == "prover"), key=lambda w: free[w])
            start = max(made, free[prover]) + 0.01 * chance.random()
            took = self.prove_seconds * (0.9 + 0.3 * chance.random())
            free[prover] = end = start + took
            bad = index in self.failing or (index in self.faults and attempt == 1)
            if bad:
                session.spans.append(
                    Span(prover, name, "prove", BEGAN + start, BEGAN + end, outcome="RuntimeError", attempt=attempt)
                )
                reason = "RuntimeError (not told in full, because it may quote the witness)"
                events.append(
                    {"time": BEGAN + end, "event": "fault", "partition": name, "worker": prover, "reason": reason}
                )
                counters.faults += 1
                made = end
                continue
            inner = {step: took * share for step, share in STEPS}
            steps, at = [], BEGAN + start
            for step, share in STEPS:
                steps.append((step, at, at + took * share))
                at += took * share
            on_device = DeviceTime(((BEGAN + start + 0.1 * took, BEGAN + end - 0.08 * took),), by_events=True)
            session.spans.append(
                Span(prover, name, "prove", BEGAN + start, BEGAN + end, inner, "ok", tuple(steps), on_device, attempt)
            )
            session.spans.append(Span("driver", name, "verify", BEGAN + end, BEGAN + end + 0.02, attempt=attempt))
            entry.prove_seconds, entry.verify_seconds, entry.worker = took, 0.02, prover
            entry.device_peak, entry.steps = 9 << 30, inner
        entry.attempts = attempts
        counters.retries += attempts - 1
        if index in self.failing:
            entry.status, entry.error = "failed", "given up after 2 attempts; the last: RuntimeError"
            events.append({"time": BEGAN + made, "event": "failed", "partition": name, "reason": entry.error})


def governor(node: str, seconds: float, resources: tuple[str, ...] = ("threads", "deallocations")) -> dict[str, Any]:
    """A governor's report with samples over some time."""
    chance = random.Random(7)
    samples = [
        {
            "t": t * seconds / 40,
            "cpu": 0.5 + 0.4 * chance.random(),
            "memory_used": int((20 + t / 4 + chance.random()) * 2**30),
            "memory_leased": int((5 + 3 * chance.random()) * 2**30),
            "leases": {name: chance.randint(0, 8) for name in resources},
            "queue": {name: chance.randint(0, 3) for name in resources},
        }
        for t in range(41)
    ]
    limits = {"threads": 6, "deallocations": 1}
    report = {"node": node, "limits": limits, "samples": samples}
    seen = {
        "processes": {"prover-0": 3 << 30, "synthesiser-0": 1 << 30, "synthesiser-1": 2 << 30},
        "gpus": [
            {
                "index": 0,
                "name": GPU,
                "utilisation": 0.93,
                "watts": 512.5,
                "watts_most": 640.0,
                "celsius_most": 61,
                "memory_most": 70 << 30,
                "ecc_errors": 0,
                "xids": {"79": 1},
            }
        ],
    }
    return {**report, **seen, "threads": 16, "memory": 64 << 30, "peak_memory": 7 << 30}
