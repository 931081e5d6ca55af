"""`distprove simulate`: the scheduling policies on machines that are not at hand."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from distprove.bench.results import SCHEMA
from distprove.cli.console import out as stdout
from distprove.cli.console import print_json, reports_errors
from distprove.cli.option_groups import AsJson
from distprove.files import write_atomically

Cases = Annotated[int, typer.Option(min=1, help="Random machines with loads.")]
First = Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")]
Processes = Annotated[int, typer.Option(min=1, help="Processes that simulate.")]
Results = Annotated[Path | None, typer.Option("--out", help="Write the results there, as JSON.")]


@reports_errors
def simulate(
    cases: Cases = 20,
    first: First = 0,
    processes: Processes = 1,
    out: Results = None,
    as_json: AsJson = False,
) -> None:
    """Compare the policy auto with off and with the best static setting, on a model of a node (docs/scheduling.md).

    Each case is a random machine with a random load: a sweep finds its best static setting, then the same session runs
    under that, off and auto. The published machine comes last. Seconds of a core per case: some three.
    """
    from cluster.simulator.study import published, study, summary

    seeds = range(first, first + cases)
    if processes == 1:
        found = [study(seed) for seed in seeds]
    else:
        with ProcessPoolExecutor(processes) as pool:
            found = list(pool.map(study, seeds))
    results = {
        "schema": SCHEMA,
        "bench": "simulate",
        **summary(found),
        "published": published(),
        "each": [asdict(case) for case in found],
    }
    if out is not None:
        write_atomically(out, json.dumps(results, indent=1).encode() + b"\n")
    if as_json:
        print_json(results)
        return
    table = Table("seconds of a session", "median", "95 %", "worst", "least", title=f"{cases} simulated machines")
    for name in ("auto_to_best", "auto_to_off", "off_to_best"):
        spread = results[name]
        table.add_row(name.replace("_", " "), *(f"{spread[key]:.3f}" for key in ("median", "p95", "worst", "least")))
    stdout().print(table)
    near, safe = results["within_3_percent_of_best"], results["not_worse_than_off"]
    stdout().print(f"auto within 3 % of the best static setting: {near} of {cases}; not worse than off: {safe}")
