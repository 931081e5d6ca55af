"""`distprove verify` of a wrap that a contract reads: without a list of partitions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json, warn
from distprove.cli.summary import INSECURE_WRAP, layer_line, second_root_line
from distprove.errors import UsageError
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.entry import OwnProgram
    from distprove.stark.wrap.contract_verifier import VerifiedRead


def verify_read(
    proof: Path,
    wrap_vk: Path,
    vk: Path | None,
    program: OwnProgram | None,
    least_security: float,
    *,
    output: bytes | None,
    exit_code: int,
    tree_wires: int | None,
    told_insecure: bool | None,
    as_json: bool,
) -> None:
    """Verify the wrap beside `proof`, and print its program, exit code and output. `told_insecure` says whether the
    report beside it calls the wrap's key insecure, None without one. Raises as `verify_read_files` of
    `distprove.stark.wrap.contract_verifier`, UsageError for another file than the wrap's, and InvalidProof for another
    exit code or output."""
    from distprove.stark.wrap.contract_verifier import verify_read_files
    from distprove.stark.wrap.program_file import folder_of

    _require_named(proof)
    begin = time.perf_counter()
    found = verify_read_files(folder_of(proof), wrap_vk, vk, program, least_security, tree_wires)
    found.require(exit_code, output)
    seconds = time.perf_counter() - begin
    if as_json:
        print_json({"status": "verified", **_record(found), "seconds": seconds})
    else:
        _print(found, seconds)
    if found.weakness is not None:
        warn(found.weakness)
    elif told_insecure is not False:
        missing = "is missing, which would say whether the wrap's key is insecure"
        warn(f"the report beside the proof {f'says: {INSECURE_WRAP}' if told_insecure else missing}")


def _require_named(proof: Path) -> None:
    """Raise UsageError for a file that is not the wrap's own: nothing would be read of it."""
    from distprove.stark.wrap.files import PROOF

    if not proof.is_dir() and proof.name != PROOF:
        raise UsageError(f"{proof}: of a wrap that a contract reads, name the folder or its {PROOF}")


def _record(found: VerifiedRead) -> dict[str, Any]:
    return {
        "program": found.key.program,
        "arguments": dict(found.key.arguments),
        "contract_program": [str(half) for half in found.program],
        "exit_code": found.read.exit_code,
        "output": found.read.output.hex(),
        "key_digest": found.key.digest.hex(),
        "wrap": {"key_digest": found.wrap_key.hex()},
        "second_root": found.second.to_record(),
        "weakness": found.weakness,
        "security": {"bits": found.bits, "layers": [layer.to_record() for layer in found.layers]},
    }


def _print(found: VerifiedRead, seconds: float) -> None:
    table = facts_table()
    table.add_row("result", "[bold green]verified[/]: a job of this program, by a wrap that a contract reads")
    named = ", ".join(f"{name} = {value}" for name, value in found.key.arguments.items())
    table.add_row("program", escape(f"{found.key.program}({named})"))
    for half, value in zip(("low", "high"), found.program, strict=True):
        table.add_row(f"program {half}", str(value))
    table.add_row("exit code", str(found.read.exit_code))
    table.add_row("output", f"{count_of(len(found.read.output), 'byte')}: {found.read.output.hex() or 'none'}")
    table.add_row(
        "security", f"{found.bits:.2f} bits, proven of the proofs inside the wrap, with a segment in each place"
    )
    for layer in found.layers:
        table.add_row("layer", escape(layer_line(layer.to_record())))
    table.add_row("second root", second_root_line(found.second.to_record()))
    trust = "it holds only if you trust how this key was made, and that it is of this program's circuit"
    table.add_row("wrap", f"Groth16 over BN254 under key {found.wrap_key.hex()}\n[dim]{trust}[/]")
    table.add_row("key", found.key.digest.hex())
    table.add_row("time", format_seconds(seconds))
    out().print(table)
