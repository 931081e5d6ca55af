"""`distprove prove stark --openvm-key`: one proof of OpenVM 2, in its own bytes, from a key and traces."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import escape, facts_table, format_seconds, print_json, reports_errors, warn
from distprove.cli.console import out as stdout
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.errors import InputError, InvalidProof, UsageError

COMMAND = "stark-openvm"
"""The internal name of the command; users type `prove stark --openvm-key`."""
BESIDE = "stark"
"""The proof system under whose name it is typed."""
HINT = "`distprove prove stark --openvm-key KEY --traces FILE --out RUN` gives a proof of OpenVM 2 in its own bytes."
KEY_FLAG = "--openvm-key"
PROOF = "proof.bin"


def is_meant(args: list[str]) -> bool:
    """Whether the words after `distprove prove` are `stark` and options for a proof of OpenVM."""
    return args[:1] == [BESIDE] and any(arg.partition("=")[0] == KEY_FLAG for arg in args)


@reports_errors
@takes_groups
def prove_traces(
    openvm_key: Annotated[
        Path, typer.Option(KEY_FLAG, metavar="KEY", help="The proving key, as openvm-judge exports it.")
    ],
    traces: Annotated[Path, typer.Option(metavar="FILE", help="The traces and public values of one proof.")],
    out: Annotated[Path, typer.Option(help=f"The folder for {PROOF}, in OpenVM's encoding."), Writes(None)],
    overwrite: Overwrite = False,
    threads: Annotated[int | None, typer.Option(min=1, max=4096, help="CPU threads; by default all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prove traces under a key of OpenVM 2 on the CPU, verify the proof, and write it in OpenVM's encoding."""
    from distprove.cli.backends import open_backend
    from distprove.formats.files import write_atomically
    from distprove.stark.openvm.key_file import read_key
    from distprove.stark.openvm.prover import prove
    from distprove.stark.openvm.security import TARGET_BITS, security_bits
    from distprove.stark.openvm.traces import read_traces
    from distprove.stark.openvm.verifier import verify
    from distprove.steps import Steps

    begin, steps, written = time.perf_counter(), Steps(), out / PROOF
    if written.exists() and not overwrite:
        raise UsageError(f"{written} is there already; --overwrite replaces it")
    with steps("read"):
        key = read_key(openvm_key)
        given = read_traces(traces, key)
    with open_backend("cpu", threads=threads) as backend:
        device = backend.info().name
        proof = prove(backend.openvm, key, given, steps)
    with steps("verify"):
        try:
            verify(key, proof)
        except InvalidProof as error:
            raise InputError(f"{traces}: the traces violate a constraint of the key: {error}") from None
    data, bits = proof.to_bytes(), security_bits(key)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(written, data)
    seconds = {**steps.seconds, "total": time.perf_counter() - begin}
    if as_json:
        facts = {"system": "openvm", "proof": str(written), "bytes": len(data), "security_bits": bits}
        print_json({"status": "proved", **facts, "seconds": seconds})
        return
    table = facts_table()
    table.add_row("result", "[bold green]proved and verified[/]: one proof of OpenVM 2")
    table.add_row("proof", f"{escape(str(written))}, {len(data)} bytes")
    table.add_row("AIRs", f"{len(given)} of {len(key.airs)} have a trace")
    table.add_row("security", f"{bits:.1f} proven bits")
    told = ", ".join(f"{name} {format_seconds(each)}" for name, each in seconds.items())
    table.add_row("time", f"{told}; on {escape(device)}")
    stdout().print(table)
    if bits < TARGET_BITS:
        warn(f"the key's parameters prove {bits:.1f} bits of security; OpenVM's production parameters {TARGET_BITS:g}")
