"""`distprove bench filecoin`: partitions of Filecoin's circuits through the whole pipeline."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.backends import open_backend
from distprove.cli.console import format_seconds, reports_errors
from distprove.cli.measured import document, show, tell
from distprove.cli.option_groups import AsJson
from kernels.host.units import format_bytes


@reports_errors
def filecoin(
    config: Annotated[str, typer.Option(help="A circuit that ships, without `filecoin/`: porep-32GiB.")],
    partitions: Annotated[int | None, typer.Option(min=1, max=4096, help="Partitions; a sector's by default.")] = None,
    gpus: Annotated[int, typer.Option(min=0, max=4096, help="GPUs to use; 0 proves on the CPU.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    zkey: Annotated[Path | None, typer.Option(help="A key of this circuit; made here where there is none.")] = None,
    seed: Annotated[int, typer.Option(help="What the inputs are drawn from.")] = 0,
    in_memory: Annotated[
        bool, typer.Option("--in-memory", help="Make the key in the device's memory and prove here, without files.")
    ] = False,
    device_memory: Annotated[
        str | None,
        typer.Option(help="Memory of the device to use, at most, like 24GiB; by default what is free there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure seconds of a sector and of a partition of Filecoin's, by step, synthesis included.

    Leaves and siblings are random, and the key is a development key. A configuration that does not fit is told first.
    """
    from distprove.bench import filecoin as bench
    from distprove.bench import resident
    from distprove.circuits.registry import find_circuit
    from distprove.errors import UsageError
    from distprove.settings import ExecutorSettings, parse_bytes

    if in_memory and (zkey is not None or gpus > 1):
        raise UsageError("--in-memory makes its own key on one device: leave out --zkey, and take at most one GPU")
    count = partitions or find_circuit(f"filecoin/{config}").partitions
    kind = "auto" if gpus else "cpu"
    budget = None if device_memory is None else parse_bytes(device_memory)
    executor = ExecutorSettings(local=True, backend=kind, gpus=gpus, threads=threads, device_memory=budget)
    with (
        tempfile.TemporaryDirectory(prefix="distprove-filecoin-") as folder,
        open_backend(kind, threads=threads, budget=budget) as backend,
    ):
        info = backend.info()
        if in_memory:
            found = resident.bench_resident(backend, config, count, tell, seed=seed)
        else:
            found = bench.bench_filecoin(backend, config, count, executor, Path(folder), tell, zkey=zkey, seed=seed)
    made = document("filecoin", resident if in_memory else bench, info, [found])
    plan = found.plan
    notes = [
        f"{plan.wires} wires, 2^{plan.log_domain}; {found.partitions} partitions in {format_seconds(found.wall)}, a "
        f"sector has {found.partitions_of_a_sector}.",
        f"Planned: host {format_bytes(plan.host)}, device {format_bytes(found.device_planned)}, set-up "
        f"{format_bytes(plan.setup)}; set-up took {format_bytes(found.setup_device_peak)} of the device.",
    ]
    if found.streamed:
        notes.append(f"Streamed: {', '.join(found.streamed)}, {format_bytes(found.to_device)} a proof.")
    show(made, as_json, *notes)
