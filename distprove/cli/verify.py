"""`distprove verify` and `distprove export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from distprove.cli.console import format_seconds, out, print_json, reports_errors, warn
from distprove.cli.summary import proven_rows
from distprove.errors import UsageError
from distprove.verification import LEAST_SECURITY


@reports_errors
def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="proof.msgpack, or a run folder.")],
    vk: Annotated[
        Path | None, typer.Option(help="The key to trust: verification_key.json, or a STARK's .msgpack.")
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="HEX", help="The job digest this must be the proof of.")] = None,
    security: Annotated[
        float, typer.Option(min=0, max=128, help="Proven bits to ask of a STARK, at least.")
    ] = LEAST_SECURITY,
    show_public: Annotated[bool, typer.Option("--public", help="List every partition with its public values.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Verify a proof: its binding, then all partitions as one batch with random coefficients.

    A STARK of a program that ships needs no key: see that program and arguments are those you expect. Exit code 0 only
    if everything holds; 1 if something does not; 2 if the file cannot be read as a proof.
    """
    from distprove import api
    from distprove.proof import Proof

    expected = _digest(job) if job is not None else None
    loaded = Proof.read(proof / "proof.msgpack" if proof.is_dir() else proof)
    verified = api.verify(loaded, vk=vk, expected_job=expected, least_security=security)
    if as_json:
        print_json(
            {
                "status": "verified",
                "system": loaded.system,
                "partitions": [{"name": p.name, "public": [str(v) for v in p.public]} for p in loaded.partitions],
                "job_digest": loaded.job_digest.hex(),
                "job_digest_given": expected is not None,
                "key_digest": verified.key_digest.hex(),
                "key_given": verified.key_given,
                "proven": verified.proven,
                "seconds": verified.seconds,
            }
        )
    else:
        console = out()
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        count = len(loaded.partitions)
        table.add_row("result", f"[bold green]verified[/]: {count} partition{'s' * (count != 1)}, {loaded.system}")
        for name, value in proven_rows(verified.proven):
            table.add_row(name, escape(value))
        known = "made from the program" if verified.proven else "came with the proof"
        origin = f"given: {escape(str(vk))}" if verified.key_given else known
        table.add_row("key", f"{verified.key_digest.hex()}\n[dim]{origin}[/]")
        stated = "as expected" if expected else "what the file states; --job says which one you expect"
        table.add_row("job", f"{loaded.job_digest.hex()}\n[dim]{stated}[/]")
        table.add_row("time", format_seconds(verified.seconds))
        console.print(table)
        if show_public:
            for p in loaded.partitions:
                console.print(f"{escape(p.name)}: {', '.join(map(str, p.public))}")
    if not verified.key_given and not verified.proven:
        warn("verified under the key that came with the proof; --vk says which key you trust")


@reports_errors
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a proof.msgpack.")],
    destination: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write DIR/<partition>/...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Write proof.json and public.json of every partition, as snarkjs writes them, and verification_key.json."""
    from distprove.groth16.keys import VerificationKey
    from distprove.groth16.proof import Groth16Proof
    from distprove.groth16.snarkjs import write_proof, write_public, write_verification_key
    from distprove.proof import Proof

    loaded = Proof.read(run / "proof.msgpack" if run.is_dir() else run)
    if loaded.system != "groth16":
        raise UsageError(f"only groth16 proofs have snarkjs' form; this is a proof of {loaded.system}")
    for partition in loaded.partitions:
        folder = destination / partition.name
        folder.mkdir(parents=True, exist_ok=True)
        write_proof(folder / "proof.json", Groth16Proof.from_dict(partition.data))
        write_public(folder / "public.json", partition.public)
    write_verification_key(destination / "verification_key.json", VerificationKey.from_dict(loaded.verification_key))
    if as_json:
        print_json({"out": str(destination), "partitions": [p.name for p in loaded.partitions]})
    else:
        first = loaded.partitions[0].name
        console = out()
        console.print(f"{len(loaded.partitions)} partitions in {escape(str(destination))}. To check one:")
        console.print(
            f"  snarkjs groth16 verify {escape(str(destination / 'verification_key.json'))} "
            f"{escape(str(destination / first / 'public.json'))} {escape(str(destination / first / 'proof.json'))}"
        )


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise UsageError("a job digest is 64 hexadecimal digits")
    return digest
