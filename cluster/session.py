"""A job from beginning to end: what the command line and `distprove.prove` call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from shlex import quote

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run, require_free
from cluster.scheduler.jobs import Progress
from cluster.scheduler.loop import Client
from distprove.errors import ClusterError, UntrustedName, UsageError
from distprove.formats.owncode import require_no_imports_from, require_outside
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings, Settings
from distprove.system import ProofSystem
from kernels.host.scratch import remove_left_over

RESTARTS = 3
"""Number of times that a Ray of a job's own is started again after it was lost."""


def prove_job(job: Job, out: Path, progress: Callable[[Progress], None] | None, *, overwrite: bool) -> Proof:
    """Prove `job` into a new run at `out`. Errors are those of `driver.drive`, and UsageError when `out` is taken.

    With `overwrite` a run that is there is replaced, once the job is loaded, unless a driver is at work on it.
    """
    require_free(out)
    remove_left_over()
    with ExitStack() as opened:
        client = opened.enter_context(
            open_client(job.executor, job.options.likely_provers)
        )  # first: it starts meanwhile
        system = job.load()
        with Run.create(out, system, system.plan(), job, overwrite=overwrite) as run, opened.pop_all():
            return _through_losses(system, client, run, job.executor, progress)


def resume_job(
    path: Path,
    progress: Callable[[Progress], None] | None = None,
    settings: Settings | None = None,
    *,
    program: str | None = None,
    expected: Job | None = None,
    same_inputs: bool = False,
) -> Proof:
    """Do what is missing of the run at `path`, with its job's settings or those in `settings`.

    The run names no code: a `program` that does not ship is named by the caller, and comes from outside of the run.
    `expected` is a job that the run must be of. `same_inputs`: inputs whose times of change are not what they were have
    the content that they had. Raises UsageError.
    """
    with Run.open(path, same_inputs=same_inputs) as run:
        require_no_imports_from(path)
        if expected is None:
            job = run.job(program, settings)
        elif run.is_of(expected):
            job = expected
        else:
            raise UsageError(
                f"{path} is a run of another job: `distprove resume {quote(str(path))}` continues that one, "
                "--overwrite replaces it (resume(), overwrite=True)"
            )
        job.find_code()  # where it would be imported from is then what is looked at
        for name in job.code:
            require_outside(name, path)
        remove_left_over()
        with open_client(job.executor, job.options.likely_provers) as client:
            system = _loaded_again(job, run)
            run.keep_key(system)
            return _through_losses(system, client, run, job.executor, progress)


def _loaded_again(job: Job, run: Run) -> ProofSystem:
    """The run's proof system. An error that code of the user's own is not found says where it was as the run began:
    from there it is imported only if the user chooses so."""
    try:
        return job.load()
    except UsageError as error:
        if job.code and run.code_folder and not isinstance(error, UntrustedName):
            raise UsageError(
                f"{error}; as the run began, its code was in {run.code_folder}: if you trust what is there, run this "
                "command from there"
            ) from None
        raise


def _through_losses(
    system: ProofSystem,
    client: Client,
    run: Run,
    settings: ExecutorSettings,
    progress: Callable[[Progress], None] | None,
    restarts: int = RESTARTS,
) -> Proof:
    """`driver.drive`, and where the Ray that was started for the job is lost, go on with another one, some times."""
    try:
        return drive(system, client, run, settings, progress)
    except ClusterError:
        if not client.replaceable or not restarts:
            raise
    client.scheduler.close(now=True)
    run.read_again()
    with open_client(settings) as another:
        return _through_losses(system, another, run, settings, progress, restarts - 1)
