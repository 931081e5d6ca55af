"""`distprove aggregate`, and what `distprove verify` does with an aggregate of Groth16 proofs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, facts_table, format_seconds, out, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson, Overwrite, Reads, Writes, run_files, takes_groups
from distprove.errors import UsageError
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distprove.groth16.aggregate.jobs import AggregatedJobs
    from distprove.proof import Proof

_INSECURE = "the aggregation keys are insecure development keys: whoever made them can forge aggregates"


@reports_errors
@takes_groups
def aggregate(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, or proof.msgpack files."), Reads(run_files)
    ],
    destination: Annotated[Path, typer.Option("--out", metavar="A", help="The aggregate to write."), Writes()],
    srs: Annotated[
        Path | None,
        typer.Option(help="For Groth16: the aggregation keys, a .srs of `distprove setup aggregation`."),
    ] = None,
    vk: Annotated[
        list[Path] | None,
        typer.Option(help="For STARK jobs of your own programs: a verifying_key.msgpack; repeatable."),
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option(help="For Groth16: write names and public values here, and not into the aggregate."),
        Writes(),
    ] = None,
    bellperson: Annotated[
        Path | None,
        typer.Option(help="Over BLS12-381: write the bytes of bellperson's AggregateProof here too."),
        Writes(),
    ] = None,
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Aggregate the proofs of several jobs into one: all under one key (docs/aggregation.md), or of jobs that end
    in one proof, each under its own key (docs/recursion.md).

    The size of a Groth16 aggregate grows with the logarithm of the number of proofs. Of STARK jobs the aggregate has
    one proof of a fixed size, and what each job states. Of sealed sectors it has the bytes that Filecoin's network
    verifies, in the order of the runs. It is verified before it is written.
    """
    from cluster.record.run import read_proof

    proofs = [read_proof(run) for run in runs]
    systems = {proof.system for proof in proofs}
    if len(systems) > 1:
        raise UsageError(f"proofs of {' and '.join(sorted(systems))} have no aggregate in common")
    if systems == {"stark"}:
        from distprove.cli.several_jobs import aggregate_several

        if srs is not None or statement is not None or bellperson is not None:
            raise UsageError("--srs, --statement and --bellperson are for Groth16 proofs")
        aggregate_several(runs, proofs, vk or [], destination, computing=computing, as_json=as_json)
        return
    if vk:
        raise UsageError("--vk is for STARK jobs")
    if srs is None:
        raise UsageError("Groth16 proofs are aggregated under --srs, the keys of `distprove setup aggregation`")
    if systems == {"filecoin"}:
        if statement is not None or bellperson is not None:
            raise UsageError("an aggregate of sectors has bellperson's bytes and no statement: leave out both options")
        _aggregate_sectors(proofs, srs, destination, computing=computing, as_json=as_json)
        return
    _aggregate_groth16(proofs, srs, destination, statement, bellperson, computing=computing, as_json=as_json)


def _aggregate_groth16(
    proofs: Sequence[Proof],
    srs: Path,
    destination: Path,
    statement: Path | None,
    bellperson: Path | None,
    *,
    computing: Computing,
    as_json: bool,
) -> None:
    from distprove.formats.files import write_atomically
    from distprove.groth16.aggregate.aggregator import FEW, aggregate_jobs, run_on
    from distprove.groth16.aggregate.jobs import key_of, published
    from distprove.groth16.aggregate.proof import Aggregate
    from distprove.groth16.aggregate.srs import read_srs
    from distprove.host.machine import usable_threads
    from kernels.maths.curves import BLS12_381

    keys = read_srs(srs)
    if bellperson is not None and keys.curve is not BLS12_381:
        raise UsageError(f"bellperson's aggregates are over {BLS12_381.title}, these keys over {keys.curve.title}")
    if computing.backend == "auto" and sum(len(proof.partitions) for proof in proofs) <= FEW:
        computing = replace(computing, backend="cpu")
    with computing.opened() as chosen:
        begin = time.perf_counter()
        cpus = computing.threads or usable_threads()
        made = aggregate_jobs(proofs, keys, run_on(chosen, cpus), threads=cpus)
        seconds = time.perf_counter() - begin
    files = {destination: published(made if statement is None else made.with_statement(None))}
    if statement is not None and made.statement is not None:
        files[statement] = published(made.statement)
    if bellperson is not None:
        files[bellperson] = Aggregate.from_bytes(made.curve, made.aggregate).for_bellperson()
    for path, content in files.items():
        write_atomically(path, content)
    weakness = key_of(proofs).weakness
    if as_json:
        print_json({"out": str(destination), **_facts(made, weakness), "seconds": seconds})
    else:
        size = format_bytes(destination.stat().st_size)
        out().print(
            f"[bold]{escape(str(destination))}[/]  {size}: {count_of(made.count, 'proof')} in "
            f"{count_of(len(made.aggregate), 'byte')}, "
            f"{made.curve.title}, in {format_seconds(seconds)}"
        )
    _warn_of(made, weakness)


def _aggregate_sectors(
    proofs: Sequence[Proof], srs: Path, destination: Path, *, computing: Computing, as_json: bool
) -> None:
    """Write the aggregate of sealed sectors as Filecoin's network takes it."""
    from distprove.filecoin.aggregate import aggregate_sectors, sectors_of
    from distprove.formats.files import write_atomically
    from distprove.groth16.aggregate.aggregator import FEW, run_on
    from distprove.groth16.aggregate.srs import read_srs
    from distprove.host.machine import usable_threads

    keys, (key, sectors, snarks) = read_srs(srs), sectors_of(proofs)
    if computing.backend == "auto" and sum(map(len, snarks)) <= FEW:
        computing = replace(computing, backend="cpu")
    with computing.opened() as chosen:
        begin = time.perf_counter()
        cpus = computing.threads or usable_threads()
        made = aggregate_sectors(key, sectors, snarks, keys, run_on(chosen, cpus), threads=cpus)
        seconds = time.perf_counter() - begin
    write_atomically(destination, made)
    count = sum(map(len, snarks))
    if as_json:
        stated = [sector.says() for sector in sectors]
        facts = {"bytes": len(made), "proofs": count, "sectors": stated, "insecure": keys.insecure}
        print_json({"out": str(destination), **facts, "weakness": key.weakness, "seconds": seconds})
    else:
        of = f"{count_of(len(sectors), 'sector')}, {count_of(count, 'proof')} in {count_of(len(made), 'byte')}"
        out().print(f"[bold]{escape(str(destination))}[/]  {of}, in {format_seconds(seconds)}")
        for sector in sectors:
            seed = f"  [dim]seed {sector.seed.hex()}[/]" if sector.has_seed else ""
            out().print(f"comm_r {sector.comm_r.hex()}{seed}")
    if keys.insecure:
        warn(_INSECURE)
    if key.weakness is not None:
        warn(key.weakness)


def is_of_several(path: Path) -> bool:
    """Whether a file begins as an aggregate of STARK jobs does."""
    from distprove.stark.aggregate import BEGINS

    return _begin(path).startswith(BEGINS)


def is_aggregate(path: Path) -> bool:
    """Whether a file begins as an aggregate of Groth16 proofs does."""
    from distprove import proof

    begin = _begin(path)
    if not begin:
        return False
    if begin.startswith(proof.BEGINS):  # as most do: what aggregates need takes half of this command's start
        return False
    from distprove.groth16.aggregate.jobs import BEGINS

    return begin.startswith(BEGINS)


def _begin(path: Path) -> bytes:
    from distprove.formats.files import is_file

    if not is_file(path):
        return b""
    with path.open("rb") as file:
        return file.read(16)


def verify_aggregate_file(
    path: Path,
    vk: Path,
    srs_verifier: Path,
    statement: Path | None,
    expected: list[bytes],
    *,
    threads: int,
    show_public: bool,
    as_json: bool,
) -> None:
    """Verify an aggregate's file and print what it states. Raises as `AggregatedJobs.verify`, and for bad files."""
    from distprove.groth16.aggregate.jobs import AggregatedJobs, Statement
    from distprove.groth16.aggregate.srs import VerifierSrs
    from distprove.groth16.keyfile import read_verification_key

    loaded = AggregatedJobs.read(path)
    if statement is not None:
        loaded = loaded.with_statement(Statement.read(statement))
    key, keys = read_verification_key(vk), VerifierSrs.read(srs_verifier)
    begin = time.perf_counter()
    loaded.verify(key, keys, expected or None, threads=threads)
    seconds = time.perf_counter() - begin
    stated = [] if loaded.statement is None else loaded.statement.jobs
    if as_json:
        listed = [[{"name": name, "public": [str(v) for v in public]} for name, public in job] for job in stated]
        print_json(
            {"status": "verified", **_facts(loaded, key.weakness), "jobs_given": bool(expected), "seconds": seconds}
            | {"partitions": listed}
        )
    else:
        table = facts_table()
        table.add_row("result", f"[bold green]verified[/]: an aggregate of {count_of(loaded.count, 'proof')}, groth16")
        table.add_row("key", f"{loaded.key_digest.hex()}\n[dim]given: {escape(str(vk))}[/]")
        table.add_row("keys", f"{loaded.srs_digest.hex()}\n[dim]given: {escape(str(srs_verifier))}[/]")
        origin = "as expected" if expected else "what the file states; --job says which ones you expect"
        for job in loaded.jobs:
            table.add_row("job", f"{job.digest.hex()}, {count_of(job.count, 'partition')}\n[dim]{origin}[/]")
        table.add_row("time", format_seconds(seconds))
        out().print(table)
        if show_public:
            for name, public in (partition for job in stated for partition in job):
                out().print(f"{escape(name)}: {', '.join(map(str, public))}")
    _warn_of(loaded, key.weakness)


def _warn_of(made: AggregatedJobs, weakness: str | None) -> None:
    if made.insecure:
        warn(_INSECURE)
    if weakness is not None:
        warn(weakness)


def _facts(made: AggregatedJobs, weakness: str | None) -> dict[str, object]:
    return {
        "curve": made.curve.title,
        "proofs": made.count,
        "bytes": len(made.aggregate),
        "jobs": [{"digest": job.digest.hex(), "partitions": job.count} for job in made.jobs],
        "key_digest": made.key_digest.hex(),
        "aggregation_keys": made.srs_digest.hex(),
        "insecure": made.insecure,
        "weakness": weakness,
    }
