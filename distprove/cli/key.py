"""`distprove key`: the verifying key of a program, made without a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import escape, facts_table, out, print_json
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.cli.programs import PROGRAM, JobSoundness, Partitions, program_app, shown
from distprove.errors import UsageError
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.stark.program import Program


@takes_groups
def key(
    program: str,
    arguments: Mapping[str, int | str],
    *,
    destination: Annotated[
        Path, typer.Option("--out", help="The key file to write.", rich_help_panel=PROGRAM), Writes()
    ],
    soundness: JobSoundness,
    partitions: Partitions = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Choose the parameters as `prove` does, and write the key that `verify --vk` takes."""
    from distprove.cli.summary import warn_of_exit
    from distprove.formats.files import write_atomically
    from distprove.formats.owncode import own_faults
    from distprove.stark.example import counted
    from distprove.stark.keyfile import key_content, key_of
    from distprove.stark.programs import load_program
    from distprove.stark.provable import check_program

    loaded = load_program(program, arguments, soundness.prefer)
    with own_faults(loaded.__module__):
        one_proof = soundness.one_proof
        declared = loaded.declared_heights if soundness.contract else None
        queries_given = soundness.values["queries"] is not None
        without_cut = queries_given and not soundness.contract  # nothing is run then, and no input needed
        known: Sequence[Sequence[int | None]] | None = None if declared is None else [declared]
        count, code = partitions or 1, None
        if declared is None and not without_cut:
            count, known, code = counted(loaded, partitions, level=soundness.level if one_proof else None)
        params = soundness.choose(loaded, count, known)
        check_program(loaded, params, count, known, one_proof=one_proof)
        made = key_of(loaded, params)
        read = _read(loaded, made, (known or loaded.log_heights(count))[0]) if soundness.contract else {}
    write_atomically(destination, key_content(made))
    warn_of_exit(code)
    if as_json:
        print_json({"key": str(destination), "key_digest": made.digest.hex(), **made.named(), **read})
        return
    table = facts_table()
    table.add_row("key", escape(str(destination)))
    table.add_row("digest", made.digest.hex())
    named = ", ".join(f"{name} = {shown(value)}" for name, value in made.arguments.items())
    table.add_row("program", escape(f"{made.program}({named})"))
    table.add_row(
        "queries", f"{queries(params)} at blow-up {params.blowup}, {count_of(params.grinding_bits, 'bit')} of work"
    )
    if read:
        from distprove.cli.summary import second_root_line

        table.add_row("heights", escape(read["heights"]))
        for half, value in zip(("low", "high"), read["contract_program"], strict=True):
            table.add_row(f"program {half}", value)
        table.add_row("second root", second_root_line(read["second_root"]))
    out().print(table)


def _read(program: Program, key: Any, heights: Sequence[int | None]) -> dict[str, Any]:
    """What a contract has of a program: its digest in two halves, and the argument that declares its heights."""
    from distprove.stark.keyfile import node_key
    from distprove.stark.wrap.contract_verifier import halves, program_digest, second_root_of
    from distprove.stark.wrap.program_file import ProgramFile

    if program.name_bytes is None:
        raise UsageError(f"program {program.name}: no contract reads its jobs")
    file = ProgramFile(key.named(), tuple(heights), program.name_bytes)
    low, high = halves(program_digest(key, node_key, file))
    second = second_root_of(key, node_key, file).to_record()
    return {"contract_program": [str(low), str(high)], "heights": program.declares(heights), "second_root": second}


def queries(params: Any) -> str:
    """The number of queries, or the numbers of an engine's rounds."""
    return str(params.queries) if isinstance(params.queries, int) else ", ".join(map(str, params.queries))


app = program_app(
    key, "Make the verifying key of a program, for those who verify without it. `PROGRAM --help` tells more."
)
