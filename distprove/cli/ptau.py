"""`distprove ptau`: files of powers-of-tau ceremonies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, facts_table, out, print_json, reports_errors
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.plain_help import App
from distprove.cli.zkey import AFFORDED_EXPONENT, BeaconExponent, beacon_facts

app = App(no_args_is_help=True, help="Verify files of powers-of-tau ceremonies.")


@app.callback()
def options() -> None:
    """Verify files of powers-of-tau ceremonies."""


@app.command("verify")
@reports_errors
@takes_groups
def verify(
    ptau: Annotated[Path, typer.Argument(metavar="P.ptau", help="The file, prepared for phase 2 or not.")],
    beacon_exponent: BeaconExponent = AFFORDED_EXPONENT,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Verify a .ptau file, its contributions and prepared sections included, as `snarkjs powersoftau verify` does."""
    from distprove.groth16.ptau_check import verify_ptau

    with computing.opened() as chosen:
        found = verify_ptau(ptau, backend=chosen, most=beacon_exponent)
    if as_json:
        contributions = [
            {
                "number": one.number,
                "name": one.name,
                "response": one.response.hex(),
                "next_challenge": one.next_challenge.hex() if one.next_challenge else None,
                "beacon": beacon_facts(one.beacon),
            }
            for one in found.contributions
        ]
        facts = {name: getattr(found, name) for name in ("curve", "power", "ceremony_power", "prepared")}
        print_json({"status": "verified", **facts, "contributions": contributions})
        return
    table = facts_table()
    cut = f", cut from 2^{found.ceremony_power}" if found.ceremony_power > found.power else ""
    prepared = "prepared for phase 2" if found.prepared else "not prepared for phase 2"
    table.add_row("file", f"{escape(str(ptau))} holds: 2^{found.power}{cut}, {found.curve}, {prepared}")
    for one in found.contributions:
        table.add_row(f"contribution {one.number}", escape(one.name or "without a name"))
        table.add_row("  response", one.response.hex())
        if one.next_challenge is not None:
            table.add_row("  next challenge", one.next_challenge.hex())
        if one.beacon is not None:
            table.add_row("  beacon", f"{one.beacon.value.hex()}, 2^{one.beacon.exponent} iterations")
    out().print(table)
