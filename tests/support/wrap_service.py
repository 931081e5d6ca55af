"""Jobs with a wrap in a standing service, timed from the ELF file to the calldata, with a timeline of each.

`python -m tests.support.wrap_service --cycles 33500000 --jobs 3 --others 2 --out results.json` starts a service with an
empty cache, and times whole commands: a cold job, `--jobs` with the same input, `--others` with inputs of their own,
and `--plain` ones that end in one proof without a wrap. The result has for each job when its command began, was
submitted, began, was proven, ended and returned, all in seconds since its command began; the stages of its segments,
leaves and nodes; its last partitions with their steps; and where its devices were idle. With `--jobs 0 --others 0
--plain 2 --security 1 --grinding 0 --cycles 20000 --segment 4096` it needs no GPU. Other arguments go to `up`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.record.analysis import devices
from cluster.record.timeline import Session, Span, read_timeline
from cluster.service.client import connect

GUEST = Path(__file__).parents[1] / "stark" / "riscv" / "guests" / "fibonacci.elf"
CYCLES_A_NUMBER, CYCLES_BESIDE = 5, 53
"""The guest takes so many cycles for each number of the sequence, and so many beside."""
WRAP, PLAIN = ("--wrap", "--insecure-dev"), ("--one-proof",)
WRITTEN = ("job.json", "proof.msgpack", "calldata.hex", "report.json")
FIGURES = ("first", "last", "median", "most")
TAIL = ("wrap", "root", "groth16")
LONG_IDLE = 0.02
"""Least seconds for which a device is idle where that is told."""


def command(folder: Path, *args: object) -> tuple[float, float, str]:
    """Run a command of `distprove` in the service's surroundings. Returns its start since the epoch, its seconds and
    what it printed. Raises RuntimeError if it fails."""
    words = [sys.executable, "-m", "distprove", *map(str, args)]
    where = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    began = time.time()
    done = subprocess.run(words, cwd=folder, env=where, capture_output=True, text=True)
    seconds = time.time() - began
    print(f"{seconds:9.3f} s  distprove {' '.join(words[3:])}"[:160], flush=True)
    if done.returncode:
        raise RuntimeError(f"{words}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return began, seconds, done.stdout


def job(folder: Path, name: str, cycles: int, options: list[str]) -> dict[str, Any]:
    """Prove a job of about so many cycles, and tell its timeline."""
    number = (cycles - CYCLES_BESIDE) // CYCLES_A_NUMBER
    (folder / f"{name}.public").write_bytes(number.to_bytes(4, "little"))
    subject = ("prove", "stark", "riscv", "--elf", GUEST, "--public", f"{name}.public")
    kind = ("--engine", "multilinear", "--hash", "poseidon2")
    began, seconds, _ = command(folder, *subject, *kind, *options, "--out", name)
    return {"job": name, "began": began, "command": round(seconds, 3), **_story(folder / name, began)}


def _story(run: Path, began: float) -> dict[str, Any]:
    """The session of a run, in seconds since its command began."""
    session = read_timeline(run)[-1]
    report = json.loads((run / "report.json").read_bytes())
    spans = [span for span in session.spans if span.outcome == "ok"]
    plans = [p["memory"]["plan"] for p in report["partitions"] if p["memory"]]
    written = {file: os.stat(run / file).st_mtime for file in WRITTEN if (run / file).exists()}
    return {
        "session": round(session.began - began, 3),
        "session ended": round(session.began + session.wall_seconds - began, 3),
        "written": {name: round(when - began, 3) for name, when in written.items()},
        "plans": {plan: plans.count(plan) for plan in set(plans)},
        "retries": report["counters"]["retries"],
        "stages": dict(_stages(spans, began)),
        "tail": [_told(span, began) for span in sorted(spans, key=lambda s: s.start) if _is_late(span)],
        "segments": [_told(span, began) for span in sorted(spans, key=lambda s: s.start) if span.stage in ("prove",)],
        "devices": list(_idle(session, began)),
    }


def _kind(partition: str | None) -> str:
    return "-" if partition is None else partition.split("-")[0].rstrip("0123456789. ")


def _is_late(span: Span) -> bool:
    return span.partition in TAIL or _kind(span.partition) == "node"


def _stages(spans: list[Span], began: float) -> Iterator[tuple[str, dict[str, float]]]:
    """For each stage of each kind of partition: number, first start, last end, median and longest."""
    for name in dict.fromkeys((span.stage, _kind(span.partition)) for span in sorted(spans, key=lambda s: s.start)):
        own = [span for span in spans if (span.stage, _kind(span.partition)) == name]
        taken = [span.end - span.start for span in own]
        times = (min(s.start for s in own) - began, max(s.end for s in own) - began)
        figures = (*times, statistics.median(taken), max(taken))
        yield " ".join(name), {"n": len(own), **dict(zip(FIGURES, _rounded(figures), strict=True))}


def _told(span: Span, began: float) -> list[Any]:
    times = _rounded((span.start - began, span.end - began))
    return [
        f"{span.stage} {span.partition}",
        span.worker,
        *times,
        dict(zip(span.inner, _rounded(span.inner.values()), strict=True)),
    ]


def _idle(session: Session, began: float) -> Iterator[dict[str, Any]]:
    for device in devices(session):
        if not device.busy:
            continue
        gaps = [_rounded((a - began, b - began)) for a, b in device.gaps if b - a >= LONG_IDLE]
        first, last = device.busy[0][0] - began, device.busy[-1][1] - began
        yield {
            "device": device.name,
            "by events": device.by_events,
            **dict(zip(("first", "last", "busy"), _rounded((first, last, device.busy_seconds)), strict=True)),
            "idle": gaps,
        }


def _rounded(seconds: Any) -> list[float]:
    return [round(each, 3) for each in seconds]


def _show(told: dict[str, Any]) -> None:
    print(f"\n== {told['job']}: {told['command']} s")
    marks = ("submitted", "started", "session", "first_proof", "session ended", "ended")
    print("  " + ", ".join(f"{mark} {told[mark]}" for mark in marks if told.get(mark) is not None))
    print(f"  written {told['written']}; plans {told['plans']}; retries {told['retries']}")
    for name, figures in told["stages"].items():
        print(f"  {name:20} " + " ".join(f"{key} {value:>7}" for key, value in figures.items()))
    for span in told["tail"]:
        print(f"  {span[0]:22} {span[1]:12} {span[2]:>7} {span[3]:>7} {span[4]}")
    for device in told["devices"]:
        print(f"  {device}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cycles", type=int, default=33_500_000)
    parser.add_argument("--jobs", type=int, default=3, help="jobs with the input of the first")
    parser.add_argument("--others", type=int, default=2, help="jobs with inputs of their own")
    parser.add_argument("--plain", type=int, default=0, help="jobs without a wrap")
    parser.add_argument("--seconds", type=float, default=1e9, help="seconds after which no other job begins")
    parser.add_argument("--security", default="126")
    parser.add_argument("--grinding", default="16")
    parser.add_argument("--segment", help="cycles of a segment")
    parser.add_argument("--folder", type=Path, default=Path("wrap-service"))
    parser.add_argument("--out", type=Path, required=True)
    given, options = parser.parse_known_args()
    folder = given.folder.resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    kind = ["--security", given.security, "--grinding", given.grinding]
    kind += ["--segment", given.segment] if given.segment else []
    names = [("cold", 0, WRAP)] if given.jobs else []
    names += [(f"warm{k}", 0, WRAP) for k in range(given.jobs)]
    names += [(f"other{k}", k + 1, WRAP) for k in range(given.others)]
    names += [(f"plain{k}", 0, PLAIN) for k in range(given.plain)]
    told: list[dict[str, Any]] = []
    end = time.monotonic() + given.seconds
    service = folder / "state" / "distprove" / "service"
    command(folder, "up", *options)
    try:
        for name, less, ends_in in names:
            if time.monotonic() > end:
                break
            told.append(job(folder, name, given.cycles - less * CYCLES_A_NUMBER, [*kind, *ends_in]))
            with connect(service) as client:
                view = max(client.list(), key=lambda view: view.submitted)
            for mark in ("submitted", "started", "first_proof", "ended"):
                told[-1][mark] = round((getattr(view, mark) or 0.0) - told[-1]["began"], 3)
            _show(told[-1])
            result = {"format": "distprove.wrap-service", "cycles": given.cycles, "options": kind, "jobs": told}
            given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    finally:
        command(folder, "down")
    if (folder / "warm0" / "calldata.hex").exists():
        command(folder, "verify", "warm0", "--security", given.security, "--wrap-vk", "warm0/verification_key.json")


if __name__ == "__main__":
    main()
