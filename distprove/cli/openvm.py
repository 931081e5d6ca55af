"""`distprove verify --openvm-key`: a proof of OpenVM 2 under its key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json
from distprove.errors import InvalidProof, UsageError

if TYPE_CHECKING:
    from distprove.stark.openvm.proof import OpenVmProof
    from distprove.stark.openvm.shape import Shape


def verify_openvm(
    path: Path, key_path: Path, security: float | None, *, expected: Path | None, show_public: bool, as_json: bool
) -> None:
    """Verify a proof of OpenVM 2, or the one in a folder, and say so. `security`: bits to ask for, by default those of
    OpenVM's parameters. `expected`: a file of what the proof must state.

    Raises InputError and its subclasses for files that are no such proof, key or values, and InvalidProof.
    """
    from distprove.cli.prove_openvm import PROOF, numbered
    from distprove.formats.files import read_bounded
    from distprove.stark.openvm.expected import ExpectedStatement, hex_of
    from distprove.stark.openvm.key_file import read_key
    from distprove.stark.openvm.proof import BEGINS, MAX_BYTES, OpenVmProof
    from distprove.stark.openvm.security import TARGET_BITS, security_bits
    from distprove.stark.openvm.verifier import verify

    begin, least = time.perf_counter(), TARGET_BITS if security is None else security
    if path.is_dir():
        if (path / numbered(0)).is_file():
            raise UsageError(f"{path} holds several proofs: verify {path / numbered(0)} and the others one by one")
        path /= PROOF
    key = read_key(key_path)
    data = read_bounded(path, MAX_BYTES, begins=BEGINS, kind="a proof of OpenVM 2 in version 3 of its encoding")
    proof = OpenVmProof.from_bytes(data, str(path))
    wanted = None if expected is None else ExpectedStatement.read(expected)
    try:
        shape = verify(key, proof)
    except InvalidProof as error:
        raise InvalidProof(f"{path} does not verify under {key_path}: {error}") from None
    bits = security_bits(key)
    if not bits >= least:
        raise InvalidProof(
            f"{path}: the proof holds, with {bits:.1f} proven bits of security under this key; {least:g} are asked for "
            "(--security)"
        )
    if wanted is not None:
        wanted.require(shape, proof)
    compared = None if wanted is None else wanted.count
    seconds = time.perf_counter() - begin
    if as_json:
        airs = [_air(shape, proof, i) for i in range(len(shape.traces))]
        told = {"system": "openvm", "key_hash": hex_of(key.pre_hash), "security_bits": bits, "airs": airs}
        print_json({"status": "verified", **told, "public_compared": compared, "seconds": seconds})
        return
    table = facts_table()
    table.add_row("result", "[bold green]verified[/]: one proof of OpenVM 2")
    table.add_row("key", f"{hex_of(key.pre_hash)}\n[dim]given: {escape(str(key_path))}[/]")
    tallest = shape.traces[0].log_height
    table.add_row("AIRs", f"{len(shape.traces)} of {len(key.airs)} have a trace, the tallest one 2^{tallest} rows")
    count = sum(map(len, proof.public_values))
    hint = "" if show_public else "; --show-public lists them, and the commitments to cached traces"
    if expected is not None:
        hint = f", and the commitments to cached traces, as expected\n[dim]given: {escape(str(expected))}[/]"
    table.add_row("public", f"{count} value{'s' * (count != 1)}{hint}")
    table.add_row("security", f"{bits:.1f} proven bits")
    table.add_row("time", format_seconds(seconds))
    out().print(table)
    if show_public:
        for i in range(len(shape.traces)):
            air = _air(shape, proof, i)
            values = ", ".join(map(str, air["public_values"])) or "no public value"
            roots = "".join(f"\n  cached trace {root}" for root in air["cached_traces"])
            out().print(f"AIR {air['air']}, {escape(air['name'])}, 2^{air['log_height']} rows: {values}{roots}")


def begins_as_proof(path: Path) -> bool:
    """Whether a file begins as a proof of OpenVM 2 does, and no proof of distprove's own."""
    from distprove.stark.openvm.proof import BEGINS

    try:
        with path.open("rb") as file:
            return file.read(len(BEGINS)) == BEGINS
    except OSError:
        return False


def _air(shape: Shape, proof: OpenVmProof, place: int) -> dict[str, Any]:
    """What a proof states about one of its traces."""
    from distprove.stark.openvm.expected import hex_of

    trace = shape.traces[place]
    return {
        "air": trace.number,
        "name": trace.air.name,
        "log_height": trace.log_height,
        "public_values": proof.public_values[trace.number].tolist(),
        "cached_traces": [hex_of(root) for root in trace.cached_roots],
    }
