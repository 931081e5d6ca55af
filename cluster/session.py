"""A job from beginning to end: what the command line and `distprove.prove` call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cluster.dispatch import Progress
from cluster.driver import prove
from cluster.executors import open_executor
from cluster.run import Run
from distprove.job import ExecutorSettings, Job
from distprove.proof import Proof
from distprove.system import ProofSystem
from distprove.systems import load_system


def prove_job(
    job: Job, out: Path, progress: Callable[[Progress], None] | None = None, system: ProofSystem | None = None
) -> Proof:
    """Prove `job` into a new run at `out`. Errors are those of `driver.prove`, and UsageError when `out` is taken.

    `system` is given by callers that made it already, so that the key is not read twice.
    """
    system = system or load_system(job)
    with Run.create(out, system, system.plan(), job) as run:
        return _run(system, run, job.executor, progress)


def resume_job(
    path: Path, progress: Callable[[Progress], None] | None = None, settings: ExecutorSettings | None = None
) -> Proof:
    """Do what is missing of the run at `path`, on the executor of its job or the one in `settings`."""
    with Run.open(path) as run:
        job = run.job()
        if settings is not None:
            job = replace(job, executor=settings)
        return _run(load_system(job), run, job.executor, progress)


def _run(
    system: ProofSystem, run: Run, settings: ExecutorSettings, progress: Callable[[Progress], None] | None
) -> Proof:
    with open_executor(settings) as executor:
        return prove(system, executor, run, settings, progress)
