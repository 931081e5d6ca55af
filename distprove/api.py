"""The Python API of distprove. It can do what the command line can do.

    import distprove

    result = distprove.prove(system="groth16", zkey="c.zkey", wasm="c.wasm", inputs="inputs/*.json", out="run")
    checked = distprove.verify("run/proof.msgpack", vk="verification_key.json")

    result = distprove.prove(system="stark", program="fibonacci", arguments={"rows": "2^20"}, partitions=4, out="run")

    distprove.aggregate(["run-a", "run-b"], out="both")          # STARK jobs that end in one proof
    checked = distprove.verify_aggregate("both")

`prove` and `resume` run a whole job and return when every partition is proven and verified; errors are the types in
`distprove.errors`. On a cluster call them from the driver (`ray job submit`), with `executor=ExecutorSettings(
address="auto")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from cluster.record.run import is_run, read_proof, require_code_outside
from cluster.record.story import report_of_ours
from cluster.scheduler.jobs import Progress
from cluster.session import prove_job, resume_job
from distprove.entry import OwnProgram
from distprove.errors import UsageError
from distprove.expected import Expected, GivenPublic
from distprove.formats.files import kind_at, read_bounded, require_apart, write_atomically
from distprove.formats.notebook import facts_html
from distprove.formats.owncode import require_outside
from distprove.job import Job
from distprove.options import SECURITY_BITS
from distprove.proof import MAX_OUTPUT, PROOF_FILE, Proof
from distprove.registry import DEFAULT
from distprove.settings import ExecutorSettings, Settings
from distprove.several import contract_verifier, several_jobs
from distprove.verification import Verified, verify_proof
from distprove.wanted import require_wanted, unless

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from distprove.several import OneOfSeveral, VerifiedAggregate, VerifiedRead
    from distprove.typed_options import JobOptions

__all__ = [
    "ExecutorSettings",
    "Job",
    "Progress",
    "Proof",
    "ProveResult",
    "Verified",
    "aggregate",
    "prove",
    "resume",
    "verify",
    "verify_aggregate",
    "verify_contract",
]


@dataclass(frozen=True, repr=False)
class ProveResult:
    """The result of a job whose partitions are all proven and verified."""

    run: Path
    """The run folder."""
    proof: Proof
    report: dict[str, Any]
    """The content of report.json: times, bytes and retries of each partition and each worker."""

    def __repr__(self) -> str:
        seconds = float(self.report.get("wall_seconds", 0.0))
        return f"<ProveResult: {self.report.get('status')} in {seconds:.2f} s, run {str(self.run)!r}, {self.proof!r}>"

    def _repr_html_(self) -> str:
        report = self.report
        facts = {
            "status": report.get("status"),
            "partitions": len(self.proof.partitions),
            "seconds": f"{float(report.get('wall_seconds', 0.0)):.2f}",
            "key": self.proof.key_digest.hex(),
            "job": self.proof.job_digest.hex(),
            "run": self.run,
        }
        return facts_html(f"{self.proof.system} job", facts)

    @property
    def proof_path(self) -> Path:
        return self.run / PROOF_FILE


def prove(
    job: Job | str | Path | None = None,
    *,
    out: str | Path,
    system: str = DEFAULT,
    title: str = "",
    executor: Settings | None = None,
    resume_existing: bool = False,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Event | None = None,
    **options: Unpack[JobOptions],
) -> ProveResult:
    """Prove every partition of a job into the run folder `out`, and bind the proofs into one.

    Takes either `job` (a `Job`, or the path of a job file), or `system` with the keys of its job file as `options`:
    docs/jobs.md lists them.

    `executor` replaces the job's settings, as a whole or by name if it is a mapping. With `resume_existing` a run that
    already exists at `out` is continued; it must be a run of the same job. With `overwrite` it is replaced instead,
    unless a driver is at work on it.

    `progress` is called with what happens, in this thread or in one of the job's; what it raises ends the job and is
    raised here. Another thread ends the job by `cancel.set()`: then CalledOff is raised within a second or two. What is
    proven by then stays in the run, which can be resumed.

    Raises UsageError and InputError for bad arguments and files, ClusterError when the workers cannot be placed,
    JobFailed when a partition could not be proven (the run keeps the others and can be resumed).
    """
    described = [Path(job)] if isinstance(job, (str, Path)) else []
    if job is not None and options:
        raise UsageError(f"give either a job or {', '.join(options)}, not both")
    if job is None:
        job = Job.from_options(system, title=title, **options)
    elif not isinstance(job, Job):
        job = Job.from_toml(Path(job))
    if executor is not None:
        if not isinstance(executor, ExecutorSettings):
            executor = job.executor.changed(executor)
        job = replace(job, executor=executor)
    if resume_existing and overwrite:
        raise UsageError("a run that is there is either resumed or overwritten")
    run = Path(out)
    with _unless(cancel):
        require_wanted()
        if resume_existing and is_run(run):
            return ProveResult(run, resume_job(run, progress, expected=job), report_of_ours(run))
        require_apart([], [*described, *job.files], [run])
        for name in job.code:
            require_outside(name, run)
        return ProveResult(run, prove_job(job, run, progress, overwrite=overwrite), report_of_ours(run))


def _unless(cancel: Event | None) -> AbstractContextManager[None]:
    return unless(cancel.is_set) if cancel is not None else nullcontext()


def resume(
    run: str | Path,
    *,
    program: str | None = None,
    executor: Settings | None = None,
    same_inputs: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Event | None = None,
) -> ProveResult:
    """Verify what a run already holds, then prove the partitions that are missing. Calls `progress`, looks at `cancel`
    and raises as `prove` does.

    `executor` replaces the job's settings, as a whole or, if it is a mapping, by name. A run folder does not choose
    what code runs, nor which cluster is joined: a `program` that does not ship ("module:Class"), a user's own backend
    and the address of a cluster must be named here again, or UntrustedName is raised. Inputs that were written again
    since are refused, unless `same_inputs` says that their content is what it was.
    """
    run = Path(run)
    with _unless(cancel):
        require_wanted()
        proof = resume_job(run, progress, executor, program=program, same_inputs=same_inputs)
    return ProveResult(run, proof, report_of_ours(run))


def verify(
    proof: str | Path | Proof,
    *,
    vk: str | Path | None = None,
    expected_job: bytes | None = None,
    least_security: float = SECURITY_BITS,
    trust_own_key: bool = False,
    program: str | None = None,
    arguments: Mapping[str, int | str] | None = None,
    output: str | Path | bytes | None = None,
    exit_code: int | None = None,
    public_input: str | Path | bytes | None = None,
    public: str | Path | Expected | None = None,
    threads: int = 1,
    tree_wires: int | None = None,
    wrap_vk: str | Path | None = None,
    circuit: str | None = None,
    proof_type: str | None = None,
) -> Verified:
    """Verify a proof file: its binding, then all partitions as one batch with random coefficients.

    `vk` is the verification key to trust (snarkjs' verification_key.json, a STARK's verifying_key.msgpack). Without it
    a Groth16 proof can only be checked under the key that came with it, which says nothing about whose key that is:
    UntrustedKey is raised, unless `trust_own_key` accepts this key; the caller should then compare `key_digest` of the
    result. A STARK proof names its program and parameters, and for programs that ship the key is made again from them:
    the caller should compare `proven` of the result. `least_security` is the number of bits of security that a STARK
    proof must reach; the default is what a prover reaches by default. `expected_job` is the job digest, which fixes
    number, order, names and public values of the partitions.

    For a program of your own, `program` names it as "module:Class" with its `arguments`, in place of `vk`: it is
    imported, and the key is made from it. A proof of other arguments is refused. One that ships is named likewise, to
    hold a proof to its `arguments`, such as `{"elf": "guest.elf"}` of "riscv". Those that the public values tell, such
    as the file of "file-root", are compared with them. Others, such as a seed, raise UsageError.

    `exit_code` is the one that a proof of a guest must state, by default 0. Given for a proof that states none, it
    raises UsageError. `public_input`, a file or the bytes themselves, is what the guest of "riscv" was given: the words
    that it read are compared.

    `public` are the public values that the proof must state, or a file of them as JSON: a list of all values of the
    only partition, as snarkjs's public.json, or a mapping by name, as `distprove.expected` describes. A proof
    system may have a form of its own, which its page describes. A value that differs raises InvalidProof, which names
    both.

    A job may have an output of variable length, whose length and digest the proof states. It is verified with the one
    in the run folder, or with `output`, the file or the bytes themselves. Without either OutputMissing is raised,
    because nothing then ties the partitions' tables to what they wrote.

    For a job that ends in one proof the verifier makes circuits, whose size the file decides. More than `tree_wires`
    wires raise TooMuchWork before any is made; the default has room for honest jobs
    (`distprove.stark.recursion.work.MOST_TREE_WIRES`). Under `wrap_vk`, the verification key of a wrap's circuit, the
    wrap beside the file is verified in place of the one proof. `wrap` of the result has that key's digest and the
    wrap's public value, and the bits are then those of the proofs inside the wrap.

    The statement of a proof of Filecoin's names a type and size of sectors, and so a circuit. A key does not show which
    circuit it is of, and those of several sizes take the same public values. `circuit` names the one that `vk` is of,
    such as "filecoin/winning-post-32GiB": a statement of another one raises InvalidProof. `proof_type` likewise names
    the expected type of proof, such as "StackedDrg32GiBV1_1", of which a circuit may have several. Without either
    `unbound` of the result warns of what is the prover's word. The rest of the statement is in `proven` of the result
    for the caller to compare.

    With more than one of `threads` the partitions of a STARK are verified in so many forks of this process, where it
    has no other threads and that takes less time.

    Raises InvalidProof when something does not hold, OutputMissing, UntrustedKey when it holds under an unknown key
    only, FormatError and InputError for files that cannot be read.
    """
    wrap: tuple[Path, Path] | None = None
    if wrap_vk is not None:
        if isinstance(proof, Proof):
            raise UsageError("a wrap lies beside a proof's file: give its path")
        if contract_verifier().is_read(Path(proof)):
            raise UsageError("a contract reads the wrap beside this proof: verify it with verify_contract")
        wrap = Path(proof), Path(wrap_vk)
    if not isinstance(proof, Proof):
        if program is not None:
            require_code_outside(program, Path(proof))
        proof = read_proof(Path(proof), with_output=output is None)
    return verify_proof(
        proof,
        Path(vk) if vk is not None else None,
        expected_job,
        least_security,
        trust_own_key=trust_own_key,
        program=OwnProgram(program, arguments or {}) if program is not None else None,
        output=read_bounded(Path(output), MAX_OUTPUT) if isinstance(output, (str, Path)) else output,
        exit_code=exit_code,
        public_input=Path(public_input) if isinstance(public_input, str) else public_input,
        public=GivenPublic.given(public) if public is not None else None,
        threads=threads,
        tree_wires=tree_wires,
        wrap=wrap,
        circuit=circuit,
        proof_type=proof_type,
    )


def verify_contract(
    folder: str | Path,
    *,
    wrap_vk: str | Path,
    vk: str | Path | None = None,
    program: str | None = None,
    arguments: Mapping[str, int | str] | None = None,
    least_security: float = SECURITY_BITS,
    exit_code: int = 0,
    output: bytes | None = None,
    tree_wires: int | None = None,
) -> VerifiedRead:
    """Verify a wrap that a contract reads: proof.json, public.json and program.msgpack of a folder, such as a run's.

    `wrap_vk` is the Groth16 verification key, which is trusted to be of the right circuit. `program` with `arguments`,
    such as "riscv" with `{"elf": "guest.elf"}`, is the program that the wrap must be of; or `vk` is the key of its
    segments. Without either the file names a program that ships: the caller should compare `program` of the result, the
    digest that the contract has. The job must have ended with `exit_code` and, if it is given, with `output`.

    Raises InvalidProof when something does not hold, FormatError and InputError for files that cannot be read,
    UsageError, and TooMuchWork for circuits of more than `tree_wires` wires.
    """
    if program is not None:
        require_code_outside(program, Path(folder))
    own = OwnProgram(program, arguments or {}) if program is not None else None
    key = Path(vk) if vk is not None else None
    verify_files = contract_verifier().verify_read_files
    found: VerifiedRead = verify_files(Path(folder), Path(wrap_vk), key, own, least_security, tree_wires)
    found.require(exit_code, output)
    return found


def aggregate(
    proofs: Sequence[str | Path],
    *,
    out: str | Path,
    vks: Sequence[str | Path] = (),
    backend: str = "auto",
    threads: int | None = None,
    overwrite: bool = False,
) -> OneOfSeveral:
    """Make one proof of 2 to 64 STARK jobs, which end in one proof each, and write it to the file `out`.

    `proofs` are run folders or proof files. The jobs may be of different programs and sizes; they ask for the same bits
    of security and of work. `vks` are verifying keys of programs that do not ship, where no run holds them. The proof
    is made on this process's `backend`, "auto", "cpu" or "cuda", and verified before it is written.

    Raises UsageError for proofs that have no aggregate, InvalidProof for one that does not hold, FormatError and
    InputError for files that cannot be read.
    """
    from distprove.cli.backends import open_backend
    from distprove.cli.option_groups import run_files

    runs, given, written = [Path(proof) for proof in proofs], [Path(vk) for vk in vks], Path(out)
    require_apart([written], [*runs, *given, *(file for run in runs for file in run_files(run))])
    if kind_at(written) and not overwrite:
        raise UsageError(f"{written} is there already; overwrite=True replaces it")
    loaded = [read_proof(run) for run in runs]
    with open_backend(backend, threads=threads) as chosen:
        made: OneOfSeveral = several_jobs("runs").aggregated(runs, loaded, given, chosen)
    write_atomically(written, made.to_bytes())
    return made


def verify_aggregate(
    aggregate: str | Path | OneOfSeveral,
    *,
    vks: Sequence[str | Path] = (),
    program: str | None = None,
    arguments: Mapping[str, int | str] | None = None,
    expected_jobs: Sequence[bytes] | None = None,
    least_security: float = SECURITY_BITS,
    exit_code: int | None = None,
    public_input: str | Path | bytes | None = None,
    tree_wires: int | None = None,
) -> VerifiedAggregate:
    """Verify one proof of several STARK jobs, as `aggregate` writes it. The result has for each job what `verify` would
    return for its own proof, and the layers that the aggregate adds.

    Each of `vks` is for the jobs under this key, and `program` for those of this program; one that no job has raises
    InvalidProof. Keys of other jobs are made again from the programs that the file names, which must ship.
    `expected_jobs` are the digests of all jobs, in any order. `least_security` is for the weakest layer of all.
    `exit_code`, by default 0, is for each job that states one, and `public_input` for the one job that is compared with
    one. `tree_wires` bounds the circuits of all jobs together.

    Raises as `verify` does, with the number of the job.
    """
    if isinstance(aggregate, (str, Path)):
        if program is not None:
            require_code_outside(program, Path(aggregate))
        aggregate = several_jobs("file").read(Path(aggregate))
    verified: VerifiedAggregate = several_jobs("trusted").verify(
        aggregate,
        vks=[Path(vk) for vk in vks],
        program=OwnProgram(program, arguments or {}) if program is not None else None,
        expected_jobs=expected_jobs,
        least_security=least_security,
        exit_code=exit_code,
        public_input=Path(public_input) if isinstance(public_input, str) else public_input,
        tree_wires=tree_wires,
    )
    return verified
