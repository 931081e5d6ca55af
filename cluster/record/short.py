"""Runs of short jobs that were proven together: the files of each, from what their sink tells.

A run is made in full, as any other's, but for what one that is over needs no more: the lock, the status, the copy of
its record, and a file of the partition beside the proof. What is told is plain data, so that another process may make
the files (`cluster.service.writer`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cluster.record.journal import JOURNAL, facts_json, lines_of
from cluster.record.report import REPORT, PartitionReport, Report
from cluster.record.run import RECORD, json_field, json_text
from cluster.record.timeline import FILE as TIMELINE
from cluster.record.timeline import Session, place_of, timeline_json
from distprove.proof import PROOF_FILE, Proof
from distprove.system import PartitionProof

_OWN = frozenset(("partitions", "workers", "job_digest", "proven"))
"""Fields of a report that jobs which are proven together do not have in common."""


@dataclass(frozen=True)
class Proven:
    """A short job that is proven: its proof is verified, and nothing is on disk."""

    id: str
    record: bytes
    """The content of its run's job.json."""
    proof: PartitionProof
    """Proof of its only partition, under the name that this has in the job."""
    report: PartitionReport
    explained: dict[str, Any]
    """What the proof system tells of the proof (`distprove.system.Explains`)."""
    spans: list[str]
    """Spans of the partition, as JSON."""
    busy: dict[str, float]
    """Seconds that each worker spent on it."""


@dataclass(frozen=True)
class Common:
    """What jobs that were proven together have in common."""

    verification_key: dict[str, Any]
    report: Report
    """The report of all, without partitions."""
    spans: tuple[str, ...]
    """Spans of no partition, as JSON."""
    told: tuple[bytes, ...]
    """Lines of the journal."""

    def files(self, of: Proven) -> dict[str, bytes]:
        """The files of a job's run, by name."""
        shared = self.report
        proof = Proof.bind(shared.system, bytes.fromhex(shared.key_digest), self.verification_key, [of.proof])
        content = proof.to_bytes()
        Proof.from_bytes(content, written=proof)  # read back what will be published, before it is called done
        session, digest = self._session_of(of), proof.job_digest.hex()
        busy = session.busy()
        whole, common = self._written
        report = {
            **whole,
            "partitions": [of.report.to_record()],
            "workers": [
                {**vars(each), "partitions": int(each.id in busy), "busy_seconds": busy.get(each.id, 0.0)}
                for each in self.report.workers
            ],
            "job_digest": digest,
            "proven": of.explained,
        }
        ended = facts_json({"wall_seconds": round(session.wall_seconds, 6), "job": digest})
        return {
            RECORD: of.record,
            PROOF_FILE: content,
            REPORT: json_text(report, common),
            TIMELINE: timeline_json([session]).encode(),
            JOURNAL: b"".join([*self.told, *lines_of("proved", [of.report.proved_json(), ended])]),
        }

    @cached_property
    def _written(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The report of all, and what each job's has of it, as it is written."""
        record = self.report.to_record()
        return record, {name: json_field(value) for name, value in record.items() if name not in _OWN}

    def _session_of(self, of: Proven) -> Session:
        report = self.report
        session = Session(report.started, [], report.wall_seconds, report.status, report.executor)
        session.workers = [place_of(worker) for worker in report.workers]
        session.written += [*self.spans, *of.spans]
        session.busy_by.update(of.busy)
        return session
