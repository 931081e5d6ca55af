"""`distprove verify` of a proof.json of snarkjs, with the public.json beside it."""

from __future__ import annotations

import time
from pathlib import Path

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json, warn
from distprove.errors import InputError, InvalidProof, UsageError
from kernels.host.units import count_of

PUBLIC = "public.json"


def is_proof_json(path: Path) -> bool:
    """Whether a path is that of JSON, in which distprove keeps no proof of its own."""
    return path.suffix == ".json" and path.is_file()


def is_key_json(path: Path) -> bool:
    """Whether a file of JSON is a Groth16 verification key of snarkjs and no proof."""
    from distprove.groth16.keyfile import read_verification_key

    try:
        read_verification_key(path)
    except (InputError, UsageError):
        return False
    return True


def verify_proof_json(path: Path, vk: Path | None, *, expected: Path | None, show_public: bool, as_json: bool) -> None:
    """Verify one Groth16 proof in snarkjs's JSON under the key in `vk`, and say so.

    The public values are in the file `expected`, or in the public.json beside the proof. Where both are there, the
    proof is verified with its own ones, which must then be the expected ones.

    Raises UsageError without a key or public values, InputError and its subclasses for files that are no such proof,
    and InvalidProof.
    """
    from distprove.expected import ExpectedPublic
    from distprove.groth16.keyfile import read_verification_key
    from distprove.groth16.snarkjs import read_proof, read_public
    from distprove.groth16.verifier import verify
    from distprove.system import PartitionProof

    begin, values = time.perf_counter(), path.with_name(PUBLIC)
    if vk is None:
        raise UsageError(f"{path}: a proof in JSON is verified under the key that --vk names")
    if not values.is_file():
        if is_key_json(path):
            raise UsageError(f"{path} is a verification key: name the proof first, and the key with --vk")
        if expected is None:
            raise UsageError(
                f"{path}: there is no {PUBLIC} beside it, with its public values; --public names their file"
            )
        values = expected
    key = read_verification_key(vk)
    proof, public = read_proof(path, key.curve), read_public(values, key.curve)
    if not verify(key, public, proof):
        raise InvalidProof(f"{path} does not verify with {values} under {vk}")
    if expected is not None and expected != values:
        ExpectedPublic.read(expected).require([PartitionProof(path.name, b"", public, {})])
    seconds = time.perf_counter() - begin
    if as_json:
        told = {"system": "groth16", "public": [str(value) for value in public], "key_digest": key.digest().hex()}
        compared = None if expected is None else len(public)
        print_json(
            {"status": "verified", **told, "public_compared": compared, "weakness": key.weakness, "seconds": seconds}
        )
    else:
        table = facts_table()
        table.add_row("result", f"[bold green]verified[/]: one Groth16 proof over {key.curve.title}, in JSON")
        table.add_row("key", f"{key.digest().hex()}\n[dim]given: {escape(str(vk))}[/]")
        as_expected = "" if expected is None else "\n[dim]as expected[/]"
        table.add_row("public", f"{count_of(len(public), 'value')} in {escape(str(expected or values))}{as_expected}")
        table.add_row("time", format_seconds(seconds))
        out().print(table)
        if show_public:
            out().print(", ".join(map(str, public)))
    if key.weakness is not None:
        warn(key.weakness)
