"""`distprove key`: the verifying key of a program, made without a proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from distprove.cli.console import escape, facts_table, out, print_json
from distprove.cli.option_groups import AsJson, Overwrite, Writes, takes_groups
from distprove.cli.programs import PROGRAM, JobSoundness, Partitions, program_app, shown


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
    from distprove.formats.files import write_atomically
    from distprove.formats.owncode import own_faults
    from distprove.stark.example import counted
    from distprove.stark.keyfile import key_content, key_of
    from distprove.stark.programs import load_program
    from distprove.stark.provable import check_program

    loaded = load_program(program, arguments, soundness.prefer)
    with own_faults(loaded.__module__):
        one_proof = soundness.one_proof
        without_cut = soundness.values["queries"] is not None  # nothing is run then, and no input needed
        count, known = (partitions or 1, None) if without_cut else counted(loaded, partitions, level=one_proof)
        params = soundness.choose(loaded, count, known)
        check_program(loaded, params, count, known, one_proof=one_proof)
        made = key_of(loaded, params)
    write_atomically(destination, key_content(made))
    if as_json:
        print_json({"key": str(destination), "key_digest": made.digest.hex(), **made.named()})
        return
    table = facts_table()
    table.add_row("key", escape(str(destination)))
    table.add_row("digest", made.digest.hex())
    named = ", ".join(f"{name} = {shown(value)}" for name, value in made.arguments.items())
    table.add_row("program", escape(f"{made.program}({named})"))
    table.add_row("queries", f"{queries(params)} at blow-up {params.blowup}, {params.grinding_bits} bits of work")
    out().print(table)


def queries(params: Any) -> str:
    """The number of queries, or the numbers of an engine's rounds."""
    return str(params.queries) if isinstance(params.queries, int) else ", ".join(map(str, params.queries))


app = program_app(
    key, "Make the verifying key of a program, for those who verify without it. `PROGRAM --help` tells more."
)
