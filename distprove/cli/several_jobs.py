"""`distprove aggregate` of STARK jobs, and `distprove verify` of what it writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.cli import verified as told
from distprove.cli.console import escape, facts_table, format_seconds, out, print_json
from distprove.cli.summary import layer_line
from distprove.formats.files import write_atomically
from distprove.stark.aggregate.file import StarkAggregate
from distprove.stark.aggregate.trusted import VerifiedAggregate, verify
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from distprove.cli.backends import Computing
    from distprove.entry import OwnProgram
    from distprove.proof import Proof


def aggregate_several(
    runs: Sequence[Path],
    proofs: Sequence[Proof],
    vks: Sequence[Path],
    destination: Path,
    *,
    computing: Computing,
    as_json: bool,
) -> None:
    """Make one proof of STARK jobs, write it and say so."""
    from distprove.stark.aggregate.runs import aggregated

    with computing.opened() as backend:
        begin = time.perf_counter()
        made = aggregated(runs, proofs, vks, backend)
        seconds = time.perf_counter() - begin
    content = made.to_bytes()
    write_atomically(destination, content)
    digests = [job.job_digest.hex() for job in made.jobs]
    if as_json:
        print_json({"out": str(destination), "bytes": len(content), "jobs": digests, "seconds": seconds})
        return
    out().print(
        f"[bold]{escape(str(destination))}[/]  {format_bytes(len(content))}: one proof of "
        f"{count_of(len(made.jobs), 'STARK job')}, "
        f"in {format_seconds(seconds)}"
    )


def verify_several(
    path: Path,
    vks: Sequence[Path],
    program: OwnProgram | None,
    expected: Sequence[bytes],
    least_security: float,
    *,
    exit_code: int | None,
    public_input: Path | None,
    tree_wires: int | None,
    show_public: bool,
    as_json: bool,
) -> None:
    """Verify one proof of STARK jobs and print what it states of each. Raises as `trusted.verify`."""
    loaded = StarkAggregate.read(path)
    verified = verify(
        loaded,
        vks=vks,
        program=program,
        expected_jobs=expected or None,
        least_security=least_security,
        exit_code=exit_code,
        public_input=public_input,
        tree_wires=tree_wires,
    )
    if as_json:
        jobs = [told.record(job, own) for job, own in zip(loaded.jobs, verified.jobs, strict=True)]
        print_json({"status": "verified", "jobs": jobs, **_security(verified), "seconds": verified.seconds})
        return
    _print(loaded, verified)
    for job, own in zip(loaded.jobs, verified.jobs, strict=True) if show_public else ():
        told.print_public(job, own)


def _security(verified: VerifiedAggregate) -> dict[str, Any]:
    said = verified.explained
    return {"bits": said.bits, "weakest": said.weakest, "layers": [layer.to_record() for layer in said.layers]}


def _print(loaded: StarkAggregate, verified: VerifiedAggregate) -> None:
    table = facts_table()
    table.add_row("result", f"[bold green]verified[/]: {count_of(len(loaded.jobs), 'job')} in one proof, stark")
    parts = zip(loaded.jobs, verified.jobs, verified.trusted, strict=True)
    for number, (job, own, trusted) in enumerate(parts, 1):
        table.add_row(f"[bold]job {number}[/]", told.line(job, own))
        for name, value in told.rows(job, own, trusted.vk):
            table.add_row(name, value)
    said = verified.explained
    table.add_row("[bold]all jobs[/]", f"{said.bits:.2f} bits, proven; fewest in {escape(said.weakest)}")
    for layer in said.layers:
        table.add_row("layer", f"over the jobs, {escape(layer_line(layer.to_record()))}")
    table.add_row("time", format_seconds(verified.seconds))
    out().print(table)
