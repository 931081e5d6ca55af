"""What the machine lacks is said in a line, with exit code 3: disks, descriptors, threads, memory.

Disks are real ones, mounted for the test, and limits the kernel's own.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cluster.scheduler.jobs import Progress
from distprove import api
from distprove.errors import JobFailed, ResourceError
from distprove.settings import ExecutorSettings
from tests.cli.conftest import SmallJob, run

DISTPROVE = [sys.executable, "-m", "distprove"]
HERE = ExecutorSettings(local=True, isolate=False, threads=2, gpus=0)
PIDS = next((p for p in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if (p / "cgroup.procs").exists()), None)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a disk in memory with some options."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", place], capture_output=True)
        if done.returncode:
            pytest.skip("nothing can be mounted here")
        return place

    yield mount
    subprocess.run(["umount", "-l", place], capture_output=True)


def commands(small_job: SmallJob, proven: Path, place: Path) -> dict[str, list[object]]:
    """A command line for each that writes, with what it writes at `place`."""
    (small_job.folder / "job.toml").write_text(f'system = "groth16"\nzkey = "{small_job.zkey}"\nwitnesses = ["w"]\n')
    r1cs = small_job.folder / "c.r1cs"
    return {
        "prove": [*small_job.prove(place / "out"), "--no-service"],
        "prove deep": [*small_job.prove(place / "a" / "b" / "out"), "--no-service"],
        "setup": ["setup", "groth16", "--r1cs", r1cs, "--insecure-dev", "--out", place / "out.zkey"],
        "aggregation": ["setup", "aggregation", "--proofs", 2, "--insecure-dev", "--out", place / "out.srs"],
        "inputs": ["setup", "inputs", "--circuit", "filecoin/porep-2KiB", "--out", place / "out"],
        "key": ["key", "fibonacci", "--rows", 8, "--out", place / "out"],
        "export": ["export", proven, "--out", place / "out"],
        "report": ["report", proven, "--out", place / "out"],
        "metrics": ["report", proven, "--metrics", place / "out"],
        "sweep": ["sweep", small_job.folder / "job.toml", "--out", place / "out", "--local"],
        "demo": ["demo", "--out", place / "out"],
        "up": ["up", "--foreground", "--folder", place / "out", "--port", 0],
    }


NAMES = [
    "prove",
    "prove deep",
    "setup",
    "aggregation",
    "inputs",
    "key",
    "export",
    "report",
    "metrics",
    "sweep",
    *("demo", "up"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lacks", ["writes", "names", "room"])
def test_a_disk_that_takes_nothing_is_the_environments_fault(
    small_job: SmallJob, proven: Path, disk: Callable[..., Path], name: str, lacks: str
) -> None:
    place = disk({"writes": "size=1m,ro", "names": "size=1m,nr_inodes=1", "room": "size=4k"}[lacks])
    if lacks == "room":
        with suppress(OSError):
            (place / "fill").write_bytes(bytes(1 << 16))
    done = run(*commands(small_job, proven, place)[name])
    assert done.exit_code == 3, done.output
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.output
    assert "fault in distprove" not in done.output


@pytest.mark.parametrize("size", range(8, 33, 4))
def test_a_disk_that_fills_at_any_time_of_a_job(small_job: SmallJob, disk: Callable[..., Path], size: int) -> None:
    place = disk(f"size={size}k")
    done = run(*small_job.prove(place / "run"), "--no-service")
    assert done.exit_code == 3, done.output
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("how", ["removed", "unmounted"])
def test_a_run_that_goes_away_in_mid_run(
    small_job: SmallJob, disk: Callable[..., Path], tmp_path: Path, at: int, how: str
) -> None:
    """Its disk is lost after the first partition, and after the last."""
    place = disk("size=1m")
    gone = False

    def lose(event: Progress) -> None:
        nonlocal gone
        if event.done >= at and not gone:
            gone = True
            if how == "removed":
                shutil.rmtree(place / "run")
            else:
                subprocess.run(["umount", "-l", place], check=True)

    with pytest.raises(ResourceError, match=r"is gone|was removed"):
        api.prove(zkey=small_job.zkey, witnesses=small_job.witnesses, out=place / "run", executor=HERE, progress=lose)
    assert gone


def test_inputs_that_go_away_in_mid_run(small_job: SmallJob, tmp_path: Path) -> None:
    shutil.copytree(small_job.witnesses, tmp_path / "w")

    def lose(event: Progress) -> None:
        shutil.rmtree(tmp_path / "w", ignore_errors=True)

    with pytest.raises(JobFailed) as raised:
        api.prove(zkey=small_job.zkey, witnesses=tmp_path / "w", out=tmp_path / "run", executor=HERE, progress=lose)
    assert raised.value.exit_code == 3
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert {p["error_kind"] for p in report["partitions"]} <= {"ResourceError", None}


def limits(wtns: Iterable[int], wasm: Iterable[int]) -> pytest.MarkDecorator:
    """Numbers of what there is, for each of the two jobs. A job ends at one of its steps for lack of more, or is
    proven. Until they make witnesses both take the same steps, so one of them ends at these."""
    cases = [("wtns", most) for most in wtns] + [("wasm", most) for most in wasm]
    return pytest.mark.parametrize(("job", "most"), cases, indirect=["job"])


@pytest.fixture
def job(request: pytest.FixtureRequest, small_job: SmallJob) -> list[object]:
    """A job without and with a witness program, which is compiled in a process and then run."""
    given: list[object] = ["--zkey", small_job.zkey, "--wtns", small_job.witnesses / "member-0.wtns"]
    if request.param == "wasm":
        tiny = request.getfixturevalue("shared_data") / "circom" / "tiny"
        file = sorted((tiny / "inputs").iterdir())[0]
        given = ["--zkey", tiny / "circuit.zkey", "--wasm", tiny / "circuit.wasm", "--input", file]
    return ["prove", "groth16", *given, "--no-service", "--gpus", "0", "--threads", "2", "--local"]


def limited(command: list[object], limit: Callable[[], None], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the real command in a process under a limit."""
    words = [*DISTPROVE, *map(str, command)]
    env = {**os.environ, "XDG_CACHE_HOME": str(cwd / "cache")}
    return subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, timeout=300, cwd=cwd, env=env)


def require_environments(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (0, 3), done.stderr
    for sign in ("Traceback", "fault in distprove", "not told in full", "panicked"):
        assert sign not in done.stderr
    if done.returncode:
        assert done.stderr.count("error:") == 1, done.stderr


@limits(wtns=[5, 6, 7, 8, 10], wasm=[9, 10, 12, 13, 14])
def test_descriptors_run_out(job: list[object], tmp_path: Path, most: int) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # noqa: E731
    require_environments(limited([*job, "--out", tmp_path / "run"], limit, tmp_path))


@limits(wtns=[30, 60, 200, 250, 300, 400], wasm=[400, 600, 1000, 4000])
def test_address_space_runs_out(job: list[object], tmp_path: Path, most: int) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (most << 20,) * 2)  # noqa: E731
    require_environments(limited([*job, "--out", tmp_path / "run"], limit, tmp_path))


@pytest.fixture
def processes() -> Iterator[Callable[[int], Callable[[], None]]]:
    """Makes what has a process join a group of at most so many processes and threads."""
    group = None if PIDS is None else PIDS / f"distprove-test-{os.getpid()}"
    try:
        assert group is not None
        group.mkdir()
        (group / "pids.max").write_text("max")
    except (OSError, AssertionError):
        if group is not None and group.is_dir():
            group.rmdir()
        pytest.skip("no control group for processes can be made here")

    def at_most(most: int) -> Callable[[], None]:
        (group / "pids.max").write_text(str(most))
        return lambda: (group / "cgroup.procs").write_text(str(os.getpid())) and None

    yield at_most
    late = time.monotonic() + 60
    while (group / "cgroup.procs").read_text() and time.monotonic() < late:
        time.sleep(0.01)  # a process that the command started, and that sees that it is gone
    group.rmdir()


@limits(wtns=range(1, 12), wasm=[8, 10, 11, 12, 13, 14])
def test_threads_and_processes_run_out(
    job: list[object], tmp_path: Path, most: int, processes: Callable[[int], Callable[[], None]]
) -> None:
    require_environments(limited([*job, "--out", tmp_path / "run"], processes(most), tmp_path))


def test_a_pool_some_of_whose_threads_cannot_start_is_an_error(
    processes: Callable[[int], Callable[[], None]],
) -> None:
    script = "from kernels.cpu.backend import CpuBackend; CpuBackend(threads=16)"
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, preexec_fn=processes(6), capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 1, done.stderr
    assert "RuntimeError: Resource temporarily unavailable" in done.stderr
