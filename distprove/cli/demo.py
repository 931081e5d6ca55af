"""`distprove demo`: a whole job, from circuit to verified proof, with nothing but this package."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.backends import open_backend
from distprove.cli.console import escape, format_seconds, out, reports_errors
from distprove.cli.option_groups import Writes
from distprove.cli.prove import run_job
from distprove.errors import UsageError
from kernels.host.units import count_of, format_bytes
from kernels.maths.curves import BN254

if TYPE_CHECKING:
    from rich.console import Console

MARKER = "This folder was made by `distprove demo`, which deletes it when it runs again.\n"
MARKER_NAME = "MADE_BY_DISTPROVE_DEMO"
RUN = "run"
DEPTH = 20
VOTERS = 8


@reports_errors
def demo(
    destination: Annotated[
        Path, typer.Option("--out", help="A folder for what the demo makes."), Writes(None, owns=True)
    ] = Path("demo-run"),
    partitions: Annotated[int, typer.Option(min=1, max=1000, help="Members who vote: one partition each.")] = VOTERS,
    ray: Annotated[bool, typer.Option("--ray", help="Over a Ray that is started for it.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, help="GPUs to use, at most.")] = None,
) -> None:
    """Prove that some members of a group vote, each once, without saying who: every step of a job, offline.

    A member's secret is a leaf of a Merkle tree under Poseidon. Each proof says "I know a secret in the tree with this
    root, and this is its nullifier in this vote", so that a second vote of the same member would show.
    """
    from distprove.job import Job
    from distprove.settings import ExecutorSettings

    console = out()
    _prepare(destination)

    _step(
        console,
        1,
        f"a group of {count_of(partitions, 'member')}, and the circuit that proves membership (tree depth {DEPTH})",
    )
    inputs = _make_inputs(console, destination, partitions, threads)

    _step(console, 3, f"prove {count_of(partitions, 'partition')}, verify each, bind them into one proof")
    run = destination / RUN
    job = Job.from_options("groth16", zkey=destination / "membership.zkey", witnesses=inputs, title="distprove demo")
    given = {"local": not ray, "threads": threads, "gpus": gpus}
    run_job(run, Job(job.system, job.options, job.title, ExecutorSettings().changed(given)))

    _step(console, 4, "verify the proof as anyone would, with nothing but the file and the verification key")
    _verify(console, destination, run)


def _prepare(folder: Path) -> None:
    from cluster.record.run import delete_run, is_run

    if folder.exists():
        if not (folder / MARKER_NAME).is_file():
            raise UsageError(f"{folder} is there already and not from a demo; choose another with --out")
        if is_run(folder / RUN):
            delete_run(folder / RUN)  # first: not one that a driver is at work on
        shutil.rmtree(folder)
    (folder / "witnesses").mkdir(parents=True)
    (folder / MARKER_NAME).write_text(MARKER)


def _make_inputs(console: Console, folder: Path, members: int, threads: int | None) -> Path:
    """Circuit, development key and one witness per member, as files; returns the folder of the witnesses."""
    from distprove.circuits.merkle import MembershipTree, membership_circuit, random_members
    from distprove.groth16.r1cs import write_r1cs
    from distprove.groth16.setup import setup
    from distprove.groth16.snarkjs import write_verification_key
    from distprove.groth16.wtns import write_wtns
    from distprove.groth16.zkey import read_zkey

    circuit = membership_circuit(BN254, DEPTH)
    tree = MembershipTree(BN254.fr, random_members(BN254.fr, members), DEPTH)
    write_r1cs(folder / "membership.r1cs", circuit.r1cs)
    console.print(
        f"   {count_of(circuit.r1cs.n_constraints, 'constraint')} over {BN254.title}, "
        f"{count_of(circuit.n_wires, 'wire')}"
    )

    _step(console, 2, "a proving key (insecure development set-up: no ceremony, good for a demo and nothing else)")
    scope = secrets.randbits(64)
    # On the CPU: no device needs to wake up for a circuit of this size.
    with open_backend("cpu", threads=threads) as backend:
        report = setup(circuit.r1cs, insecure_dev=True, backend=backend, out=folder / "membership.zkey")
        assignments = [tree.membership(i).inputs(scope) for i in range(members)]
        for i, witness in enumerate(circuit.witnesses(assignments, backend)):
            write_wtns(folder / "witnesses" / f"member-{i:03}.wtns", BN254, witness)
    key = read_zkey(folder / "membership.zkey").verification_key
    write_verification_key(folder / "verification_key.json", key)
    console.print(f"   {format_bytes(report.size)} in {format_seconds(sum(report.seconds.values()))}")
    return folder / "witnesses"


def _verify(console: Console, folder: Path, run: Path) -> None:
    from distprove import api

    vk = folder / "verification_key.json"
    verified = api.verify(run, vk=vk)
    count = verified.partitions
    console.print(
        f"   [bold green]verified[/]: {count_of(count, 'partition')} in one batch, {format_seconds(verified.seconds)}"
    )
    console.print("\nThe same by hand:")
    # The command to type: its path if its environment is not active.
    program = "distprove" if shutil.which("distprove") else os.path.relpath(Path(sys.executable).with_name("distprove"))
    console.print(f"   {program} verify {escape(str(run / 'proof.msgpack'))} --vk {escape(str(vk))} --show-public")
    console.print(f"   {program} export {escape(str(run))} --out {escape(str(folder / 'snarkjs'))}")
    console.print("\nThe same job over a Ray that is started for it:")
    console.print(f"   {program} demo --ray")


def _step(console: Console, number: int, what: str) -> None:
    if number > 1:
        console.print()
    console.print(f"[bold cyan]{number}[/]  [bold]{escape(what)}[/]")
