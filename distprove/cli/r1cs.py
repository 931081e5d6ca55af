"""`distprove r1cs`: circuits in circom's files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import facts_table, out, print_json, reports_errors
from distprove.cli.option_groups import AsJson
from distprove.cli.plain_help import App

app = App(no_args_is_help=True, help="Show what is in a circuit's .r1cs file.")


@app.callback()
def options() -> None:
    """Show what is in a circuit's .r1cs file."""


@app.command("info")
@reports_errors
def info(
    r1cs: Annotated[Path, typer.Argument(metavar="C.r1cs", help="The circuit, as circom writes it.")],
    as_json: AsJson = False,
) -> None:
    """Count a circuit's constraints, wires and inputs, as `snarkjs r1cs info` does, and say which set-up it needs."""
    from distprove.groth16.circuit_facts import CircuitFacts
    from distprove.groth16.r1cs import read_r1cs

    facts = CircuitFacts.of(read_r1cs(r1cs))
    if as_json:
        print_json(asdict(facts))
        return
    table = facts_table()
    for name, value in asdict(facts).items():
        if name == "entries":
            table.add_row(name, ", ".join(f"{matrix.upper()} {count}" for matrix, count in facts.entries.items()))
        elif name == "power":
            table.add_row("domain", f"2^{value}: powers of tau from this power on")
        else:
            table.add_row(name.replace("_", " "), str(value))
    out().print(table)
