"""`distprove verify` and `distprove export`."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import (
    escape,
    facts_table,
    format_seconds,
    out,
    print_json,
    reports_errors,
    warn,
)
from distprove.cli.option_groups import AsJson, Reads, TreeWires, Writes, run_files
from distprove.errors import InputError, UsageError
from distprove.options import SECURITY_BITS
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.entry import OwnProgram

PROOF_JSON = "proof.json"
"""Name of a proof in the folder of each partition that `distprove export` writes, as snarkjs names it."""


@reports_errors
def verify(
    proof: Annotated[
        Path,
        typer.Argument(
            metavar="PROOF", help="proof.msgpack, a run folder, snarkjs's proof.json, or OpenVM's proof.bin."
        ),
    ],
    vk: Annotated[
        list[Path] | None,
        typer.Option(
            help="The key to trust: verification_key.json, verifying_key.msgpack, or OpenVM's key.bin; for several "
            "jobs, several."
        ),
    ] = None,
    trust_own_key: Annotated[
        bool, typer.Option("--trust-own-key", help="Without --vk: trust the key that the proof carries.")
    ] = False,
    program: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="Your own program, to make the key from; it is imported. Or one that ships, held to --with.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Option("--with", metavar="NAME=VALUE", help="An argument of that program; repeatable.")
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEX", help="The job digest this must be the proof of; for an aggregate those of all jobs."
        ),
    ] = None,
    srs_verifier: Annotated[
        Path | None, typer.Option("--srs-verifier", help="For an aggregate: the verifier's part of its keys.")
    ] = None,
    statement: Annotated[
        Path | None, typer.Option(help="For an aggregate without it: the file of names and public values.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The job's output, if it has one; by default output.bin of the run folder."),
    ] = None,
    exit_code: Annotated[
        int | None,
        typer.Option(
            "--exit-code",
            metavar="N",
            show_default="0",
            help="The exit code that the guest must have ended with.",
        ),
    ] = None,
    public_input: Annotated[
        Path | None,
        typer.Option("--public-input", metavar="FILE", help="The public input of the guest."),
    ] = None,
    security: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=128,
            show_default=f"{SECURITY_BITS:g}",
            help="Proven bits to ask for, of a proof that tells them; not of an aggregate.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=4096, help="CPU threads, or processes, at most; by default all.")
    ] = None,
    tree_wires: TreeWires = None,
    wrap_vk: Annotated[
        Path | None,
        typer.Option(
            "--wrap-vk",
            metavar="VK.json",
            help="Verify the wrap beside the proof, under this key that you trust, in place of the one proof.",
        ),
    ] = None,
    circuit: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The circuit that the key is of, where the statement names one; another is refused."
        ),
    ] = None,
    proof_type: Annotated[
        str | None,
        typer.Option(
            "--proof-type",
            metavar="NAME",
            help="The expected type of proof, where the statement names one, as StackedDrg32GiBV1_1.",
        ),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            "--public",
            metavar="FILE",
            help="The public values that you expect, as JSON: snarkjs's public.json, values by name, or the AIRs of "
            "OpenVM's proofs, as --json prints them.",
        ),
    ] = None,
    show_public: Annotated[
        bool, typer.Option("--show-public", help="List every partition with its public values.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a proof: its binding, then all partitions as one batch with random coefficients; or an aggregate.

    Groth16 needs --vk: the key in the file may be anyone's. A STARK of a program that ships needs none: see that
    program and arguments are those you expect. For a program of your own give --vk, or --program with its arguments;
    --program riscv --with elf=guest.elf holds a proof to that guest, --program file-root --with file=FILE to that file.
    A guest must have ended with --exit-code. With --public the proof must state these public values. A job with an
    output needs it, beside the proof or as --output. Of an aggregate of STARK jobs --vk and --program are for the jobs
    under that key or of that program. A wrap that a contract reads is verified with --wrap-vk from its proof.json,
    public.json and program.msgpack; a proof.json of snarkjs with the public.json beside it. A proof.bin of OpenVM 2
    needs --vk. Exit code 0 only if everything holds; 1 if something does not, or holds only under the file's own key;
    2 if the file cannot be read as a proof.
    """
    from cluster.record.run import read_proof
    from distprove.cli import verified as told
    from distprove.cli.aggregate import is_aggregate, is_of_several, verify_aggregate_file
    from distprove.cli.openvm import bare_proof, verify_openvm
    from distprove.cli.proof_json import is_proof_json, verify_proof_json
    from distprove.cli.read_wrap import verify_read
    from distprove.cli.summary import INSECURE_WRAP
    from distprove.expected import GivenPublic
    from distprove.formats.files import read_bounded
    from distprove.host.machine import usable_threads
    from distprove.proof import MAX_OUTPUT
    from distprove.registry import entry_of
    from distprove.several import contract_verifier
    from distprove.verification import verify_proof

    if wrap_vk is None and (bare := bare_proof(proof)) is not None:
        texts = program, arguments, job, srs_verifier, statement, output, public_input, circuit, proof_type, exit_code
        if trust_own_key or any(given is not None for given in (*texts, threads, tree_wires)):
            raise UsageError(
                f"{bare}: a proof of OpenVM 2 is verified with --vk, --security, --public, --show-public and --json "
                "alone: it carries no key, and states nothing more"
            )
        if vk is None or len(vk) != 1:
            raise UsageError(f"{bare}: a proof of OpenVM 2 is verified under the key that --vk names")
        verify_openvm(bare, vk[0], security, expected=public, show_public=show_public, as_json=as_json)
        return
    if bool(vk) + trust_own_key + (program is not None) > 1:
        raise UsageError("--vk, --program and --trust-own-key exclude each other")
    if wrap_vk is None:
        _require_ours(proof)
    digests, most = [_digest(text) for text in job or []], threads or usable_threads()
    if wrap_vk is None and is_proof_json(proof):
        others = (job, program, arguments, srs_verifier, statement, output, public_input, security, tree_wires)
        if trust_own_key or any(given is not None for given in (*others, circuit, proof_type, exit_code)):
            raise UsageError(
                "a proof in JSON is verified with --vk and --public alone: it carries no key, and states nothing more"
            )
        if len(vk or []) > 1:
            raise UsageError("more than one --vk is for one proof of several jobs")
        verify_proof_json(proof, vk[0] if vk else None, expected=public, show_public=show_public, as_json=as_json)
        return
    if wrap_vk is not None and contract_verifier().is_read(proof):
        unread = job, srs_verifier, statement, public_input, public, circuit, proof_type, threads
        if any(given is not None for given in unread) or trust_own_key or show_public:
            raise UsageError(
                "--job, --srs-verifier, --statement, --public-input, --circuit, --proof-type, --threads, --public, "
                "--show-public and --trust-own-key are not for a wrap that a contract reads"
            )
        if len(vk or []) > 1:
            raise UsageError("more than one --vk is for one proof of several jobs")
        verify_read(
            proof,
            wrap_vk,
            vk[0] if vk else None,
            own_program(program, arguments or [], proof),
            SECURITY_BITS if security is None else security,
            output=None if output is None else read_bounded(output, MAX_OUTPUT),
            exit_code=exit_code or 0,
            tree_wires=tree_wires,
            told_insecure=_is_told_insecure(proof),
            as_json=as_json,
        )
        return
    if wrap_vk is not None and (is_of_several(proof) or is_aggregate(proof)):
        raise UsageError("--wrap-vk is for one job that ends in one proof")
    if (circuit or proof_type) is not None and (is_of_several(proof) or is_aggregate(proof)):
        raise UsageError("--circuit and --proof-type are for the proof of one job, whose statement names them")
    if public is not None and (is_of_several(proof) or is_aggregate(proof)):
        raise UsageError("--public is for the proof of one job; --job names the jobs that you expect, by their digests")
    if is_of_several(proof):
        from distprove.cli.several_jobs import verify_several

        if srs_verifier is not None or statement is not None or output is not None or trust_own_key:
            raise UsageError(
                "--srs-verifier, --statement, --output and --trust-own-key are not for one proof of several jobs"
            )
        verify_several(
            proof,
            vk or [],
            own_program(program, arguments or [], proof),
            digests,
            SECURITY_BITS if security is None else security,
            exit_code=exit_code,
            public_input=public_input,
            tree_wires=tree_wires,
            show_public=show_public,
            as_json=as_json,
        )
        return
    if len(vk or []) > 1:
        raise UsageError("more than one --vk is for one proof of several jobs")
    key = vk[0] if vk else None
    if is_aggregate(proof):
        if key is None or srs_verifier is None:
            raise UsageError("an aggregate needs --vk and --srs-verifier, the keys that you trust")
        if any(given is not None for given in (exit_code, security, output, public_input, tree_wires)):
            raise UsageError("--security, --output, --exit-code, --public-input, --tree-wires: not for aggregates")
        verify_aggregate_file(
            proof, key, srs_verifier, statement, digests, threads=most, show_public=show_public, as_json=as_json
        )
        return
    if srs_verifier is not None or statement is not None or len(digests) > 1:
        raise UsageError("--srs-verifier, --statement and more than one --job are for aggregates")
    own = own_program(program, arguments or [], proof)
    expected = digests[0] if digests else None
    loaded = read_proof(proof, with_output=output is None)
    least = SECURITY_BITS if security is None else security
    if output is not None:
        loaded = replace(loaded, output=read_bounded(output, MAX_OUTPUT))
    verified = verify_proof(
        loaded,
        key,
        expected,
        least,
        trust_own_key=trust_own_key,
        program=own,
        output=loaded.output if output is not None else None,
        exit_code=exit_code,
        public_input=public_input,
        public=None if public is None else GivenPublic.read(public),
        threads=most,
        tree_wires=tree_wires,
        wrap=None if wrap_vk is None else (proof, wrap_vk),
        circuit=circuit,
        proof_type=proof_type,
    )
    if as_json:
        print_json({"status": "verified", **told.record(loaded, verified)})
    else:
        table = facts_table()
        table.add_row("result", f"[bold green]verified[/]: {told.line(loaded, verified)}")
        for name, value in told.rows(loaded, verified, "" if key is None else str(key)):
            table.add_row(name, value)
        if public is not None:
            count = verified.public_compared or 0
            table.add_row("public", f"{count_of(count, 'value')} as expected\n[dim]given: {escape(str(public))}[/]")
        table.add_row("time", format_seconds(verified.seconds))
        out().print(table)
        if show_public:
            told.print_public(loaded, verified)
    if verified.weakness is not None:
        warn(verified.weakness)
    elif wrap_vk is not None and (told_insecure := _is_told_insecure(proof)) is not False:
        says = (
            f"says: {INSECURE_WRAP}"
            if told_insecure
            else "is missing, which would say whether the wrap's key is insecure"
        )
        warn(f"the report beside the proof {says}")
    if verified.unbound is not None:
        warn(verified.unbound)
    if not verified.key_given and not entry_of(loaded.system).remakes_key:
        warn("verified under the key that came with the proof, as you asked; --vk says which key you trust")


def _require_ours(path: Path) -> None:
    """Raise UsageError, which names the way, for a folder whose proof is a proof.json."""
    from distprove.proof import PROOF_FILE

    if path.is_dir() and not (path / PROOF_FILE).exists():
        if (path / PROOF_JSON).is_file():
            raise UsageError(f"{path} has no {PROOF_FILE}; {path / PROOF_JSON} is a proof by itself: verify that file")
        if within := sorted(path.glob(f"*/{PROOF_JSON}")):  # as `export` writes them
            raise UsageError(f"{path} has no {PROOF_FILE}; it has single proofs: verify {within[0]}, one at a time")


def _is_told_insecure(proof: Path) -> bool | None:
    """Whether the report beside a proof says that its wrap's key is a development key, or a weak one; None where there
    is no report. A verification key itself does not show the first."""
    from cluster.record.story import read_report

    try:
        return bool(read_report(proof if proof.is_dir() else proof.parent)["facts"].get("insecure_wrap"))
    except (InputError, UsageError):  # no report that can be read
        return None


def own_program(program: str | None, arguments: list[str], proof: Path) -> OwnProgram | None:
    """The program that is named: one that ships, or the user's own, which is imported from beside the command and never
    from inside of the run that is verified. Raises UsageError."""
    from cluster.record.run import require_code_outside
    from distprove.cli.programs import import_from_here, pairs
    from distprove.entry import OwnProgram
    from distprove.formats.owncode import names_code

    if program is None:
        if arguments:
            raise UsageError("--with is for the program that --program names")
        return None
    if names_code(program):
        import_from_here()
        require_code_outside(program, proof)
    return OwnProgram(program, pairs(arguments))


@reports_errors
def export(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run folder, or a proof.msgpack; with --solidity also a verification_key.json."
        ),
        Reads(run_files),
    ],
    destination: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write DIR/<partition>/..."), Writes(None)
    ],
    partial: Annotated[
        bool, typer.Option("--partial", help="Of a run that is not finished: the partitions that are proven.")
    ] = False,
    solidity: Annotated[
        bool,
        typer.Option(
            "--solidity", help="Of proofs that a contract verifies, or their key: also the contract, and calldata."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write what others verify with: the key, and the proof of every partition, in the files of the proof system's own
    verifiers (snarkjs' JSON, or verifying_key.msgpack for `verify --vk`).
    """
    from cluster.record.run import read_partial_proof, read_proof
    from distprove.registry import SYSTEMS, entry_of

    if solidity and run.suffix == ".json":
        _export_contract(run, destination, as_json)
        return
    loaded = read_partial_proof(run) if partial else read_proof(run)
    if loaded.system not in SYSTEMS:
        raise UsageError(f"a proof of {loaded.system} cannot be exported")
    entry = entry_of(loaded.system)
    if solidity and entry.contracts is None:
        raise UsageError(f"no contract verifies a proof of {loaded.system}, so that there is nothing for --solidity")
    made = entry.export(loaded, run, destination)
    written = entry.contracts(loaded, destination, made.names) if solidity and entry.contracts is not None else None
    if made.weakness is not None:
        warn(made.weakness)
    mapped = _keep_map(run, destination, {p.name: name for p, name in zip(loaded.partitions, made.names, strict=True)})
    count = len(made.names)
    if as_json:
        shown = {"out": str(destination), "partitions": made.names, "files": mapped}
        print_json({**shown, "weakness": made.weakness})
        return
    out().print(f"{count} partition{'s' * (count != 1)} in {escape(str(destination))}.")
    if written is not None:
        contract, calldata = written
        where = f"{escape(str(destination / contract))}; the {calldata} beside each proof is a call of it."
        out().print(f"The contract that verifies under this key: {where}", soft_wrap=True)
    if made.own_key:
        out().print("[dim]The key is the one that came with the proof: compare it with the one that you trust.[/]")
    out().print(f"To check {'it' if count == 1 else 'them' if made.checks_all else 'one'}:")
    out().print(f"  {escape(shlex.join(made.command))}", soft_wrap=True)


def _export_contract(key: Path, destination: Path, as_json: bool) -> None:
    from distprove.registry import SYSTEMS, entry_of

    (write,) = (own for own in (entry_of(system).contract_of_key for system in SYSTEMS) if own is not None)
    contract, weakness = write(key, destination)
    if weakness is not None:
        warn(weakness)
    if as_json:
        print_json({"out": str(destination), "contract": contract, "weakness": weakness})
        return
    out().print(f"The contract that verifies under this key: {escape(str(destination / contract))}")


def _keep_map(run: Path, destination: Path, exported: dict[str, str]) -> dict[str, str]:
    """Write which file each exported partition was made from, beside what an earlier export wrote there; empty where
    the run names none. Raises InputError."""
    from cluster.record.run import MAX_RECORD, StoredRun, is_run
    from distprove.entry import MAP
    from distprove.formats.folder import Folder
    from distprove.formats.jsontext import read_in

    files = StoredRun.read(run).files() if is_run(run) else {}
    mapped = {name: files[partition] for partition, name in exported.items() if partition in files}
    with Folder.open_ours(destination) as folder:
        before = read_in(folder, MAP, MAX_RECORD) if mapped and folder.has(MAP) else {}
        if not isinstance(before, dict) or any(before.get(name, file) != file for name, file in mapped.items()):
            raise InputError(f"{destination / MAP} is there already, with another content; choose another folder")
        if mapped:
            folder.write(MAP, json.dumps({**before, **mapped}, indent=1).encode() + b"\n")
    return mapped


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise UsageError("a job digest is 64 hexadecimal digits")
    return digest
