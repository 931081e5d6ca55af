"""`distprove bench filecoin`: partitions of Filecoin's circuits on one device."""

from __future__ import annotations

from typing import Annotated

import typer

from distprove.cli.backends import open_backend
from distprove.cli.console import format_seconds, reports_errors, tell
from distprove.cli.measured import document, show
from distprove.cli.option_groups import AsJson
from kernels.host.units import count_of, format_bytes


@reports_errors
def filecoin(
    config: Annotated[str, typer.Option(help="A circuit that ships, without `filecoin/`: porep-32GiB.")],
    partitions: Annotated[int | None, typer.Option(min=1, max=4096, help="Partitions; a sector's by default.")] = None,
    gpus: Annotated[int, typer.Option(min=0, max=4096, help="1 for a GPU; 0 proves on the CPU.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    seed: Annotated[int, typer.Option(help="What the inputs are drawn from.")] = 0,
    device_memory: Annotated[
        str | None,
        typer.Option(help="Memory of the device to use, at most, like 24GiB; by default what is free there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure seconds of a sector and of a partition of Filecoin's, by step, synthesis included.

    Leaves and siblings are random, and the key is a development key, made in the device's memory without files.
    """
    from distprove.circuits.registry import find_circuit
    from distprove.errors import UsageError
    from distprove.measure import filecoin as bench
    from distprove.settings import parse_bytes

    if gpus > 1:
        raise UsageError(
            "this measures one device; several prove a job: `distprove setup groth16 --circuit`, `setup inputs` and "
            "`prove groth16 --circuit`, as docs/circuits.md says"
        )
    count = partitions or find_circuit(f"filecoin/{config}").partitions
    budget = None if device_memory is None else parse_bytes(device_memory)
    with open_backend("auto" if gpus else "cpu", threads=threads, budget=budget) as backend:
        found = bench.bench_filecoin(backend, config, count, tell, seed=seed)
        made = document("filecoin", bench, backend.info(), [found])
    plan = found.plan
    notes = [
        f"{count_of(plan.wires, 'wire')}, 2^{plan.log_domain}; {count_of(found.partitions, 'partition')} in "
        f"{format_seconds(found.wall)}, a "
        f"sector has {found.partitions_of_a_sector}.",
        f"Planned: host {format_bytes(plan.host)}, device {format_bytes(found.device_planned)}, set-up "
        f"{format_bytes(plan.setup)}; set-up took {format_bytes(found.setup_device_peak)} of the device.",
    ]
    if found.streamed:
        notes.append(f"Streamed: {', '.join(found.streamed)}, {format_bytes(found.to_device)} a proof.")
    show(made, as_json, *notes)
