"""`distprove gnark`: Groth16 proofs and keys in gnark's files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import escape, facts_table, out, print_json, reports_errors, warn
from distprove.cli.option_groups import AsJson, Overwrite, Reads, Writes, run_files
from distprove.cli.plain_help import App
from distprove.errors import InputError, InvalidProof, UsageError
from kernels.host.units import count_of

app = App(no_args_is_help=True, help="Exchange proofs and verifying keys with gnark.")


@app.callback()
def group() -> None:
    """Exchange proofs and verifying keys with gnark."""


@app.command("verify")
@reports_errors
def verify(
    proof: Annotated[
        Path, typer.Argument(metavar="PROOF", help="A proof, as gnark's WriteTo or WriteRawTo writes it.")
    ],
    vk: Annotated[Path, typer.Option(help="The verifying key to trust, likewise.")],
    public: Annotated[Path, typer.Option(help="The public witness, as its WriteTo writes it.")],
    commitment_hash: Annotated[
        str,
        typer.Option(
            help="The hash of commitments that the prover took: rfc9380, gnark's default, or keccak256 or sha256, as "
            "for its contracts."
        ),
    ] = "rfc9380",
    as_json: AsJson = False,
) -> None:
    """Verify a proof that gnark made, over BN254 or BLS12-381. If it does not hold, the exit code is 1.

    The files may be those of WriteRawTo too, and of circuits with commitments (api.Commit, range checks).
    """
    from distprove.formats.files import read_bounded
    from distprove.groth16 import gnark
    from distprove.groth16.committed.hashes import HASHES
    from distprove.groth16.committed.verifier import verify_committed

    if commitment_hash not in HASHES:
        raise UsageError(f"--commitment-hash is one of {', '.join(HASHES)}, not {commitment_hash!r}")
    made = gnark.parse_committed_proof(read_bounded(proof, gnark.MAX_PROOF_BYTES), str(proof))
    data = read_bounded(vk, gnark.MAX_KEY_BYTES)
    trusted = gnark.parse_committed_key(data, made.proof.curve, str(vk), commitment_hash=commitment_hash)
    key = trusted.key
    values = gnark.parse_public(read_bounded(public, gnark.MAX_KEY_BYTES), key.curve, str(public))
    if not verify_committed(trusted, values, made):
        raise InvalidProof(f"{proof}: the proof does not hold for these public values under this key")
    if (weakness := trusted.weakness) is not None:
        warn(weakness)
    if as_json:
        print_json(
            {
                **{"status": "verified", "curve": key.curve.name, "key": trusted.digest().hex(), "public": len(values)},
                "commitments": len(trusted.committed),
            }
        )
        return
    table = facts_table()
    table.add_row("result", "verified: 1 proof of gnark")
    table.add_row("curve", key.curve.title)
    table.add_row("public", count_of(len(values), "value"))
    if trusted.committed:
        table.add_row("commitments", str(len(trusted.committed)))
    table.add_row("key", trusted.digest().hex())
    out().print(table)


@app.command("export")
@reports_errors
def export(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or a proof.msgpack of groth16."), Reads(run_files)
    ],
    destination: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write DIR/<partition>/..."), Writes(None)
    ],
) -> None:
    """Write the key and the proof of every partition in gnark's files, which its Go verifier reads."""
    from cluster.record.run import read_proof
    from distprove.groth16.committed.names import DEFAULT
    from distprove.groth16.export import GNARK_KEY, export_for_gnark

    loaded = read_proof(run)
    if loaded.system != "groth16":
        raise UsageError(f"gnark verifies proofs of groth16, and this one is of {loaded.system}")
    names = export_for_gnark(loaded, destination)
    out().print(f"{count_of(len(names), 'partition')} in {escape(str(destination))}, with {GNARK_KEY}")
    if (hashed := loaded.verification_key.get("commitment_hash", DEFAULT)) != DEFAULT:
        out().print(f"Commitments are hashed by {escape(hashed)}: name it to `gnark verify` as --commitment-hash")
    out().print("[dim]The key is the one that came with the proof: compare it with the one that you trust.[/]")


@app.command("exporter")
@reports_errors
def exporter(
    destination: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to make for the package."), Writes(None)
    ],
) -> None:
    """Write the Go package that takes a circuit (.r1cs) and its witnesses (.wtns) out of gnark.

    Copy it into your Go project. It needs nothing but gnark 0.14.
    """
    from importlib.resources import files

    from distprove.formats.folder import Folder

    package = files("distprove.groth16").joinpath("go").joinpath("export.go").read_bytes()
    with Folder.make(destination, private=False) as folder:
        folder.write_new("export.go", package)
    out().print(f"export.go in {escape(str(destination))}: R1CS, Witness and CommittedWitness write the files of a job")


@app.command("key")
@reports_errors
def key(
    vk: Annotated[
        Path, typer.Argument(metavar="VK", help="A verifying key, as gnark's WriteTo or WriteRawTo writes it.")
    ],
    destination: Annotated[Path, typer.Option("--out", help="The verification_key.json to write."), Writes()],
    curve: Annotated[str, typer.Option(help="bn254 or bls12-381.")] = "bn254",
    overwrite: Overwrite = False,
) -> None:
    """Write a verifying key of gnark as verification_key.json, for snarkjs and `verify --vk`."""
    from distprove.formats.files import read_bounded
    from distprove.groth16 import gnark
    from distprove.groth16.snarkjs import write_verification_key
    from kernels.maths.curves import BLS12_381, BN254

    curves = {"bn254": BN254, "bls12-381": BLS12_381}
    if curve not in curves:
        raise UsageError(f"--curve is {' or '.join(curves)}, not {curve!r}")
    data = read_bounded(vk, gnark.MAX_KEY_BYTES)
    try:
        read = gnark.parse_verifying_key(data, curves[curve], str(vk))
    except InputError:
        for other in curves.keys() - {curve}:
            with suppress(InputError):
                gnark.parse_verifying_key(data, curves[other], str(vk))
                raise UsageError(f"{vk}: a key over {curves[other].title}, which `--curve {other}` reads") from None
        raise
    if read.weakness is not None:
        warn(read.weakness)
    write_verification_key(destination, read)
    out().print(f"[bold]{escape(str(destination))}[/]  {read.curve.title}, {read.n_public} public; digest:")
    out().print(read.digest().hex())
