"""`distprove prove stark --openvm-key`: proofs of OpenVM 2, in its own bytes, from a key and traces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, facts_table, format_seconds, print_json, reports_errors, warn
from distprove.cli.console import out as stdout
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.errors import InputError, InvalidProof, UsageError

if TYPE_CHECKING:
    from distprove.stark.openvm.key import OpenVmKey
    from distprove.stark.openvm.parts import PartCommitments
    from kernels.interface.openvm import OpenVmKernels

COMMAND = "stark-openvm"
"""The internal name of the command; users type `prove stark --openvm-key`."""
BESIDE = "stark"
"""The proof system under whose name it is typed."""
HINT = "`distprove prove stark --openvm-key KEY --traces FILE --out RUN` gives a proof of OpenVM 2 in its own bytes."
KEY_FLAG, TRACES_FLAG = "--openvm-key", "--traces"
PROOF = "proof.bin"
"""The file of a single proof. Several are proof-0.bin, proof-1.bin and so on, in the order of their traces."""


def numbered(i: int) -> str:
    """The file of the i-th of several proofs."""
    return f"proof-{i}.bin"


def is_meant(args: list[str]) -> bool:
    """Whether the words after `distprove prove` are `stark` and options for a proof of OpenVM."""
    return args[:1] == [BESIDE] and any(arg.partition("=")[0] in (KEY_FLAG, TRACES_FLAG) for arg in args)


@dataclass(frozen=True)
class Proven:
    """A proof that was verified and written."""

    path: Path
    size: int
    airs: int
    """Number of AIRs that have a trace."""
    seconds: dict[str, float]
    """Seconds of each step."""

    def to_record(self) -> dict[str, Any]:
        return {"proof": str(self.path), "bytes": self.size}


@reports_errors
@takes_groups
def prove_traces(
    openvm_key: Annotated[
        Path, typer.Option(KEY_FLAG, metavar="KEY", help="The proving key, as openvm-judge exports it.")
    ],
    traces: Annotated[
        list[Path],
        typer.Option(
            TRACES_FLAG, metavar="FILE", help="The traces of a proof; of one proof each, given several files."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help=f"The folder for {PROOF}, or proof-0.bin and so on, in OpenVM's encoding."),
        Writes(None),
    ],
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Prove traces under a key of OpenVM 2, verify each proof, and write it in OpenVM's encoding."""
    from distprove.stark.openvm.key_file import read_key
    from distprove.stark.openvm.parts import PartCommitments
    from distprove.stark.openvm.security import TARGET_BITS, security_bits

    begin, places = time.perf_counter(), _places(out, len(traces))
    for place in places:
        if place.exists() and not overwrite:
            raise UsageError(f"{place} is there already; --overwrite replaces it")
    key = read_key(openvm_key)
    read = time.perf_counter() - begin
    with computing.opened() as backend:
        device, parts = backend.info().name, PartCommitments(backend.openvm)
        proven = [_prove(backend.openvm, key, parts, *each) for each in zip(traces, places, strict=True)]
        del parts  # its memory is the backend's
    bits, total = security_bits(key), time.perf_counter() - begin
    seconds = {name: sum(each.seconds[name] for each in proven) for name in proven[0].seconds}
    seconds = {**seconds, "read": read + seconds["read"], "total": total}
    if as_json:
        records = [each.to_record() for each in proven]
        facts = records[0] if len(records) == 1 else {"proofs": records}
        print_json({"status": "proved", "system": "openvm", **facts, "security_bits": bits, "seconds": seconds})
        return
    table = facts_table()
    number = "one proof" if len(proven) == 1 else f"{len(proven)} proofs"
    table.add_row("result", f"[bold green]proved and verified[/]: {number} of OpenVM 2")
    for each in proven:
        size = f"{each.size} bytes, {each.airs} of {len(key.airs)} AIRs have a trace"
        table.add_row("proof", f"{escape(str(each.path))}, {size}")
    table.add_row("security", f"{bits:.1f} proven bits")
    told = ", ".join(f"{name} {format_seconds(each)}" for name, each in seconds.items())
    table.add_row("time", f"{told}; on {escape(device)}")
    stdout().print(table)
    if bits < TARGET_BITS:
        warn(f"the key's parameters prove {bits:.1f} bits of security; OpenVM's production parameters {TARGET_BITS:g}")


def _places(out: Path, count: int) -> Sequence[Path]:
    return [out / (PROOF if count == 1 else numbered(i)) for i in range(count)]


def _prove(kernels: OpenVmKernels, key: OpenVmKey, parts: PartCommitments, traces: Path, place: Path) -> Proven:
    """Prove the traces of a file, verify the proof, and write it."""
    from distprove.formats.files import write_atomically
    from distprove.stark.openvm.diagnosis import fault_of
    from distprove.stark.openvm.prover import prove
    from distprove.stark.openvm.traces import read_traces
    from distprove.stark.openvm.verifier import verify
    from distprove.steps import Steps

    steps = Steps()
    with steps("read"):
        given = read_traces(traces, key)
    try:
        proof = prove(kernels, key, given, steps, parts)
        with steps("verify"):
            verify(key, proof)
    except (InvalidProof, UsageError) as error:
        fault = fault_of(key, given)
        told = f"the traces violate the key: {fault}" if fault is not None else str(error)
        raise InputError(f"{traces}: {told}") from None
    data = proof.to_bytes()
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, data)
    return Proven(place, len(data), len(given), steps.seconds)
