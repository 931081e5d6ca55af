"""Fixtures that several test folders share."""

from __future__ import annotations

import faulthandler
import gc
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.collection import import_all
from tests.support.distribution import RAY_FIXTURES, rank_of, unit_of

ROOT = Path(__file__).resolve().parent.parent

# Ray reads these when it is imported, which a test module may do while tests are collected. With a niceness of 15, as
# Ray has it, its workers get next to nothing of a core that others want.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
os.environ.update(RAY_worker_niceness="0")

# Nor does Ray end the jobs of tests because whatever else the machine does takes its memory.
os.environ.update(RAY_memory_monitor_refresh_ms="0")

# No test is proved by a service that whoever runs the tests has running.
os.environ["XDG_STATE_HOME"] = "/nonexistent"
os.environ.pop("DISTPROVE_SERVICE", None)

# Where the environment forbids bytecode, each process that a test starts compiles all that it imports, which is most of
# a small job's time, and of a Ray's start.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / ".pytest_cache" / "bytecode"))

# How long an example takes, or is made, says how busy the machine is.
hypothesis_settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("patient")


RAY_TIMEOUT = 1200
"""Seconds that a test over Ray has, unless it says more: at a load of 60 a node took five minutes to come and go."""

GRACE = 60
"""Seconds that a test has to end after its timeout. A test in native code, or one that waits for a thread that does not
end, is not reached by the timeout's exception: it would hold up the whole run, and nobody would learn which it was."""

_stderr = 2


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    _stderr = os.dup(2)  # while a test runs, its output is captured
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Running(), "running")


class Running:
    """Tells on SIGTERM which tests are running: whoever ends a run that takes too long learns why."""

    def __init__(self) -> None:
        self.tests: dict[str, float] = {}
        self.before = signal.signal(signal.SIGTERM, self.tell)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tests[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.tests.pop(nodeid, None)

    def tell(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        for test, since in self.tests.items():
            os.write(_stderr, f"running for {now - since:.0f} s: {test}\n".encode())
        signal.signal(number, self.before)
        os.kill(os.getpid(), number)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a process whose test does not end, with the stacks of its threads. The run goes on with another process."""
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0]) if marker else float(item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is not None and [Path(given).resolve() for given in session.config.args] == [ROOT / "tests"]:
        import_all(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    return (yield)


def pytest_collection_finish() -> None:
    """A prover that is closed has Python collect its garbage. That shall not pass over all tests and modules each time:
    it took a third of a second."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or nanobind takes what is left for leaks


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not set(RAY_FIXTURES).isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.ray)
        if item.get_closest_marker("ray") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(RAY_TIMEOUT))
    if hasattr(config, "workerinput"):  # one of several processes
        items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread the units of `tests.support.distribution` over the processes, in the order of the collected tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def remove_node(self, node: Any) -> str | None:
            """The test that ended a process failed: xdist would run it again, in each process that follows."""
            crashed: str | None = super().remove_node(node)
            for name, tests in list(self.workqueue.items()):
                if crashed in tests:
                    tests[crashed] = True
                    if all(tests.values()):
                        del self.workqueue[name]
            return crashed

    config.option.loadscopereorder = False
    return ByUnit(config, log)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real circuits with keys and inputs; skips where it is not to be had."""
    path = Path(os.environ.get("DISTPROVE_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (path / "circom").is_dir():
        pytest.skip(f"no real circuits at {path} (set DISTPROVE_SHARED_DATA)")
    return path


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT and SIGHUP reach the processes that a test starts, also where this one ignores them: in the background of
    a shell, and under nohup."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Snarkjs:
    """Runs the snarkjs command line."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def __call__(self, *args: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["node", str(self.program), *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280)
        if check and done.returncode != 0:
            raise AssertionError(f"snarkjs {' '.join(map(str, args))}: {done.stdout}{done.stderr}")
        return done


@pytest.fixture(scope="session")
def snarkjs() -> Snarkjs:
    """snarkjs from tests/interop/node_modules, or where DISTPROVE_SNARKJS points; skips without Node."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    default = ROOT / "tests" / "interop" / "node_modules" / "snarkjs" / "build" / "cli.cjs"
    program = Path(os.environ.get("DISTPROVE_SNARKJS", default))
    if not program.is_file():
        pytest.skip(f"snarkjs is not installed at {program} (make node)")
    return Snarkjs(program)
