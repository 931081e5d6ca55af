"""`distprove verify --openvm-key`: a proof of OpenVM 2 under its key."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, facts_table, format_seconds, out, print_json
from distprove.errors import InvalidProof

if TYPE_CHECKING:
    from distprove.stark.openvm.proof import OpenVmProof
    from distprove.stark.openvm.shape import Shape
    from kernels.maths.babybear import Elements


def verify_openvm(path: Path, key_path: Path, security: float | None, *, show_public: bool, as_json: bool) -> None:
    """Verify a proof of OpenVM 2, and say so. `security`: bits to ask for, by default those of OpenVM's parameters.

    Raises InputError and its subclasses for files that are no such proof or key, and InvalidProof.
    """
    from distprove.formats.files import read_bounded
    from distprove.stark.openvm.key_file import read_key
    from distprove.stark.openvm.proof import MAX_BYTES, OpenVmProof
    from distprove.stark.openvm.security import TARGET_BITS, security_bits
    from distprove.stark.openvm.verifier import verify

    begin, least = time.perf_counter(), TARGET_BITS if security is None else security
    key = read_key(key_path)
    proof = OpenVmProof.from_bytes(read_bounded(path, MAX_BYTES), str(path))
    shape = verify(key, proof)
    bits = security_bits(key)
    if not bits >= least:
        raise InvalidProof(
            f"{path}: the proof holds, with {bits:.1f} proven bits of security under this key; {least:g} are asked for "
            "(--security)"
        )
    seconds = time.perf_counter() - begin
    if as_json:
        airs = [_air(shape, proof, i) for i in range(len(shape.traces))]
        told = {"system": "openvm", "key_hash": _hex(key.pre_hash), "security_bits": bits, "airs": airs}
        print_json({"status": "verified", **told, "seconds": seconds})
        return
    table = facts_table()
    table.add_row("result", "[bold green]verified[/]: one proof of OpenVM 2")
    table.add_row("key", f"{_hex(key.pre_hash)}\n[dim]given: {escape(str(key_path))}[/]")
    tallest = shape.traces[0].log_height
    table.add_row("AIRs", f"{len(shape.traces)} of {len(key.airs)} have a trace, the tallest one 2^{tallest} rows")
    table.add_row("public", f"{sum(map(len, proof.public_values))} values; --show-public lists them")
    table.add_row("security", f"{bits:.1f} proven bits")
    table.add_row("time", format_seconds(seconds))
    out().print(table)
    if show_public:
        for i in range(len(shape.traces)):
            air = _air(shape, proof, i)
            values = ", ".join(map(str, air["public_values"])) or "no public value"
            roots = "".join(f"\n  cached trace {root}" for root in air["cached_traces"])
            out().print(f"AIR {air['air']}, {escape(air['name'])}, 2^{air['log_height']} rows: {values}{roots}")


def _air(shape: Shape, proof: OpenVmProof, place: int) -> dict[str, Any]:
    """What a proof states about one of its traces."""
    trace = shape.traces[place]
    return {
        "air": trace.number,
        "name": trace.air.name,
        "log_height": trace.log_height,
        "public_values": proof.public_values[trace.number].tolist(),
        "cached_traces": [_hex(root) for root in trace.cached_roots],
    }


def _hex(digest: Elements) -> str:
    """A digest as the bytes of its 8 elements, each little-endian."""
    return digest.astype("<u4").tobytes().hex()
