"""`distprove zkey`: the ceremony of a Groth16 key, and its verification key."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.backends import Computing
from distprove.cli.console import escape, facts_table, out, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.cli.plain_help import App
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.groth16.beacon import Beacon

Key = Annotated[Path, typer.Argument(metavar="KEY.zkey", help="The key so far.")]
AFFORDED_EXPONENT = 26
"""As in `distprove.groth16.beacon`, which help does not import."""
BeaconExponent = Annotated[
    int,
    typer.Option(
        "--beacon-exponent", min=0, max=63, help="Accept beacons of at most 2^N hash iterations.", metavar="N"
    ),
]
NewKey = Annotated[Path, typer.Option("--out", help="The .zkey to write."), Writes()]

app = App(no_args_is_help=True, help="Contribute to the ceremony of a .zkey, verify it, and export its key.")


@app.callback()
def options() -> None:
    """Contribute to the ceremony of a .zkey, verify it, and export its key."""


@app.command("contribute")
@reports_errors
@takes_groups
def contribute(
    zkey: Key,
    destination: NewKey,
    name: Annotated[str, typer.Option(help="Who contributes: this stays in the key.")] = "distprove",
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Add a contribution to the ceremony of a .zkey, as `snarkjs zkey contribute` does. Its secret is dropped."""
    _contribute(zkey, destination, name, computing, as_json)


@app.command("beacon")
@reports_errors
@takes_groups
def beacon(
    zkey: Key,
    destination: NewKey,
    value: Annotated[str, typer.Option("--beacon", metavar="HEX", help="The beacon's bytes, at most 255.")],
    exponent: Annotated[
        int, typer.Option("--iterations", min=10, max=63, help="Binary logarithm of the number of hash iterations.")
    ] = 10,
    name: Annotated[str, typer.Option(help="What the beacon is: this stays in the key.")] = "beacon",
    overwrite: Overwrite = False,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Add a public beacon to the ceremony of a .zkey, as `snarkjs zkey beacon` does: its last contribution."""
    from distprove.groth16.beacon import Beacon

    _contribute(zkey, destination, name, computing, as_json, Beacon.from_hex(value, exponent))


def _contribute(
    zkey: Path, destination: Path, name: str, computing: Computing, as_json: bool, beacon: Beacon | None = None
) -> None:
    from distprove.groth16.contribute import contribute

    with computing.opened() as chosen:
        made = contribute(zkey, out=destination, name=name, backend=chosen, beacon=beacon)
    if as_json:
        print_json({**asdict(made), "hash": made.hash.hex()})
    else:
        out().print(
            f"[bold]{escape(made.path)}[/]  {count_of(made.number, 'contribution')}; the hash of this one, to publish:"
        )
        out().print(made.hash.hex())
    if made.insecure:
        warn("this key began as an insecure development key. Its maker can forge proofs: no contribution changes that.")
    elif not made.persons:
        warn("no person has contributed to this key: everybody knows its delta, and can forge proofs under it.")


@app.command("export")
@reports_errors
def export(
    zkey: Annotated[Path, typer.Argument(metavar="KEY.zkey", help="The key.")],
    destination: Annotated[Path, typer.Option("--out", help="The verification_key.json to write."), Writes()],
    overwrite: Overwrite = False,
) -> None:
    """Write the verification key of a .zkey, as `snarkjs zkey export verificationkey` does."""
    from distprove.groth16.snarkjs import write_verification_key
    from distprove.groth16.zkey import read_zkey

    key = read_zkey(zkey)
    vk = key.verification_key
    write_verification_key(destination, vk)
    out().print(f"[bold]{escape(str(destination))}[/]  {vk.curve.title}, {vk.n_public} public; digest:")
    out().print(vk.digest().hex())
    if key.insecure:
        warn("an insecure development key: whoever made it can forge proofs.")
    elif vk.weakness:
        warn(vk.weakness)


@app.command("verify")
@reports_errors
@takes_groups
def verify(
    zkey: Annotated[Path, typer.Argument(metavar="KEY.zkey", help="The key.")],
    r1cs: Annotated[Path, typer.Option(help="The circuit, as circom writes it.")],
    ptau: Annotated[Path, typer.Option(help="The prepared powers-of-tau file that the key was made from.")],
    beacon_exponent: BeaconExponent = AFFORDED_EXPONENT,
    *,
    computing: Computing,
    as_json: AsJson = False,
) -> None:
    """Verify a .zkey against its circuit, its powers of tau and all contributions, as `snarkjs zkey verify` does."""
    from distprove.groth16.r1cs import read_r1cs
    from distprove.groth16.zkey_check import verify_key

    with computing.opened() as chosen:
        found = verify_key(zkey, read_r1cs(r1cs), ptau, backend=chosen, most=beacon_exponent)
    if as_json:
        print_json(
            {
                "status": "verified",
                "curve": found.curve,
                "constraints": found.constraints,
                "circuit_hash": found.circuit_hash.hex(),
                "contributions": [
                    {"number": one.number, "name": one.name, "hash": one.hash.hex(), "beacon": beacon_facts(one.beacon)}
                    for one in found.contributions
                ],
            }
        )
        return
    table = facts_table()
    table.add_row("key", f"{escape(str(zkey))} holds: {count_of(found.constraints, 'constraint')} over {found.curve}")
    table.add_row("circuit hash", found.circuit_hash.hex())
    for one in found.contributions:
        table.add_row(f"contribution {one.number}", escape(one.name or "without a name"))
        table.add_row("", one.hash.hex())
        if one.beacon is not None:
            table.add_row("", f"beacon {one.beacon.value.hex()}, 2^{one.beacon.exponent} iterations")
    out().print(table)


def beacon_facts(beacon: Beacon | None) -> dict[str, str | int] | None:
    """A beacon as JSON."""
    return None if beacon is None else {"value": beacon.value.hex(), "exponent": beacon.exponent}
