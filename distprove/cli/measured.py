"""What the commands of `distprove bench` share: their documents, their progress, and the lines below their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from distprove.cli.console import err, escape, out

if TYPE_CHECKING:
    from distprove.bench.results import Reported
    from kernels.interface.backend import DeviceInfo


class About(Protocol):
    """Module of a benchmark, or what stands for one: it says what is timed, and how results are checked."""

    TIMED: str
    CHECKED: str


def document(bench: str, about: About, info: DeviceInfo, rows: Sequence[Reported]) -> dict[str, Any]:
    """The document of a benchmark on this machine, as `--json` prints it."""
    from distprove.bench.results import report
    from distprove.host.machine import inspect_machine

    return report(bench, about.TIMED, about.CHECKED, info, inspect_machine(), rows)


def device_of(facts: Mapping[str, Any]) -> DeviceInfo:
    """The device of a prover, from the facts that its worker tells."""
    from kernels.interface.backend import DeviceInfo

    return DeviceInfo(facts["device"], facts["kind"], facts["memory_total"], facts["memory_budget"], dict(facts))


def tell(doing: str) -> None:
    """Show what is being measured."""
    err().print(f"[dim]{escape(doing)}[/]")


def show_notes(document: Mapping[str, Any], **notes: str) -> None:
    """Print the `notes`, each under its name, and what was timed and checked."""
    console = out()
    console.print()
    for name, text in {**notes, "timed": document["timed"], "checked": document["checked"]}.items():
        console.print(f"[dim]{name:<9}[/] {escape(text)}")
