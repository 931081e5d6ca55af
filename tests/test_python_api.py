"""The manners of the Python API: callbacks, cancelling, its version, and that nothing is said at its end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from asyncio import CancelledError
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import distprove
from cluster.scheduler.jobs import Progress
from distprove.errors import CalledOff, ServiceGone, UsageError
from distprove.settings import ExecutorSettings
from tests.support import ROOT

WHOLE = """
import sys
import distprove

run = sys.argv[1]
distprove.prove(system="stark", program="fibonacci", partitions=2, arguments={"rows": 64}, out=run)
print(distprove.verify(run + "/proof.msgpack").partitions)
"""

CUT_SHORT = """
import sys
import distprove
from distprove.settings import ExecutorSettings

def stop(progress):
    if progress.stages and progress.stages.get("committing"):
        raise LookupError

try:
    distprove.prove(
        system="stark", program="keccak-f", partitions=3, arguments={"permutations": 300}, out=sys.argv[1],
        executor=ExecutorSettings(local=True, isolate=False, threads=2), progress=stop,
    )
except LookupError:
    print("ended")
"""


def test_a_job_leaves_nothing_on_standard_error(tmp_path: Path) -> None:
    """The extension's own check for leaks spoke at the end: a pool of threads had the life of a module."""
    assert run_script(WHOLE, tmp_path) == (0, "", "2\n")


def test_a_script_ends_while_partitions_are_proven(tmp_path: Path) -> None:
    """The interpreter unwound the provers' threads through C++: leaks were told, or the process aborted."""
    assert run_script(CUT_SHORT, tmp_path) == (0, "", "ended\n")


SLOW_DROP = """
import time
from actors.prover import ProverWorker

drop = ProverWorker.drop

def late(*given):
    time.sleep(1)
    drop(*given)
    print("dropped", flush=True)

ProverWorker.drop = late
"""


def test_a_script_ends_after_what_its_provers_gave_back(tmp_path: Path) -> None:
    """A thread that still gave back commitments was unwound with them: at times leaks were told."""
    assert run_script(SLOW_DROP + CUT_SHORT, tmp_path) == (0, "", "ended\ndropped\n")


def run_script(script: str, folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "run")], capture_output=True, text=True, timeout=250, cwd=ROOT
    )
    return done.returncode, done.stderr, done.stdout


def proven(out: Path, **given: Any) -> distprove.ProveResult:
    """A job whose partitions are proven one by one, so that its callback hears of each."""
    executor = ExecutorSettings(local=True, isolate=False, threads=2, parallel=1, in_flight=1)
    fixed: dict[str, Any] = {"system": "stark", "program": "fibonacci", "partitions": 12, "arguments": {"rows": 64}}
    return distprove.prove(out=out, executor=executor, **fixed, **given)


@pytest.mark.parametrize("error", [LookupError("enough"), SystemExit("enough"), CancelledError("enough")], ids=repr)
def test_what_progress_raises_is_raised_and_the_run_can_be_resumed(error: BaseException, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 1:
            raise error

    with pytest.raises(type(error), match="enough"):
        proven(tmp_path / "run", progress=stop)
    result = distprove.resume(tmp_path / "run")
    assert result.report["status"] == "proved"
    assert [p["status"] for p in result.report["partitions"]].count("resumed") >= 1


@pytest.mark.parametrize("after", [0, 1], ids=["before it begins", "while it proves"])
def test_a_job_is_cancelled_from_another_thread(after: int, tmp_path: Path) -> None:
    cancel, may = threading.Event(), threading.Event()

    def cancelling() -> None:
        may.wait(250)
        cancel.set()

    def told(progress: Progress) -> None:
        if progress.done >= after:
            may.set()
            assert cancel.wait(250)

    thread = threading.Thread(target=cancelling)
    thread.start()
    if not after:
        may.set()
        thread.join()
    with pytest.raises(CalledOff, match="cancelled"):
        proven(tmp_path / "run", progress=told, cancel=cancel)
    thread.join()
    if after:
        cancel.clear()
        assert distprove.resume(tmp_path / "run", cancel=cancel).report["status"] == "proved"


def test_the_version_is_that_of_the_distribution() -> None:
    assert distprove.__version__ == metadata.version("distprove")
    assert "__version__" in dir(distprove)


def test_a_service_is_named_by_a_path_too(tmp_path: Path) -> None:
    """A path was a TypeError of `re`."""
    for service in (tmp_path, str(tmp_path)):
        with pytest.raises(ServiceGone):
            distprove.connect(service)


def test_settings_by_name_change_those_of_the_job(tmp_path: Path) -> None:
    """A mapping was an AttributeError, and for a resumed run a wrong name was a fault of the run's record."""
    job: dict[str, Any] = {"system": "stark", "program": "fibonacci", "arguments": {"rows": 64}}
    settings = {"local": True, "isolate": False, "threads": 2, "memory": "1GiB"}
    assert distprove.prove(out=tmp_path / "run", executor=settings, **job).report["status"] == "proved"
    record = json.loads((tmp_path / "run/job.json").read_text())["job"]
    assert (record["executor"]["threads"], record["executor"]["memory"]) == (2, 1 << 30)
    with pytest.raises(UsageError, match="thread"):
        distprove.prove(out=tmp_path / "other", executor={"thread": 2}, **job)
    with pytest.raises(UsageError, match="thread"):
        distprove.resume(tmp_path / "run", executor={"thread": 2})
