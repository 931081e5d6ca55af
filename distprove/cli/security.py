"""`distprove security`: what a proof of a program is worth, before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distprove.cli.console import escape, out, plain_table, print_json
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.programs import JobSoundness, Partitions, program_app
from kernels.host.units import count_of

if TYPE_CHECKING:
    from rich.console import Console

    from distprove.stark.program import Program


@takes_groups
def security(
    program: str,
    arguments: Mapping[str, int | str],
    *,
    soundness: JobSoundness,
    partitions: Partitions = None,
    as_json: AsJson = False,
) -> None:
    """Choose the queries, and list the proven bits of every round."""
    from distprove.cli.summary import warn_of_exit
    from distprove.formats.owncode import own_faults
    from distprove.stark.engine import engine_of
    from distprove.stark.example import counted
    from distprove.stark.programs import load_program
    from distprove.stark.security import told_heights

    loaded = load_program(program, arguments, soundness.prefer)
    with own_faults(loaded.__module__):
        count, known, code = counted(loaded, partitions, level=soundness.level if soundness.one_proof else None)
        params = soundness.choose(loaded, count, known)
        key = engine_of(params).compile_key(loaded, params)
        heights = told_heights(loaded, count, known)
    warn_of_exit(code)
    record = engine_of(key).security(key, heights).to_record()
    if soundness.one_proof:
        record = _with_tree(record, loaded, params, heights)
    if as_json:
        print_json({"program": loaded.name, "arguments": dict(loaded.arguments), "security": record})
    else:
        show_security(out(), record)


def _with_tree(
    record: dict[str, Any], program: Program, params: Any, heights: Sequence[Sequence[int | None]]
) -> dict[str, Any]:
    """The record with the layers of the tree over partitions of these heights, and the wires of its circuits. Raises
    UsageError; TooMuchWork for a circuit that would be too large for any tree."""
    from distprove.stark.keyfile import key_of
    from distprove.stark.recursion.plan import Form
    from distprove.stark.recursion.tree_keys import planned_layers, planned_wires
    from distprove.stark.recursion.whole import with_layers

    forms = [Form.of(f"part-{number:04}", own) for number, own in enumerate(heights)]
    key: Any = key_of(program, params)  # of the multilinear engine, as was checked
    wires, allowed = planned_wires(key, forms)
    return {**with_layers(record, planned_layers(key, forms)), "tree_wires": wires, "tree_wires_allowed": allowed}


def show_security(console: Console, record: dict[str, Any]) -> None:
    """A row for each round, then what they come to. `record` is that of a `SecurityReport`."""
    from distprove.cli.summary import layer_line

    table = plain_table("round", numbers=("bits",))
    table.add_column("error, at most", overflow="fold")
    for entry in record["rounds"]:
        table.add_row(escape(entry["name"]), f"{entry['bits']:.2f}", escape(entry["formula"]))
    console.print(table)
    heights = ", ".join(f"2^{height}" for height in record["log_heights"])
    console.print(
        f"\n[bold]{record['bits']:.2f} bits[/], proven ({escape(record['regime'])}): "
        f"{count_of(record['queries'], 'query', 'queries')} at "
        f"blow-up {record['blowup']}, {count_of(record['grinding_bits'], 'bit')} of work; rows of tables: {heights}, "
        f"{count_of(record['columns'], 'opened value')}"
    )
    for layer in record.get("layers", ()):
        console.print(escape(layer_line(layer)))
    if (wires := record.get("tree_wires", 0)) > record.get("tree_wires_allowed", 0):
        console.print(
            f"circuits of some {count_of(wires, 'wire')}, so its prover and its verifiers give --tree-wires {wires}"
        )
    unique = record["unique_decoding"]
    enough = count_of(unique["queries"], "query", "queries") if unique["queries"] else "no number of queries"
    console.print(
        f"[dim]{unique['bits']:.2f} bits if nothing beyond unique decoding is counted: "
        f"{enough} would give "
        f"{record['target']}[/]"
    )


app = program_app(
    security, "What a proof of a program is worth: proven bits of every round. `PROGRAM --help` tells its options."
)
