"""What `distprove verify` tells of the proof of a job that holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, out, shown_bytes
from distprove.cli.summary import proven_rows
from distprove.registry import entry_of

if TYPE_CHECKING:
    from distprove.proof import Proof, TakenWrap
    from distprove.verification import Verified


def record(loaded: Proof, verified: Verified) -> dict[str, Any]:
    """What `--json` tells of the proof of a job that holds."""
    more = [each.record for each in verified.stated] if verified.stated else [{}] * len(loaded.partitions)
    return {
        "system": loaded.system,
        "one_proof": loaded.whole is not None,
        "partitions": [
            {"name": p.name, "public": [str(v) for v in p.public], **_named(verified, p.public), **own}
            for p, own in zip(loaded.partitions, more, strict=True)
        ],
        "job_digest": loaded.job_digest.hex(),
        "job_digest_given": verified.job_expected,
        "key_digest": verified.key_digest.hex(),
        "key_given": verified.key_given,
        "own_program": verified.own_program or None,
        "proven": verified.proven,
        "public_compared": verified.public_compared,
        "circuit": verified.circuit,
        "proof_type": verified.proof_type,
        "unbound": verified.unbound,
        "weakness": verified.weakness,
        "wrap": None if verified.wrap is None else _wrap(verified.wrap),
        "seconds": verified.seconds,
    }


def _wrap(wrap: TakenWrap) -> dict[str, str]:
    return {"key_digest": wrap.key_digest.hex(), "public": str(wrap.public)}


def line(loaded: Proof, verified: Verified) -> str:
    """What was verified, in words."""
    count = len(loaded.partitions)
    together = " in one proof" if loaded.whole is not None else ""
    together = " in a wrap" if verified.wrap is not None else together
    return f"{count} partition{'s' * (count != 1)}{together}, {loaded.system}"


def rows(loaded: Proof, verified: Verified, vk: str) -> Iterator[tuple[str, str]]:
    """Rows on the proof of a job that holds, as markup: what it states, its key and the job. `vk` is what was given
    as its key, if anything."""
    for name, value in proven_rows(verified.proven, wrapped=verified.wrap is not None):
        yield name, escape(value)
        if name == "output" and loaded.output is not None:
            yield "content", shown_bytes(loaded.output, "the file has all")
    if (wrap := verified.wrap) is not None:
        trust = f"{wrap.soundness}; it holds only if you trust how this key was made"
        yield "wrap", f"{escape(wrap.kind)} under key {wrap.key_digest.hex()}\n[dim]{escape(trust)}[/]"
        yield "digest", f"{wrap.public}\n[dim]the wrap's public value, of this job and its salt alone[/]"
    by_you = f"made from the program that you named, {escape(verified.own_program)}"
    made = by_you if verified.own_program else "made from the program that the file names"
    known = made if entry_of(loaded.system).remakes_key else "came with the proof"
    origin = f"given: {escape(vk)}" if verified.key_given else known
    yield "key", f"{verified.key_digest.hex()}\n[dim]{origin}[/]"
    if verified.circuit is not None:
        yield "circuit", f"{escape(verified.circuit)}\n[dim]given: of the key, and of the statement[/]"
    if verified.proof_type is not None:
        yield "type", f"{escape(verified.proof_type)}\n[dim]given, and of the statement[/]"
    stated = "as expected" if verified.job_expected else "what the file states; --job says which one you expect"
    yield "job", f"{loaded.job_digest.hex()}\n[dim]{stated}[/]"


def print_public(loaded: Proof, verified: Verified) -> None:
    """List the partitions with their public values, or all that they state."""
    for p, stated in zip(loaded.partitions, verified.stated or (), strict=bool(verified.stated)):
        out().print("\n  ".join([f"{escape(p.name)}:", *map(escape, stated.lines)]))
    if verified.stated:
        return
    for p in loaded.partitions:
        named = _named(verified, p.public).get("named", {})
        values = [f"{escape(name)} = {', '.join(of)}" for name, of in named.items()] or map(str, p.public)
        out().print(f"{escape(p.name)}: {('; ' if named else ', ').join(values)}")


def _named(verified: Verified, public: Sequence[int]) -> dict[str, dict[str, list[str]]]:
    """A partition's public values by the names that the key has for them, for systems that name any."""
    values = map(str, public)
    named = {str(name): list(islice(values, count)) for name, count in verified.proven.get("public", [])}
    return {"named": named} if named else {}
