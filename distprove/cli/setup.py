"""`distprove setup groth16`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.backends import open_backend
from distprove.cli.console import escape, format_seconds, out, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson
from distprove.cli.plain_help import App
from distprove.errors import UsageError
from kernels.host.units import format_bytes

app = App(no_args_is_help=True, help="Make proving keys.")


@app.callback()
def options() -> None:
    """Make proving keys."""


@app.command("groth16")
@reports_errors
def groth16(
    r1cs: Annotated[Path, typer.Option(help="The circuit, as circom writes it.")],
    destination: Annotated[
        Path, typer.Option("--out", help="The .zkey to write; or a .params, and the .vk beside it.")
    ],
    ptau: Annotated[Path | None, typer.Option(help="A prepared powers-of-tau file, at least as large.")] = None,
    insecure_dev: Annotated[
        bool, typer.Option("--insecure-dev", help="No ceremony: a fresh secret. Quick, and safe for nothing.")
    ] = False,
    vk: Annotated[Path | None, typer.Option(help="Write verification_key.json here too.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    backend: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a .zkey from a circuit, with a powers-of-tau file or, for development, without; or bellperson's .params."""
    from distprove.groth16 import params
    from distprove.groth16.keys import VerificationKey
    from distprove.groth16.r1cs import read_r1cs
    from distprove.groth16.setup import setup
    from distprove.groth16.snarkjs import write_verification_key
    from distprove.groth16.zkey import read_zkey

    if (ptau is None) != insecure_dev:
        raise UsageError("give either --ptau or --insecure-dev")
    bellperson = destination.suffix == params.SUFFIX
    for path in (destination, vk, params.vk_beside(destination) if bellperson else None):
        if path is not None and path.exists() and not overwrite:
            raise UsageError(f"{path} is there already; --overwrite replaces it")
    with open_backend(backend, threads=threads) as chosen:
        count = int(chosen.info().details.get("threads", threads or 1))
        report = setup(
            read_r1cs(r1cs), ptau=ptau, insecure_dev=insecure_dev, backend=chosen, out=destination, threads=count
        )
        device = chosen.info().name
    if vk is not None:
        made = params.read_vk(params.vk_beside(destination)) if bellperson else None
        write_verification_key(vk, made or VerificationKey.from_zkey(read_zkey(destination)))
    if as_json:
        plain = {k: v.hex() if isinstance(v, bytes) else v for k, v in asdict(report).items()}
        print_json({**plain, "vk": str(vk) if vk else None})
    else:
        console = out()
        console.print(f"[bold]{escape(str(destination))}[/]  {format_bytes(report.size)}, {report.curve}")
        console.print(
            f"{report.constraints} constraints, {report.wires} wires, {report.public} public; "
            f"domain 2^{report.domain_size.bit_length() - 1}"
        )
        steps = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.seconds.items())
        console.print(f"[dim]{escape(steps)} on {escape(device)}[/]")
    if report.insecure:
        warn(
            "an insecure development key: whoever made it can forge proofs. "
            + ("A .params file has no place to say so." if bellperson else "The key and every report say so.")
        )
