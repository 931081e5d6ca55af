"""`distprove doctor`: what is here, what will be used, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import escape, facts_table, out, print_json, reports_errors
from distprove.cli.option_groups import AsJson
from distprove.errors import ResourceError
from distprove.host import set_aside
from kernels.host.units import count_of, format_bytes

if TYPE_CHECKING:
    from distprove.cli.diagnosis import Diagnosis

MARKS = {"ok": "[green]ok[/]", "note": "[cyan]note[/]", "warning": "[yellow]warning[/]", "fault": "[bold red]fault[/]"}


@reports_errors
def doctor(
    as_json: AsJson = False,
    clear_devices: Annotated[
        bool, typer.Option("--clear-devices", help="First have devices that jobs gave up on this machine used again.")
    ] = False,
) -> None:
    """GPUs, drivers, memory, limits, Ray: what is here, what will be used, and why.

    Exit code 1 when something found keeps distprove from proving.
    """
    from distprove.cli.diagnosis import diagnose

    if clear_devices and (trouble := set_aside.clear()):
        raise ResourceError(trouble)
    diagnosis = diagnose()
    if as_json:
        print_json(diagnosis.to_dict())
    else:
        _show(diagnosis)
    if not diagnosis.healthy:
        raise typer.Exit(1)


def _show(diagnosis: Diagnosis) -> None:
    console = out()
    table = facts_table(short=2)
    section = ""
    for finding in diagnosis.findings:
        value = escape(finding.value) + (f"\n[dim]{escape(finding.advice)}[/]" if finding.advice else "")
        shown = finding.section if finding.section != section else ""
        if shown and section:
            table.add_row()
        section = finding.section
        table.add_row(shown, finding.subject, MARKS[finding.state], value)
    console.print(table)
    choice = diagnosis.choice
    console.print()
    console.print(f"[bold]A job here uses the {choice.backend} backend[/] ({escape(choice.reason)}):")
    for device in choice.devices:
        console.print(f"  {escape(device)}")
    console.print(
        f"  {count_of(choice.threads, 'thread')}, {format_bytes(choice.memory)} of memory that can be had now"
    )
