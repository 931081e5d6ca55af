"""`distprove report`: a run's page, and its trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import escape, out, reports_errors
from distprove.cli.option_groups import Overwrite, Reads, Writes, run_files
from distprove.errors import UsageError


@reports_errors
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder."), Reads(run_files)],
    destination: Annotated[
        Path | None, typer.Option("--out", help="The page; RUN/report.html by default."), Writes()
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The trace for Perfetto; RUN/trace.json by default."), Writes()
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Metrics too, for the node exporter's textfile collector."),
        Writes(),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write one HTML page that says where the time of a run went, and a trace that Perfetto opens."""
    from cluster.record.story import Story
    from cluster.record.trace import chrome_trace
    from distprove.cli.pages.run import run_page
    from distprove.formats.files import write_atomically
    from distprove.formats.folder import Folder

    story = Story.read(run)
    page, traced = destination or run / "report.html", trace or run / "trace.json"
    shown = run_page(story).encode()
    drawn = json.dumps(chrome_trace(story), separators=(",", ":")).encode()
    with Folder.open(run) as folder:
        for path, given, content in ((page, destination, shown), (traced, trace, drawn)):
            if given is not None:
                write_atomically(path, content)
            else:
                folder.write(path.name, content)
    if metrics is not None:
        from cluster.record.metrics import textfile

        if not story.report:
            raise UsageError(f"{run} has no report yet: it is written when a session ends")
        write_atomically(metrics, textfile(story.name, story.report))
    console = out()
    console.print(f"page   {escape(str(page))}")
    console.print(f"trace  {escape(str(traced))} [dim](opens in https://ui.perfetto.dev)[/]")
