"""`distprove verify` of a proof of OpenVM 2 in its own bytes, under its key."""

from __future__ import annotations

import time
from pathlib import Path

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json
from distprove.errors import InvalidProof, UsageError


def verify_openvm(
    path: Path, key_path: Path, security: float | None, *, expected: Path | None, show_public: bool, as_json: bool
) -> None:
    """Verify a proof of OpenVM 2, and say so. `security`: bits to ask for, by default those of OpenVM's parameters.
    `expected`: a file of what the proof must state.

    Raises InputError and its subclasses for files that are no such proof, key or values, and InvalidProof.
    """
    from distprove.formats.files import read_bounded
    from distprove.stark.openvm.expected import ExpectedStatement
    from distprove.stark.openvm.key_file import read_key
    from distprove.stark.openvm.proof import BEGINS, MAX_BYTES, OpenVmProof
    from distprove.stark.openvm.security import TARGET_BITS, security_bits
    from distprove.stark.openvm.stated import hex_of, stated
    from distprove.stark.openvm.verifier import verify

    begin, least = time.perf_counter(), TARGET_BITS if security is None else security
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
    told, seconds = stated(shape, proof), time.perf_counter() - begin
    if as_json:
        facts = {"system": "openvm", "key_hash": hex_of(key.pre_hash), "security_bits": bits, **told.record}
        print_json({"status": "verified", **facts, "public_compared": compared, "seconds": seconds})
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
        for line in told.lines:
            out().print(escape(line))


def bare_proof(path: Path) -> Path | None:
    """The proof of OpenVM 2 that a path names: a file that begins as one, or that of a folder without a proof of
    distprove's own; None where there is none. Raises UsageError for a folder of several."""
    from distprove.proof import PROOF_FILE
    from distprove.stark.openvm.job_verifier import PROOF, numbered
    from distprove.stark.openvm.proof import BEGINS

    if path.is_dir():
        if (path / PROOF_FILE).exists():
            return None
        if (path / numbered(0)).is_file():
            raise UsageError(f"{path} holds several proofs: verify {path / numbered(0)} and the others one by one")
        path /= PROOF
    try:
        with path.open("rb") as file:
            return path if file.read(len(BEGINS)) == BEGINS else None
    except OSError:
        return None
