"""`distprove setup groth16`, `distprove setup aggregation` and `distprove setup inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, format_seconds, out, print_json, reports_errors, tell, warn
from distprove.cli.option_groups import AsJson, Overwrite, TreeWires, Writes, takes_groups
from distprove.cli.plain_help import App
from distprove.cli.programs import import_from_here
from distprove.cli.zkey import contribute
from distprove.errors import UsageError
from distprove.options import SECURITY_BITS
from kernels.host.units import count_of, format_bytes

CircuitName = Annotated[
    str | None, typer.Option(help="A circuit in Python: one that ships, or one of your own as module:function.")
]


def _key_files(path: Path, given: Mapping[str, Any]) -> list[Path]:
    from distprove.groth16 import params

    return [path, params.vk_beside(path)] if path.suffix == params.SUFFIX else [path]


def _srs_files(path: Path, given: Mapping[str, Any]) -> list[Path]:
    from distprove.groth16.aggregate.srs import VERIFIER_SUFFIX

    return [path, path.with_name(path.name + VERIFIER_SUFFIX)]


def _began(doing: str) -> None:
    tell(f"set-up: {doing}")


app = App(no_args_is_help=True, help="Make proving keys, and inputs for measurements.")


@app.callback()
def options() -> None:
    """Make proving keys, and inputs for measurements."""


@app.command("groth16")
@reports_errors
@takes_groups
def groth16(
    destination: Annotated[
        Path, typer.Option("--out", help="The .zkey to write; or a .params, and the .vk beside it."), Writes(_key_files)
    ],
    r1cs: Annotated[Path | None, typer.Option(help="The circuit, as circom writes it.")] = None,
    circuit: CircuitName = None,
    ptau: Annotated[Path | None, typer.Option(help="A prepared powers-of-tau file, at least as large.")] = None,
    insecure_dev: Annotated[
        bool, typer.Option("--insecure-dev", help="No ceremony: a fresh secret. Quick, and safe for nothing.")
    ] = False,
    vk: Annotated[Path | None, typer.Option(help="Write verification_key.json here too."), Writes()] = None,
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Make a .zkey from a circuit, with a powers-of-tau file or, for development, without; or bellperson's .params."""
    from distprove.circuits.registry import circuit_maker, constraint_system
    from distprove.groth16 import params
    from distprove.groth16.r1cs import R1cs, read_r1cs
    from distprove.groth16.setup import setup
    from distprove.groth16.snarkjs import write_verification_key
    from distprove.groth16.templated import TemplatedSystem
    from distprove.groth16.zkey import read_zkey

    if (ptau is None) != insecure_dev:
        raise UsageError("give either --ptau or --insecure-dev")
    if (r1cs is None) == (circuit is None):
        raise UsageError("give either --r1cs or --circuit")
    if circuit is not None:
        import_from_here()
    make = None if circuit is None else circuit_maker(circuit)
    bellperson = destination.suffix == params.SUFFIX
    with computing.opened() as chosen:
        given: R1cs | TemplatedSystem
        _began(f"the circuit {circuit or r1cs}")
        if make is None:
            given = read_r1cs(r1cs or "")
        elif circuit is not None and bellperson:
            given = constraint_system(circuit)
        else:
            given = make().build().r1cs
        report = setup(given, ptau=ptau, insecure_dev=insecure_dev, backend=chosen, out=destination, began=_began)
        device = chosen.info().name
    if vk is not None:
        made = params.read_vk(params.vk_beside(destination)) if bellperson else None
        write_verification_key(vk, made or read_zkey(destination).verification_key)
    if as_json:
        plain = {k: v.hex() if isinstance(v, bytes) else v for k, v in asdict(report).items()}
        print_json({**plain, "vk": str(vk) if vk else None})
    else:
        console = out()
        console.print(f"[bold]{escape(str(destination))}[/]  {format_bytes(report.size)}, {report.curve}")
        console.print(
            f"{count_of(report.constraints, 'constraint')}, {count_of(report.wires, 'wire')}, {report.public} public; "
            f"domain 2^{report.domain_size.bit_length() - 1}"
        )
        steps = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.seconds.items())
        console.print(f"[dim]{escape(steps)} on {escape(device)}[/]")
    if report.insecure:
        warn(
            "an insecure development key: whoever made it can forge proofs. "
            + ("A .params file has no place to say so." if bellperson else "The key and every report say so.")
        )


@app.command("wrap")
@reports_errors
def wrap(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="A run or proof.msgpack that ends in one proof.")],
    destination: Annotated[Path, typer.Option("--out", metavar="C.r1cs", help="The circuit to write."), Writes()],
    vk: Annotated[
        Path | None, typer.Option(help="The key of a program of your own: its verifying_key.msgpack.")
    ] = None,
    security: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=128,
            show_default=f"{SECURITY_BITS:g}, or as many as a wrap can have",
            help="Proven bits to ask for of the proofs inside the wrap.",
        ),
    ] = None,
    tree_wires: TreeWires = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the circuit of a job's wrap, for a ceremony: `distprove setup groth16 --r1cs C.r1cs --ptau P.ptau`.

    Jobs of other programs have the same circuit if their trees have the same tables and bits: those whose second root
    has the key that is printed.
    """
    from cluster.record.run import read_proof
    from distprove.cli.summary import second_root_line
    from distprove.groth16.r1cs import write_r1cs
    from distprove.stark.wrap.contract_verifier import SecondRoot
    from distprove.stark.wrap.kept import keep_recorded
    from distprove.stark.wrap.listed import LEAST, second_root_of

    root = second_root_of(read_proof(proof), vk, LEAST if security is None else security, tree_wires)
    built, second = keep_recorded(root.key), SecondRoot.of(root.key)
    write_r1cs(destination, built)
    if as_json:
        counts = {"out": str(destination), "constraints": built.n_constraints, "wires": built.n_vars}
        told = {"bits": root.bits, "key_digest": root.key.digest.hex(), "second_root": second.to_record()}
        print_json({**counts, **told})
    else:
        out().print(
            f"[bold]{escape(str(destination))}[/]  {count_of(built.n_constraints, 'constraint')}, "
            f"{count_of(built.n_vars, 'wire')}"
        )
        out().print(f"{root.bits:.2f} bits, proven of the proofs inside the wrap")
        out().print(f"second root under key {root.key.digest.hex()}")
        out().print(f"second root {second_root_line(second.to_record())}")


app.command("contribute", hidden=True)(contribute)  # its name before there was `distprove zkey`


@app.command("aggregation")
@reports_errors
@takes_groups
def aggregation(
    destination: Annotated[
        Path, typer.Option("--out", help="The .srs to write; its verifier's part is put beside it."), Writes(_srs_files)
    ],
    proofs: Annotated[
        int, typer.Option(min=1, help="Proofs that one aggregate may be of, rounded up to a power of two.")
    ],
    ptau: Annotated[
        list[Path] | None, typer.Option(help="Powers-of-tau files of two independent ceremonies: give two.")
    ] = None,
    generic_srs: Annotated[
        Path | None, typer.Option(help="bellperson's file of both, such as Filecoin's v28-fil-inner-product-v1.srs.")
    ] = None,
    insecure_dev: Annotated[
        bool, typer.Option("--insecure-dev", help="No ceremonies: fresh secrets. Quick, and safe for nothing.")
    ] = False,
    curve: Annotated[str, typer.Option(help="With --insecure-dev: bn254 or bls12-381.")] = "bn254",
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Make the keys that proofs are aggregated with, from the files of two ceremonies; every point is checked."""
    from distprove.groth16.aggregate.generic_srs import FILECOIN_DIGEST, file_digest, read_generic_srs
    from distprove.groth16.aggregate.srs_setup import insecure_srs, srs_from_ceremonies, srs_from_generic
    from distprove.groth16.ptau import read_ptau
    from kernels.maths.curves import curve_by_name

    given = ptau or []
    if bool(given) + (generic_srs is not None) + insecure_dev != 1 or len(given) not in (0, 2):
        raise UsageError("give --ptau twice, for two ceremonies, or --generic-srs, or --insecure-dev")
    _, verifier = _srs_files(destination, {})
    with computing.opened() as chosen:
        if given:
            srs = srs_from_ceremonies(read_ptau(given[0]), read_ptau(given[1]), proofs, chosen)
        elif generic_srs is not None:
            srs = srs_from_generic(read_generic_srs(generic_srs, proofs), chosen)
        else:
            try:
                srs = insecure_srs(curve_by_name(curve), proofs, chosen)
            except KeyError as error:
                raise UsageError(str(error.args[0])) from None
    part = srs.verifier
    srs.write(destination)
    part.write(verifier)
    if as_json:
        made = {"out": str(destination), "verifier": str(verifier), "curve": srs.curve.title, "proofs": srs.n}
        print_json({**made, "insecure": srs.insecure, "digest": part.digest.hex()})
    else:
        size = format_bytes(destination.stat().st_size)
        out().print(f"[bold]{escape(str(destination))}[/]  {size}, {srs.curve.title}, up to {count_of(srs.n, 'proof')}")
        out().print(f"[bold]{escape(str(verifier))}[/]  for verifiers; digest {part.digest.hex()}")
    if generic_srs is not None and (digest := file_digest(generic_srs)) != FILECOIN_DIGEST:
        warn(f"{generic_srs} is not the file that Filecoin publishes ({digest}): its maker may know its secrets.")
    if srs.insecure:
        warn("insecure development keys: whoever made them can forge aggregates. Every aggregate under them says so.")


@app.command("inputs")
@reports_errors
def inputs(
    circuit: Annotated[str, typer.Option(help="A circuit that ships.")],
    destination: Annotated[
        Path,
        typer.Option("--out", help="The folder to write 0.json, 1.json and so on into."),
        Writes(lambda path, given: (path / f"{number}.json" for number in range(given["count"]))),
    ],
    count: Annotated[int, typer.Option(min=1, max=1 << 20, help="Inputs to make.")] = 1,
    seed: Annotated[int, typer.Option(help="What they are drawn from.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Make random inputs that satisfy a circuit, for measurements."""
    import json

    from distprove.circuits.registry import random_inputs
    from distprove.formats.files import write_atomically

    made = random_inputs(circuit, seed)
    destination.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        text = json.dumps({name: [str(value) for value in values] for name, values in made(number).items()})
        write_atomically(destination / f"{number}.json", text.encode())
    out().print(f"[bold]{escape(str(destination))}[/]  {count_of(count, 'input')} of {escape(circuit)}")
