"""`distprove verify` and `distprove export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson
from distprove.errors import InputError, UsageError
from distprove.options import SECURITY_BITS

if TYPE_CHECKING:
    from distprove.proof import Proof


@reports_errors
def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="proof.msgpack, or a run folder.")],
    vk: Annotated[
        Path | None, typer.Option(help="The key to trust: verification_key.json, or a STARK's .msgpack.")
    ] = None,
    trust_own_key: Annotated[
        bool, typer.Option("--trust-own-key", help="Without --vk: trust the key that a Groth16 proof carries.")
    ] = False,
    job: Annotated[str | None, typer.Option(metavar="HEX", help="The job digest this must be the proof of.")] = None,
    security: Annotated[
        float, typer.Option(min=0, max=128, help="Proven bits to ask of a STARK, at least.")
    ] = SECURITY_BITS,
    show_public: Annotated[bool, typer.Option("--public", help="List every partition with its public values.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a proof: its binding, then all partitions as one batch with random coefficients.

    Groth16 needs --vk: the key in the file may be anyone's. A STARK of a program that ships needs none: see that
    program and arguments are those you expect. Exit code 0 only if everything holds; 1 if something does not, or holds
    only under the file's own key; 2 if the file cannot be read as a proof.
    """
    from distprove.proof import Proof
    from distprove.verification import verify_proof

    if vk is not None and trust_own_key:
        raise UsageError("--vk and --trust-own-key exclude each other")
    expected = _digest(job) if job is not None else None
    loaded = Proof.read_from(proof)
    verified = verify_proof(loaded, vk, expected, security, trust_own_key=trust_own_key)
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
        from distprove.cli.summary import proven_rows

        console = out()
        table = facts_table()
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
        warn("verified under the key that came with the proof, as you asked; --vk says which key you trust")


@reports_errors
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a proof.msgpack.")],
    destination: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write DIR/<partition>/...")],
    as_json: AsJson = False,
) -> None:
    """Write what others verify with. Of Groth16: proof.json and public.json of every partition, and the key, as snarkjs
    has them. Of a STARK: verifying_key.msgpack, for `verify --vk`, and the partitions' proofs.
    """
    from distprove.export import export_groth16
    from distprove.proof import Proof
    from distprove.stark.programs import PROGRAMS

    loaded = Proof.read_from(run)
    if loaded.system == "groth16":
        names = export_groth16(loaded, destination)
    elif loaded.system == "stark":
        names = _export_stark(loaded, run, destination)
    else:
        raise UsageError(f"a proof of {loaded.system} cannot be exported")
    if as_json:
        print_json({"out": str(destination), "partitions": names})
        return
    where, first, count = escape(str(destination)), escape(names[0]), len(names)
    one = "one" if loaded.system == "groth16" else "them"
    out().print(f"{count} partition{'s' * (count != 1)} in {where}. To check {one if count > 1 else 'it'}:")
    own = loaded.system == "groth16" or str(loaded.verification_key.get("program")) not in PROGRAMS
    if own:
        out().print("[dim]The key is the one that came with the proof: compare it with the one that you trust.[/]")
    if loaded.system == "groth16":
        files = f"{where}/verification_key.json {where}/{first}/public.json {where}/{first}/proof.json"
        out().print(f"  snarkjs groth16 verify {files}")
    else:
        proof = run / "proof.msgpack" if run.is_dir() else run
        out().print(f"  distprove verify {escape(str(proof))} --vk {where}/verifying_key.msgpack")


def _export_stark(proof: Proof, run: Path, destination: Path) -> list[str]:
    """The key is made again by the program that ships under the proof's name, or else is the one that lies in the run:
    no program is imported."""
    from cluster.record.run import KEY_FILE
    from distprove.export import export_stark
    from distprove.formats.folder import Folder
    from distprove.stark.keyfile import parse_key, shipped_key
    from distprove.stark.programs import PROGRAMS
    from distprove.stark.verifying_key import MAX_BYTES

    if str(proof.verification_key.get("program")) in PROGRAMS:
        key, _ = shipped_key(proof.verification_key)
    elif run.is_dir():
        with Folder.open(run) as folder:
            if not folder.has(KEY_FILE):
                raise InputError(
                    f"{run} has no {KEY_FILE}: it was made by an earlier distprove; "
                    f"distprove resume {run} --program MODULE:CLASS writes it"
                )
            key = parse_key(folder.read(KEY_FILE, MAX_BYTES), str(run / KEY_FILE))
    else:
        raise InputError(f"the program of {run} does not ship with distprove: name the run folder, which holds its key")
    return export_stark(proof, key, destination)


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise UsageError("a job digest is 64 hexadecimal digits")
    return digest
