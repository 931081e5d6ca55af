"""`distprove simulate`: the scheduling policies on machines that are not at hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from distprove.cli.console import out as stdout
from distprove.cli.console import print_json, reports_errors
from distprove.cli.option_groups import AsJson

Cases = Annotated[int, typer.Option(min=1, help="Random machines with loads.")]
First = Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")]
Processes = Annotated[int, typer.Option(min=1, help="Processes that simulate.")]
Long = Annotated[bool, typer.Option("--long", help="Also run sessions of some 6,000 partitions.")]
Results = Annotated[Path | None, typer.Option("--out", help="Write the results there, as JSON.")]


@reports_errors
def simulate(
    cases: Cases = 20,
    first: First = 0,
    processes: Processes = 1,
    long: Long = False,
    out: Results = None,
    as_json: AsJson = False,
) -> None:
    """Compare the policy auto with off and with the best static setting, on a model of a node (docs/scheduling.md).

    Each case is a random machine with a random load: a sweep finds its best static setting, then the same session of
    some 1,200 partitions runs under that, off and auto. The published machine comes last. Seconds of a core per case:
    some three, and some ten with long sessions.
    """
    from concurrent.futures import ProcessPoolExecutor

    from cluster.lab.simulator.measured import compare
    from cluster.lab.simulator.study import study, summary
    from distprove.bench.results import SCHEMA
    from distprove.formats.files import write_atomically

    seeds = range(first, first + cases)
    run = partial(study, long=long)
    if processes == 1:
        found = [run(seed) for seed in seeds]
    else:
        with ProcessPoolExecutor(processes) as pool:
            found = list(pool.map(run, seeds))
    results = {
        "schema": SCHEMA,
        "bench": "simulate",
        **summary(found),
        "published": compare(),
        "each": [asdict(case) for case in found],
    }
    if out is not None:
        write_atomically(out, json.dumps(results, indent=1).encode() + b"\n")
    if as_json:
        print_json(results)
        return
    for name in ("short", "long"):
        if results[name] is not None:
            _print(name, results[name], cases)
    missed = results["published"]["predicted"]
    stdout().print(
        f"the published machine: {missed['throughputs']} throughputs predicted, "
        f"missed by {missed['median_miss']:.1%} (median) to {missed['worst_miss']:.1%}"
    )


def _print(name: str, found: dict[str, Any], cases: int) -> None:
    from rich.table import Table

    title = f"{cases} simulated machines, {name} sessions"
    table = Table("seconds of a session", "median", "95 %", "worst", "least", title=title)
    for ratio in ("auto_to_best", "auto_to_off", "off_to_best"):
        spread = found[ratio]
        table.add_row(ratio.replace("_", " "), *(f"{spread[key]:.3f}" for key in ("median", "p95", "worst", "least")))
    stdout().print(table)
    near, safe = found["within_3_percent_of_best"], found["not_worse_than_off"]
    stdout().print(f"auto within 3 % of the best static setting: {near} of {cases}; not worse than off: {safe}")
