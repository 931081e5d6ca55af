"""A fork server: what it forks, whose children these are, and what ends with which process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork servers are of Linux")

BODY = """
import json, os, signal, sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from actors.fork_server import ForkServer

def serve(connection):
    line = Connection(connection)
    while True:
        try:
            asked = line.recv()
        except EOFError:
            os._exit(0)
        line.send(eval(asked, {"os": os, "sys": sys, "threads": lambda: len(os.listdir("/proc/self/task"))}))

def warm(spec, path):
    assert (spec, path) == (b"spec", sys.path)
    import colorsys

server = ForkServer(serve, warm, [os.open("/dev/null", os.O_RDONLY)])

def forked(name):
    ours, theirs = Pipe()
    with theirs:
        return server.fork(name, [theirs.fileno()]), ours

def ask(line, what):
    line.send(what)
    return line.recv()
"""


def run(folder: Path, body: str) -> subprocess.Popen[str]:
    path = folder / "script.py"
    path.write_text(BODY + body)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, path, "some", "room", "for", "a", "name"], env=environment, stdout=subprocess.PIPE, text=True
    )


def done(folder: Path, body: str) -> list[str]:
    with run(folder, body) as process:
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    return output.splitlines()


def test_what_is_forked_is_the_workers_own_child(tmp_path: Path) -> None:
    body = """
server.prepare(b"spec")
before = set(os.listdir("/proc/self/fd"))
(one, line), (two, other) = forked("one"), forked("two")
for process, end, name in ((one, line, "one"), (two, other, "two")):
    assert process.pid == ask(end, "os.getpid()")
    assert ask(end, "os.getppid()") == os.getpid()
    assert ask(end, "os.getsid(0)") == process.pid, "of no session of ours"
    assert ask(end, "'colorsys' in sys.modules") and "colorsys" not in sys.modules
    assert ask(end, "threads()") == 1
    assert len(ask(end, "[fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2]")) == 2, "the line, and the listing"
    assert Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"distprove-" + name.encode() + b"\\0")
one.kill()
other.close()
assert (one.wait(), one.wait(), two.wait()) == (-signal.SIGKILL, -signal.SIGKILL, 0)
one.kill()
line.close()
assert set(os.listdir("/proc/self/fd")) == before
print("over")
"""
    assert done(tmp_path, body) == ["over"]


def test_without_its_server_nothing_is_forked(tmp_path: Path) -> None:
    body = """
import psutil
one, line = forked("one")
(found,) = [child for child in psutil.Process().children() if child.pid != one.pid]
found.kill()
found.wait()
for name in ("two", "three"):
    try:
        forked(name)
    except OSError:
        print(name, ask(line, "os.getppid()") == os.getpid())
"""
    assert done(tmp_path, body) == ["two True", "three True"]


def test_a_fork_server_ends_with_its_worker(tmp_path: Path) -> None:
    body = """
one, line = forked("one")
print(*os.listdir(f"/proc/{os.getpid()}/task"), flush=True)
signal.pause()
"""
    with run(tmp_path, body) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) == 2
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive


def test_a_process_goes_on_adopting_if_it_did(tmp_path: Path) -> None:
    """A program that adopts orphans by itself still does, and one that does not does not begin to."""
    body = """
import ctypes
libc, found = ctypes.CDLL(None), ctypes.c_int()
for adopts in (0, 1):
    libc.prctl(36, adopts, 0, 0, 0)
    one, line = forked("one")
    libc.prctl(37, ctypes.byref(found), 0, 0, 0)
    print(found.value)
    one.kill()
"""
    assert done(tmp_path, body) == ["0", "1"]


def test_a_server_that_outlives_a_job_imports_no_code_of_a_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class System: pass\n")
    body = """
from actors import bootstrap
from actors.messages import WorkerSpec, pickled
from distprove.groth16.system import Groth16System
import dataclasses, mine

def spec(system):
    fields = {field.name: None for field in dataclasses.fields(WorkerSpec)}
    return pickled(WorkerSpec(**{**fields, "system": system}))

warmed = []
bootstrap._warm = lambda spec, path: warmed.append(spec)
Groth16System.__getstate__ = lambda self: self.__dict__
ships, own = (Groth16System.__new__(Groth16System) for _ in range(2))
ships.circuit, own.circuit = "filecoin/porep-2KiB", "mine:circuit"
specs = [spec(system) for system in (ships, own, mine.System())]
del sys.modules["mine"]
for one in specs:
    bootstrap._warm_shipped(one, sys.path)
print(len(warmed), warmed[0] == specs[0], "mine" in sys.modules)
"""
    assert done(tmp_path, body) == ["1 True False"]


def test_what_a_fork_server_shares_is_what_synthesis_needs(tmp_path: Path) -> None:
    """A fork saves half a second of imports, none of which is for a driver, Ray or a device."""
    body = """
import actors.server
from distprove.groth16.system import Groth16System
others = {"ray", "cupy", "cuda", "cluster", "typer", "rich", "kernels.cuda", "distprove.stark"}
print(*others & sys.modules.keys(), "wasmtime" in sys.modules)
system = Groth16System.__new__(Groth16System)
system.circuit = None
for wasm in (None, Path("c.wasm")):
    system.wasm_path = wasm
    before = set(os.listdir("/proc/self/task"))
    system.import_ahead()
    print(*others & sys.modules.keys(), "wasmtime" in sys.modules, set(os.listdir("/proc/self/task")) == before)
"""
    assert done(tmp_path, body) == ["False", "False True", "True True"]


UNGUARDED = """
import multiprocessing
print("runs as", __name__, flush=True)
process = multiprocessing.get_context("forkserver").Process(target=print, args=("serves",))
process.start()
process.join()
print(process.exitcode)
"""
GUARDED = """
import multiprocessing, os, sys
context = multiprocessing.get_context("forkserver")

def worker(line):
    ours, theirs = context.Pipe()
    context.Process(target=synthesiser, args=(theirs,)).start()
    line.send(("colorsys" in sys.modules, ours.recv() == os.getpid()))

def synthesiser(line):
    line.send(os.getppid())

if __name__ == "__main__":
    for modules in (["wave"], ["wave", "colorsys"]):
        context.set_forkserver_preload(modules)
        ours, theirs = context.Pipe()
        context.Process(target=worker, args=(theirs,)).start()
        print(*ours.recv())
"""


def test_what_pythons_own_fork_server_does_not_do(tmp_path: Path) -> None:
    """It imports a user's main module in each process, which must have a guard. Once it runs it imports nothing more,
    as for the next job's key. What a worker starts is not the worker's child, which the worker could wait for."""
    path = tmp_path / "script.py"
    said = []
    for script in (UNGUARDED, GUARDED):
        path.write_text(script)
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=200)
        said.append(done.stdout.splitlines())
    assert said == [["runs as __main__", "runs as __mp_main__", "1"], ["False False", "False False"]]


def test_workers_of_a_main_program_are_forked_from_what_it_has_imported(tmp_path: Path) -> None:
    """They are its children as others are, and what they leave behind is not; without the server they import again."""
    body = """
import psutil, threading, time
from actors import bootstrap, processes
from actors.messages import HostSpec
from actors.backends import BackendChoice
from cluster.governor.local import LocalGovernor
from cluster.governor.state import Budget

waits = threading.Event()
threading.Thread(target=waits.wait, daemon=True).start()
with bootstrap.forking_from_here():
    assert processes.forking is None, "not from a process with threads"
waits.set()
while threading.active_count() > 1:
    time.sleep(0.01)
others = psutil.Process().children()
scope = bootstrap.forking_from_here()
scope.__enter__()
(mine,) = [child for child in psutil.Process().children() if child not in others]

def born(name):
    started = processes.start_process(name, has_fork_server=True)
    spec = HostSpec(name, BackendChoice("cpu"), 1)
    host = processes.HostProcess(name, spec, LocalGovernor(Budget(1, 1)), started=started)
    host.start()
    process = psutil.Process(started.process.pid)
    assert process.ppid() == os.getpid()
    assert os.getsid(process.pid) == process.pid
    return host, process, bool(process.cmdline()[0] == f"distprove-{name}")

host, process, forked_ = born("prover-0")
(orphan,) = process.children()
process.kill()
psutil.wait_procs([orphan, process], timeout=60)
assert orphan.pid not in [child.pid for child in psutil.Process().children()]
host.end()
mine.kill()
mine.wait()
other, _, again = born("prover-1")
other.end()
scope.__exit__(None, None, None)
assert psutil.Process().children() == others
print(forked_, again)
"""
    assert done(tmp_path, body) == ["True False"]


STANDING_BY = """
import os, psutil, threading, time
from actors import patience, processes, standby
from actors.backends import BackendChoice
from actors.messages import HostSpec
from cluster.governor.local import LocalGovernor
from cluster.governor.state import Budget

threading.Thread(target=threading.Event().wait, daemon=True).start()  # nothing may be forked from here
patience.STANDBY = 0.0
before = psutil.Process().children()

def host(name):
    made = processes.HostProcess(name, HostSpec(name, BackendChoice("cpu"), 1), LocalGovernor(Budget(1, 1)))
    made.start()
    return made

def life(host):
    process = psutil.Process(host._child._process.pid)
    return process, process.cmdline()[0] == f"distprove-{host._name}"

def started_again(host):
    process, _ = life(host)
    host.kill()
    psutil.wait_procs([process], timeout=60)
    while not host._child.ended:
        time.sleep(0.01)
    host.start()
    return life(host)
"""


def test_a_worker_that_died_is_forked_from_the_standby(tmp_path: Path) -> None:
    """Its first life begins as that of any process, and the standby ends with the last worker."""
    body = """
one, two = host("prover-0"), host("prover-1")
assert not life(one)[1]
while standby.STANDBY.server is None:
    time.sleep(0.01)
standing_by = psutil.Process(standby.STANDBY.server._pid)
again, is_forked = started_again(one)
assert again.ppid() == os.getpid()
third, _ = started_again(one)
one.end()
assert standing_by.is_running()
standing_by.kill()
standing_by.wait()
other, was_forked = started_again(two)  # nor does a worker need it
two.end()
assert standby.STANDBY.server is None
assert psutil.Process().children() == before, psutil.Process().children()
print(is_forked, was_forked)
"""
    assert done(tmp_path, STANDING_BY + body) == ["True False"]


def test_the_standby_imports_what_workers_serve_and_ends_with_its_parent(tmp_path: Path) -> None:
    body = """
import pickle
class Expected:
    def __reduce__(self):
        return exec, ("import colorsys, pathlib; pathlib.Path('expected').touch()",)
standby.STANDBY.expect(pickle.dumps(Expected()))
one = host("prover-0")
while not os.path.exists("expected"):
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    assert standby.STANDBY.server is None, "that is the parent's"
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(standby.STANDBY.server._pid, flush=True)
os.kill(os.getpid(), 9)
"""
    process = run(tmp_path, f"import os\nos.chdir({str(tmp_path)!r})\n" + STANDING_BY + body)
    assert process.stdout is not None
    with process, process.stdout:
        pid = int(process.stdout.readline())
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(60)
    assert not psutil.pid_exists(pid)
