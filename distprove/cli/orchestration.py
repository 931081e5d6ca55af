"""`distprove bench orchestration`: what driving, checking and recording cost beside the prover."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distprove.cli.console import format_seconds, out, plain_table, print_json, reports_errors
from distprove.cli.measured import device_of, document, show_notes, tell
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.programs import import_from_here
from distprove.cli.prove import Execution
from distprove.cli.sweep import policies

if TYPE_CHECKING:
    from cluster.lab.orchestration import Cost


@reports_errors
@takes_groups
def orchestration(
    path: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job to measure.")],
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Partitions of a pass: the job's, again and again. Not of a job with a barrier."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Passes of each kind; medians count.")] = 5,
    *,
    execution: Execution,
    as_json: AsJson = False,
) -> None:
    """Measure what the pipeline costs: the same partitions in a bare loop and through the pipeline, in turn. Always on
    this machine, without Ray.

    Witnesses are made before the clock runs. `--policy` may be a list: off,static.
    """
    from cluster.lab import orchestration as bench
    from distprove.host.memory import give_back_large_blocks
    from distprove.job import Job

    import_from_here()
    job = Job.from_toml(path)
    settings = job.executor.changed({**execution.given(), "local": True, "policy": None})
    give_back_large_blocks()
    system = job.load()
    rows: list[Cost] = []
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="distprove-orchestration-") as folder:
        for policy in policies(execution.values["policy"] or settings.policy):
            chosen = replace(settings, policy=policy, limits=settings.limits if policy == settings.policy else {})
            cost, facts = bench.measure_orchestration(
                system,
                chosen,
                job.title or path.stem,
                Path(folder),
                partitions=partitions,
                repeats=repeats,
                tell=lambda doing, policy=policy: tell(f"{policy}: {doing}"),  # type: ignore[misc]
            )
            rows.append(cost)
    made = document("orchestration", bench, device_of(facts), rows)
    if as_json:
        print_json(made)
    else:
        _show(rows, made)


def _show(rows: Sequence[Cost], made: dict[str, Any]) -> None:
    table = plain_table(numbers=("policy", "device", "bare", "pipeline", "cost", "proving", "idle", "idle bare"))
    for row in (cost.to_dict() for cost in rows):
        bare, pipeline = row["bare"], row["pipeline"]
        table.add_row(
            row["policy"],
            *(
                format_seconds(seconds)
                for seconds in (
                    pipeline["device_seconds_per_partition"],
                    bare["seconds_per_partition"],
                    pipeline["seconds_per_partition"],
                )
            ),
            *(f"{share * 100:.1f} %" for share in (row["cost"], row["cost_while_proving"])),
            *(f"{each['idle_share'] * 100:.1f} %" for each in (pipeline, bare)),
        )
    out().print(table)
    seen = "events of the device" if all(cost.by_events for cost in rows) else "its queue, as the host saw it"
    of = f"{rows[0].what}: {rows[0].partitions} partitions a pass, times of one"
    show_notes(made, of=of, on=f"{made['backend']['name']}; device and idle by {seen}")
