"""`distprove wtns`: witnesses of circom's circuits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, fail, out, print_json, reports_errors
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.cli.plain_help import App
from distprove.errors import WitnessGenerationError
from kernels.host.units import count_of

app = App(no_args_is_help=True, help="Make witnesses, and check them against their circuit.")


@app.callback()
def options() -> None:
    """Make witnesses, and check them against their circuit."""


@app.command("calculate")
@reports_errors
def calculate(
    wasm: Annotated[Path, typer.Option(help="The circuit's witness program, as circom writes it.")],
    input_file: Annotated[Path, typer.Option("--input", help="The inputs, a JSON file.")],
    destination: Annotated[Path, typer.Option("--out", help="The .wtns to write: secret, for its owner."), Writes()],
    overwrite: Overwrite = False,
) -> None:
    """Make a witness of an input, as `snarkjs wtns calculate` does. The program runs in a sandbox."""
    from distprove.groth16.inputs import read_input
    from distprove.groth16.witness import WitnessProgram
    from distprove.groth16.wtns import write_wtns

    program = WitnessProgram(wasm)
    try:
        witness = program.generate(read_input(input_file))
    except WitnessGenerationError as error:
        raise WitnessGenerationError(f"{input_file}: {error}") from None
    write_wtns(destination, program.curve, witness)
    out().print(f"[bold]{escape(str(destination))}[/]  {count_of(len(witness), 'wire')}, {program.curve.title}")


@app.command("check")
@reports_errors
@takes_groups
def check(
    wtns: Annotated[Path, typer.Argument(metavar="W.wtns", help="The witness.")],
    r1cs: Annotated[Path, typer.Option(help="The circuit, as circom writes it.")],
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Check that a witness satisfies every constraint, as `snarkjs wtns check` does. If not, the exit code is 1.

    The first constraint that fails is printed, with the names of its signals where the circuit's .sym file lies beside
    the .r1cs. No value of the witness is printed.
    """
    from distprove.groth16.circuit_facts import first_fault
    from distprove.groth16.constraint_text import constraint_rows
    from distprove.groth16.r1cs import read_r1cs
    from distprove.groth16.wtns import read_wtns

    circuit, witness = read_r1cs(r1cs), read_wtns(wtns)
    with computing.opened() as chosen:
        fault = first_fault(circuit, witness, chosen)
    rows = None if fault is None else constraint_rows(circuit, fault)
    if as_json:
        told = {"status": "satisfied" if fault is None else "unsatisfied", "constraint": fault}
        shown = {} if rows is None else {"text": str(rows), "signals": dict(zip("abc", rows.signals, strict=True))}
        print_json({**told, **shown})
    elif fault is None:
        out().print(f"[bold]{escape(str(wtns))}[/]  satisfies every constraint of {circuit.n_constraints}")
    if fault is not None:
        fail(f"{wtns}: does not satisfy constraint {fault} of {circuit.n_constraints}, counted from 0: {rows}")
        raise typer.Exit(1)
