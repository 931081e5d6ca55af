"""A Ray that is not there, is something else, refuses the token, or goes away while a job uses it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.backends import BackendChoice
from actors.messages import HostSpec, VerifierSpec
from actors.protocol import WorkerDied
from actors.worker import Worker
from cluster import opening, session
from cluster.executor import connection, reachability
from cluster.executor.fleet import Site
from cluster.executor.local import LocalFleet
from cluster.executor.placement import Node
from cluster.executor.reachability import Nodes, answering, reachable, require_ray
from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.workers import WorkerHandle
from distprove.errors import ClusterError
from distprove.measure.campaign.processes import marked
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof, StepTimes
from kernels.host.scratch import scratch_folder
from tests.support import ROOT
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

Make = Callable[..., Faults]

LOSING = """
import os, signal, sys
from pathlib import Path
import psutil
from cluster import session
from cluster.opening import open_client
from cluster.record.run import Run
from cluster.scheduler.workers import WorkerHandle
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem

folder, address, victims = Path(sys.argv[1]), sys.argv[2] or None, [int(word) for word in sys.argv[3:]]
count = 16
system = ToySystem(count, Faults(folder, slow={f"p{i}": 0.4 for i in range(count)}))
settings = ExecutorSettings(
    local=False, backend="tests.support.toy_system:toy_backend", gpus=0, address=address, in_flight=1
)
killed = []

def progress(event):
    if event.event == "proved" and not killed:
        heads = [p for p in psutil.Process().children() if p.name() == "gcs_server"]
        killed.extend(victims or [head.pid for head in heads])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

with Run.create(folder / "run", system, system.plan()) as run, open_client(settings) as executor:
    try:
        session._through_losses(system, executor, run, settings, progress)
    except ClusterError as error:
        print("error:", error, flush=True)
        sys.exit(error.exit_code)
"""


def losing(folder: Path, address: str = "", *victims: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """A job whose Ray, or these processes, are killed when the first partition is proven."""
    script = folder / "losing.py"
    script.write_text(LOSING)
    command = [sys.executable, str(script), str(folder), address, *map(str, victims)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**environment, "PYTHONPATH": str(ROOT)}
    )


@pytest.fixture(scope="module", autouse=True)
def lost_before(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str] | None]:
    """The driver of the last test, which waits for Ray's own minute: it begins before the other tests."""
    waited = test_the_client_of_a_lost_head_does_not_end_the_driver_of_another.__name__
    driver = lost_head("cluster_nodes,kv", 60) if any(item.name == waited for item in request.session.items) else None
    yield driver
    if driver is not None:
        driver.kill()
        driver.communicate()


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_goes_on_with_another_ray_when_its_own_is_lost(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = losing(tmp_path, **environment, OF_THIS_TEST=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    late = time.monotonic() + 45  # agents of a Ray without a head would look for it for a minute
    while marked("OF_THIS_TEST", str(tmp_path)) and time.monotonic() < late:
        time.sleep(0.1)
    assert marked("OF_THIS_TEST", str(tmp_path)) == []
    Proof.read(tmp_path / "run" / "proof.msgpack").verify(ToySystem(16, Faults(tmp_path)))
    events = list(read_journal(tmp_path / "run"))
    assert [e["event"] for e in events].count("session") >= 2
    proven = [e["partition"] for e in events if e["event"] == "proved" and "partition" in e]
    assert sorted(proven) == sorted(f"p{i}" for i in range(16)), "what was proven is neither lost nor proven again"
    assert json.loads((tmp_path / "run" / "report.json").read_text())["status"] == "proved"


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """An address where something takes connections and answers so; None: not at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                if answer is not None:
                    line.sendall(answer)
                with suppress(OSError):
                    while line.recv(1 << 16):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


LEAVING = """
import sys
import psutil
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings

with connect(ExecutorSettings(local=False)):
    for process in psutil.Process().children():
        if process.name() in ("gcs_server", "raylet"):
            process.suspend()
sys.exit(3)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_ray_that_answers_nothing_any_more_is_left(tmp_path: Path) -> None:
    """Ray itself would wait for its answers for ever."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(ROOT), "OF_THIS_TEST": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 3, done.stderr
    assert marked("OF_THIS_TEST", str(tmp_path)) == []


@pytest.mark.parametrize(
    ("answer", "seconds", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", 120.0, "not the head of a Ray"),
        (None, 0.5, "nothing answers there .*timed out"),
    ],
    ids=["another service", "silence"],
)
def test_what_answers_and_is_no_ray_is_told(
    answer: bytes | None, seconds: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.patience.RAY_ANSWERS", seconds)
    with listening(answer) as address, pytest.raises(ClusterError, match=told):
        require_ray(address)


SETTINGS_FRAME = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_ray_on_the_loopback_interface_alone_is_looked_for_there(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray takes this machine's own address in the place of 127.0.0.1, at which such a head never answers."""
    monkeypatch.setattr(reachability, "_own_host", lambda: "127.0.0.2")
    monkeypatch.setenv(reachability.LOOPBACK_ENV, "1")
    with listening(SETTINGS_FRAME) as address:
        named = address.replace("127.0.0.1", host)
        with pytest.raises(ClusterError, match=r"on the loopback interface alone.*set RAY_ENABLE_WINDOWS_OR_OSX"):
            require_ray(named)
    with listening(SETTINGS_FRAME) as address, socket.create_server(("127.0.0.2", int(address.split(":")[1]))):
        require_ray(address)  # it answers at both, as one on all interfaces does
    with socket.create_server(("127.0.0.1", 0)) as head, monkeypatch.context() as fresh:
        fresh.delitem(sys.modules, "ray", raising=False)  # not yet imported: the choice is still ours
        fresh.setenv("RAY_AUTH_TOKEN", "0" * 64)
        connection.prepare(ExecutorSettings(address=f"{host}:{head.getsockname()[1]}"))
        assert os.environ[reachability.LOOPBACK_ENV] == "0"


@contextmanager
def deaf() -> Iterator[int]:
    """A port of this machine on which nothing listens, unless it is asked for with `reuse_port`."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_dead_address_is_told_and_leaves_no_folder(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("distprove"), "prove", "stark", "fibonacci", "--rows", "8"]
    environment = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    with deaf() as port:
        dead = f"127.0.0.1:{port}"
        done = subprocess.run(
            [*map(str, command), "--out", "run", "--address", dead],
            cwd=tmp_path, capture_output=True, text=True, timeout=250, env=environment,
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert f"no Ray to join at {dead}: nothing answers there (Connection refused)" in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_auto_stands_for_the_cluster_that_ray_address_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own search would find another user's, who is given the token and runs code in the driver."""
    import ray

    joined: list[str] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda address, **_: joined.append(address))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(connection, "require_ray", lambda address: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    auto = ExecutorSettings(address="auto")
    with pytest.raises(ClusterError, match="RAY_ADDRESS"), connection.connect(auto):
        pass
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")
    for settings in (auto, ExecutorSettings(local=False), ExecutorSettings(address="192.0.2.2:6379")):
        with connection.connect(settings):
            pass
    assert joined == ["192.0.2.1:6379", "192.0.2.1:6379", "192.0.2.2:6379"]


def test_a_node_that_stops_to_answer_is_silent_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never answered, perhaps behind a firewall, is not."""
    monkeypatch.setattr("actors.patience.NODE_SILENT", 1e-9)
    with deaf() as port, deaf() as never:
        there, away = Node("there", "127.0.0.1", 2, 0, port), Node("away", "127.0.0.1", 2, 0, never)
        nodes = Nodes(lambda: [there, away])
        with socket.create_server(("127.0.0.1", port), reuse_port=True):
            nodes.look()
            assert answering([there, away], 5.0) == {"there"}
            assert not nodes.lacks("there")
        nodes.look()
        assert nodes.lacks("there")
        assert not nodes.lacks("away")
        with socket.create_server(("127.0.0.1", port), reuse_port=True):
            nodes.look()
            assert not nodes.lacks("there")


def test_a_node_whose_network_is_cut_does_not_hold_up_a_look() -> None:
    """It says nothing at all: here, because the line of those that wait to be taken is full."""
    with socket.socket() as server, socket.create_server(("127.0.0.1", 0)) as live:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        silent = Node("silent", "127.0.0.1", 2, 0, server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", silent.port)):
            nodes = [silent, Node("live", "127.0.0.1", 2, 0, live.getsockname()[1])]
            assert answering(nodes, 0.2) == {"live"}


@pytest.mark.ray
@pytest.mark.slow
def test_a_call_to_a_node_that_is_silent_ends(
    ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the end of an actor of a Ray that was lost does not start another Ray."""
    import ray

    from cluster.executor.ray import RayTransport  # not before the fixture: Ray reads its environment then

    class Deaf:
        def ask(self, call: bytes) -> None:
            time.sleep(3600)

    actor = ray.remote(Deaf).remote()
    try:
        spec = VerifierSpec("verifier-0", ToySystem(1, Faults(tmp_path)))
        transport = RayTransport(actor, spec, lambda: True)
        with pytest.raises(WorkerDied, match="its node does not answer"):
            transport.call(Worker.batch, 5.0)
        with monkeypatch.context() as over:
            over.setattr(ray, "is_initialized", lambda: False)
            over.setattr(ray, "kill", lambda *_, **__: pytest.fail("Ray would be started"))
            transport.end()
    finally:
        ray.kill(actor)


def test_a_worker_whose_node_is_cut_off_goes_on_when_it_answers_again(tmp_path: Path) -> None:
    """It was given up at once: three starts in a row had found no answer."""
    from ray.exceptions import ActorUnschedulableError

    from cluster.executor.ray import RayTransport
    from distprove.host.provenance import identity

    class Actor:
        """An actor whose node answers after some looks, or has left the cluster then."""

        def __init__(self, looks: int, *, left: bool = False) -> None:
            self.looks, self.left, self.served = looks, left, 0

        def silent(self) -> bool:
            self.looks -= 1
            return self.looks > 0

        def _asked(self, answer: Any) -> Any:
            future: Future[Any] = Future()
            if self.left:
                future.set_exception(ActorUnschedulableError("no such node"))
            elif self.looks <= 0:
                future.set_result(answer)
            asked = SimpleNamespace(remote=lambda *_: SimpleNamespace(future=lambda: future))
            return SimpleNamespace(options=lambda **_: asked)

        @property
        def identity(self) -> Any:
            return self._asked((identity(), "there"))

        @property
        def serve(self) -> Any:
            self.served += 1
            return self._asked("")

    spec = VerifierSpec("verifier-0", ToySystem(1, Faults(tmp_path)))
    back = Actor(3)
    RayTransport(back, spec, back.silent).start()
    assert back.served == 1
    gone = Actor(3, left=True)
    with pytest.raises(ClusterError, match="its node left the cluster"):
        RayTransport(gone, spec, gone.silent).start()
    over = Actor(1 << 30)
    with pytest.raises(WorkerDied, match="its node does not answer"):
        RayTransport(over, spec, over.silent, lambda: True).start()


@pytest.mark.ray
@pytest.mark.slow
def test_an_actor_that_answers_nothing_is_not_told_more_and_more(ray_cluster: Any, tmp_path: Path) -> None:
    import ray

    from cluster.executor.ray import RayTransport  # not before the fixture: Ray reads its environment then

    class Deaf:
        def ask(self, call: bytes) -> None:
            time.sleep(3600)

    actor = ray.remote(Deaf).options(max_pending_calls=3).remote()
    try:
        transport = RayTransport(actor, VerifierSpec("verifier-0", ToySystem(1, Faults(tmp_path))), lambda: False)
        for _ in range(10):
            transport.tell(Worker.permit)
        with pytest.raises(WorkerDied, match="answers no calls"):
            transport.call(Worker.batch, 5.0)
    finally:
        ray.kill(actor)


def test_what_may_wait_for_an_actor_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Actors of every kind that a job starts take a bounded number of waiting calls."""
    import ray

    from cluster.executor import ray as over_ray

    found: list[dict[str, Any]] = []

    class Made:
        def __call__(self, of: type) -> Made:
            return self

        def options(self, **given: Any) -> Made:
            found.append(given)
            return self

        def remote(self, *_: Any, **__: Any) -> None: ...

    monkeypatch.setattr(ray, "remote", lambda *_, **__: Made())
    node = Node("0" * 56, "10.0.0.1", 2, 0)
    over_ray._actor(HostSpec("prover-0", BackendChoice("cpu"), 2), node)
    over_ray._actor(VerifierSpec("verifier-0", ToySystem(1, Faults(tmp_path))), node)
    over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))._govern(node)
    assert [given["max_pending_calls"] for given in found] == [over_ray.PENDING] * 3


class Losing(LocalFleet):
    """Workers on something that can be lost and started again."""

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self.started = True


@pytest.mark.parametrize("losses", [2, 4])
def test_what_was_proven_before_a_loss_is_kept(
    losses: int, faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some losses are made good; then the job ends, with a report, and can be resumed. Each comes as soon as a first
    partition is on disk."""
    settings = ExecutorSettings(local=True, isolate=False, threads=2, backend=TOY_BACKEND, in_flight=1)
    opened: list[Losing] = []
    store, passed = Run.store, list[str]()

    def gate(partition: Partition) -> None:
        """Two partitions more for each loss, however late the first one comes to the disk."""
        while len(opened) <= losses and len(passed) >= 2 * len(opened):
            with StepTimes().step("toy"):
                time.sleep(0.01)
        passed.append(partition.name)

    system = ToySystem(12, faults(), gate=gate)

    def opens(settings: ExecutorSettings, *_: Any) -> Losing:
        opened.append(Losing(settings))
        return opened[-1]

    def stored(run: Run, proofs: Sequence[PartitionProof]) -> None:
        store(run, proofs)
        if len(opened) <= losses and not opened[-1].lost:
            opened[-1].lose("its head does not answer")

    monkeypatch.setattr("cluster.opening.open_fleet", opens)
    monkeypatch.setattr(Run, "store", stored)
    with Run.create(tmp_path / "run", system, system.plan()) as run, session.open_client(settings) as client:
        if losses > session.RESTARTS:
            with pytest.raises(ClusterError, match="Ray is lost: its head does not answer"):
                session._through_losses(system, client, run, settings, None)
        else:
            session._through_losses(system, client, run, settings, None).verify(system)
    resumed = [event["partitions"] for event in read_journal(tmp_path / "run") if event["event"] == "resumed"]
    assert len(resumed) == min(losses, session.RESTARTS)
    assert 0 < resumed[0] < resumed[-1]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["status"] == ("failed" if losses > session.RESTARTS else "proved")


def test_what_a_lost_ray_never_answers_ends_with_it() -> None:
    """A head that was lost while workers were placed kept the driver waiting without an end."""
    from cluster.executor.ray import RayFleet

    fleet, answers = RayFleet(ExecutorSettings(local=False, gpus=0)), threading.Event()
    assert fleet.unless_lost(lambda: "an answer") == "an answer"
    with pytest.raises(KeyError):
        fleet.unless_lost(lambda: {}["an error"])
    try:
        losing = threading.Timer(0.2, fleet.lose, ("its head does not answer",))
        losing.start()
        with pytest.raises(ClusterError, match="Ray is lost"):
            fleet.unless_lost(lambda: answers.wait(600))
        losing.join()
    finally:
        answers.set()


LOST = """
import sys, threading, time
import psutil
from actors import patience
from cluster.executor import connection, reachability
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings

calls, seconds = sys.argv[1].split(","), float(sys.argv[2])
patience.RAY_ANSWERS = 1.0

def ask(name):
    if name == "kv":
        from ray.experimental.internal_kv import _internal_kv_get

        return _internal_kv_get(b"name")
    return connection.cluster_nodes()

def asking(name):
    try:
        ask(name)
    except Exception as error:
        ended.append(name)

ended = []
with connect(ExecutorSettings(local=False, gpus=0)) as how:
    for name in calls:
        ask(name)  # it is answered while there is a head
    for process in psutil.Process().children(recursive=True):
        if process.name() == "gcs_server":
            process.kill()
            while process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                time.sleep(0.01)
    threads = [threading.Thread(target=asking, args=(name,), daemon=True) for name in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
with connect(ExecutorSettings(local=False, gpus=0)) as how:
    time.sleep(seconds)
    print(how, len(connection.cluster_nodes()), *sorted(ended), flush=True)
"""


def lost_head(calls: str, ends_after: int, **more: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", LOST, calls, str(ends_after + 8)]
    environment |= {"PYTHONPATH": str(ROOT), **more}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.ray
@pytest.mark.slow
def test_the_client_of_a_lost_head_does_not_end_the_driver_of_another(
    lost_before: subprocess.Popen[str] | None,
) -> None:
    """A call that still waited for the first head had Ray end the process a minute later, without a word. Ours end."""
    assert lost_before is not None
    output, errors = lost_before.communicate(timeout=400)
    assert (output, lost_before.returncode) == ("started 1 cluster_nodes\n", 0), errors


CALLING = """
import os, sys, time
from contextlib import suppress
import psutil
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings

with connect(ExecutorSettings(local=False, gpus=0)):
    import ray

    class Slow:
        def ready(self): return True
        def sleep(self): time.sleep(60)

    actor = ray.remote(Slow).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    ray.get(actor.ready.remote())
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.name() == "raylet":
                process.kill()
    asked = [actor.sleep.remote() for _ in range(6000)]
    time.sleep(1)
    print("lives", flush=True)
    ray.kill(actor)
    sys.stdout.flush()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    os._exit(0)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_long_queue_of_calls_does_not_end_the_process_where_the_raylet_is_gone() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", CALLING],
        capture_output=True,
        text=True,
        timeout=600,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.endswith("lives\n"), done.stderr
    assert done.returncode == 0


STARTING = """
import sys, threading, time
from actors.backends import BackendChoice
from actors.messages import HostSpec
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings

over = threading.Event()
with connect(ExecutorSettings(local=False, gpus=0)):
    import ray
    from cluster.executor.ray import RayTransport

    class Slow:
        def identity(self): time.sleep(60)

    actor = ray.remote(Slow).options(num_cpus=0, max_restarts=-1).remote()
    transport = RayTransport(actor, HostSpec("prover-0", BackendChoice("cpu"), 2), over.is_set)
    ended = []

    def start():
        try:
            transport.start()
        except BaseException as error:
            ended.append(type(error).__name__)

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    time.sleep(2)
over.set()
starting.join(200)
print(*ended, flush=True)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_worker_that_is_starting_when_its_ray_is_left_ends_nothing_else() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", STARTING],
        capture_output=True,
        text=True,
        timeout=600,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout, done.returncode) == ("WorkerDied\n", 0), done.stderr


DYING = """
import os, signal, sys
from cluster.executor.connection import prepare
from distprove.settings import ExecutorSettings
prepare(ExecutorSettings())
import ray
from tests.support.lean_ray import lean_ray

@ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=2)
class Actor:
    def pid(self):
        return os.getpid()
    def wait(self):
        signal.pause()

with lean_ray():
    ray.init("local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1])
actor = Actor.remote()
pid = ray.get(actor.pid.remote())
waits = actor.wait.remote().future()
os.kill(pid, signal.SIGKILL)
print("failed:", type(waits.exception(timeout=60)).__name__, flush=True)
os._exit(0)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_call_to_an_actor_that_died_fails_without_waiting_for_a_reason() -> None:
    """By default Ray looks now and then whether it has waited long enough for one: here it never does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"PYTHONPATH": str(ROOT), "RAY_core_worker_internal_heartbeat_ms": "1000000"}
    with scratch_folder(longest=40) as folder:
        done = subprocess.run(
            [sys.executable, "-c", DYING, str(folder)], capture_output=True, text=True, timeout=600, env=environment
        )
    assert done.stdout.splitlines()[-1:] == ["failed: ActorUnavailableError"], done.stderr  # behind Ray's own words


def test_a_worker_that_does_not_begin_where_others_do_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node runs a governor, which takes no CPU of Ray's, and it has not begun for a while."""
    from cluster.executor import ray as over_ray

    monkeypatch.setattr("actors.patience.RAY_QUEUED", 0.0)
    fleet = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))
    spec = HostSpec("prover-0", BackendChoice("cpu"), 2)
    host = over_ray.RayTransport(None, spec, lambda: False)
    fleet.sites["prover-0"] = Site(WorkerHandle("prover-0", "10.0.0.1", (), "a"), spec.choice, 1, host)
    fleet._asks["prover-0"] = ("a", 1.0, 0.0)
    fleet._governors["a"] = object()
    assert not fleet.queued("prover-0"), "nobody has asked for it yet"
    host.waits_since = time.monotonic()
    assert fleet.queued("prover-0")
    fleet._reachability._silent = frozenset("a")
    assert not fleet.queued("prover-0"), "it waits for its node"
    fleet._reachability._silent = frozenset()
    fleet._governors.clear()
    assert not fleet.queued("prover-0"), "perhaps nothing begins there"
    fleet._governors["a"] = object()
    host.placed = True
    assert not fleet.queued("prover-0")


def test_a_ray_that_does_not_come_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of the last attempt looked for their raylet for minutes."""
    import ray

    here, ended = [object()], list[object]()

    def init(**_: object) -> None:
        time.sleep(0.01)  # for longer than it may take
        raise RuntimeError("The node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(connection, "_processes", lambda but=(): [] if but == () else here)
    monkeypatch.setattr(connection, "_end", ended.extend)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    settings = ExecutorSettings(local=False, gpus=0, start_timeout=0.001)
    with pytest.raises(ClusterError, match="Ray does not start here"), connection.connect(settings):
        pass
    assert ended[: len(here)] == here


def test_a_ray_that_nobody_wants_any_more_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("it starts"))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    settings = ExecutorSettings(local=False, gpus=0)
    with pytest.raises(ClusterError, match="was closed"), connection.connect(settings, unwanted=lambda: True):
        pytest.fail("it is there")


def test_the_guard_outlives_the_folder_of_a_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the end of a Ray that was not used: the process may end between the two."""
    import ray

    left: list[bool] = []

    @contextmanager
    def guarding(folder: str) -> Iterator[None]:
        assert Path(folder).is_dir()
        yield
        left.append(Path(folder).exists())

    monkeypatch.setattr(connection, "guarded", guarding)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with connection.connect(ExecutorSettings(local=False, gpus=0)) as how:
        assert how == "started"
    assert left == [False]


@pytest.mark.parametrize(
    "begin", [lambda it: opening.open_scheduler(it).start(), lambda it: opening.open_client(it).__enter__()]
)
def test_an_interrupt_closes_what_joins_a_cluster(
    begin: Callable[[ExecutorSettings], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []

    class Joining:
        def __init__(self, settings: ExecutorSettings) -> None: ...

        def how(self) -> str:
            raise KeyboardInterrupt

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("cluster.executor.ray.Connection", Joining)
    monkeypatch.setattr("cluster.opening.prepare", lambda settings: None)
    settings = ExecutorSettings(address="192.0.2.1:6379")
    with pytest.raises(KeyboardInterrupt):
        begin(settings)
    assert len(closed) == 1


@pytest.mark.parametrize("answers", [True, False])
def test_a_governor_that_comes_up_too_late_for_the_job_is_ended(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that joined near the end of a job kept the governor that the job had begun there."""
    import ray

    from cluster.executor.ray import RayFleet

    class Coming:
        """A governor that has not answered when the job looked for nodes."""

        attend = leave = property(lambda self: SimpleNamespace(remote=lambda *_: self))

        def future(self) -> Future[bool]:
            return Future()

    governor, killed = Coming(), []
    monkeypatch.setattr("cluster.executor.ray.cluster_nodes", lambda: [Node("b", "10.0.0.2", 2, 0)])
    monkeypatch.setattr("actors.patience.RAY_NODES", 0.01)
    monkeypatch.setattr(RayFleet, "_govern", lambda self, node: governor)
    monkeypatch.setattr(ray, "wait", lambda asked, **_: (asked, []) if answers else ([], asked))
    monkeypatch.setattr(ray, "get", lambda ref: True)
    monkeypatch.setattr(ray, "kill", lambda actor, no_restart: killed.append(actor))
    fleet = RayFleet(ExecutorSettings(local=False, gpus=0))
    fleet._look_for_nodes()
    fleet._look_for_nodes()
    fleet._leave()
    assert killed == [governor]


def test_a_governor_that_is_gone_is_made_anew_and_keeps_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node was cut off, or somebody killed it. While its name is not free yet, that is tried again."""
    from ray.exceptions import ActorDiedError

    from cluster.executor import ray as over_ray

    class Made:
        """A governor: a dead one, or one that answers."""

        def __init__(self, *, dead: bool) -> None:
            self.dead = dead
            self.asked: list[tuple[Any, ...]] = []

        def _call(self, answer: Any) -> Any:
            def remote(*arguments: Any, **named: Any) -> Any:
                self.asked.append((answer, *arguments, *named.values()))
                future: Future[Any] = Future()
                future.set_exception(ActorDiedError()) if self.dead else future.set_result(answer)
                return SimpleNamespace(future=lambda: future)

            return SimpleNamespace(remote=remote)

        attend = property(lambda self: self._call(True))
        keep = property(lambda self: self._call(7))
        release = property(lambda self: self._call("released"))

    dead, still, new = Made(dead=True), Made(dead=True), Made(dead=False)
    made = [still, new]
    monkeypatch.setattr(over_ray, "answering", lambda nodes, seconds: {node.id for node in nodes})
    monkeypatch.setattr(over_ray.RayFleet, "_govern", lambda self, node: made.pop(0))
    fleet = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))
    fleet._nodes, fleet._governors = [Node("a", "10.0.0.2", 2, 0, 1)], {"a": dead}
    key = over_ray._KeptKey(ToySystem(1, Faults(Path())), {}, {"a": 100}, {"a": 3})
    fleet._keys[0] = key
    fleet._attend("a")
    assert (fleet._governors["a"], key.tickets) == (dead, {"a": 3}), "it has not answered yet"
    fleet._attend("a")
    assert (fleet._governors["a"], key.tickets) == (still, {})
    fleet._attend("a")
    assert (fleet._governors["a"], key.tickets) == (new, {"a": 7})
    fleet._attend("a")
    assert made == []
    assert new.asked[-1] == (True, fleet._name, None, True), "it is known there"


def test_a_governor_that_only_seemed_to_be_gone_keeps_a_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call to it failed, as where a connection broke. Its first lease of the key stayed until the end of the job."""
    from cluster.executor import ray as over_ray

    class Seen:
        """A governor, of which nobody could tell whether it is gone."""

        def __init__(self) -> None:
            self.released: list[int] = []

        def _call(self, answer: Any) -> Any:
            future: Future[Any] = Future()
            future.set_result(answer)
            return SimpleNamespace(remote=lambda *_, **__: SimpleNamespace(future=lambda: future))

        attend = property(lambda self: self._call(True))
        keep = property(lambda self: self._call(8))
        release = property(lambda self: SimpleNamespace(remote=self.released.append))

    governor, broken = Seen(), Future[bool]()
    broken.set_exception(ConnectionError())
    monkeypatch.setattr(over_ray, "answering", lambda nodes, seconds: {node.id for node in nodes})
    monkeypatch.setattr(over_ray.RayFleet, "_govern", lambda self, node: governor)
    fleet = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))
    fleet._nodes, fleet._governors = [Node("a", "10.0.0.2", 2, 0, 1)], {"a": governor}
    fleet._said["a"] = broken
    key = over_ray._KeptKey(ToySystem(1, Faults(Path())), {}, {"a": 100}, {"a": 3})
    fleet._keys[0] = key
    fleet._attend("a")
    assert (key.tickets, governor.released) == ({"a": 8}, [3])


def test_a_driver_says_that_it_lives_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that says so ended, and a minute later its governors took the driver for dead."""
    from cluster.executor import ray as over_ray

    def look(fleet: Any) -> None:
        raise RuntimeError("can't start new thread")

    def attend(fleet: Any, node: str) -> None:
        said.append(node)
        if len(said) == 2:
            fleet._over.set()

    said: list[str] = []
    for name, seconds in (("RAY_LOOK", 0.01), ("GOVERNOR_ATTENDED", 0.0), ("RAY_NODES", 0.0)):
        monkeypatch.setattr(f"actors.patience.{name}", seconds)
    monkeypatch.setattr(over_ray.RayFleet, "_attend", attend)
    monkeypatch.setattr(over_ray.RayFleet, "_look_for_nodes", look)
    fleet = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))
    fleet._governors = {"a": object()}
    fleet._beat()
    assert said == ["a", "a"]


def test_a_fleet_that_is_closed_while_it_waits_for_nodes_looks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its nodes left. The thread that looks for others went on, and had each of them make a governor."""
    from cluster.executor import ray as over_ray

    looked, settled = threading.Event(), list[Any]()
    monkeypatch.setattr("actors.patience.RAY_LOOK", 0.01)
    monkeypatch.setattr("actors.patience.RAY_NODES", 0.0)
    monkeypatch.setattr(over_ray, "cluster_nodes", lambda: looked.set() or [])
    monkeypatch.setattr(over_ray.RayFleet, "_settle", lambda *places: settled.append(places) or [])
    fleet = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0))
    fleet._join([])
    beating = fleet._beating
    try:
        assert looked.wait(60)
        fleet.close()
        assert beating is not None
        assert not beating.is_alive()
        fleet._joined = [Node("b", "10.0.0.2", 2, 0)]  # as seen by the last look
        assert (fleet.grow(), settled) == ([], [])
    finally:
        fleet._over.set()


def test_what_waits_for_the_workers_of_a_fleet_ends_when_it_is_closed() -> None:
    from cluster.executor import ray as over_ray

    fleet, begun, answers = over_ray.RayFleet(ExecutorSettings(local=False, gpus=0)), threading.Event(), list[object]()

    def waits() -> None:
        try:
            answers.append(fleet.unless_lost(lambda: begun.set() or threading.Event().wait(600)))
        except ClusterError as error:
            answers.append(str(error))

    waiting = threading.Thread(target=waits, daemon=True)
    waiting.start()
    assert begun.wait(60)
    fleet.close()
    waiting.join(60)
    assert answers == ["the fleet was closed"]


def test_a_head_that_was_given_by_name_is_watched_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look up its name takes a driver that is cut off longer than it takes to be sure of that."""
    import ray

    from cluster.executor.reachability import head_address

    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        context = SimpleNamespace(gcs_address=f"localhost:{port}")
        monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
        assert head_address() == ("127.0.0.1", port)


def test_a_ray_is_looked_at_again_after_a_look_for_which_no_descriptor_was_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cluster.executor import reachability

    asked: list[object] = []
    told, lost = threading.Event(), list[str]()

    def silent(where: object, own: bool) -> str | None:
        asked.append(where)
        if len(asked) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return "Connection refused" if where == raylet else None

    def lose(reason: str) -> None:
        lost.append(reason)
        told.set()

    head, raylet = ("127.0.0.1", 1), ("127.0.0.1", 2)
    monkeypatch.setattr(reachability, "_silent", silent)
    monkeypatch.setattr("actors.patience.RAY_LOOK", 0.01)
    monkeypatch.setattr("actors.patience.RAY_LOST_HERE", 0.05)
    with reachability.watching(lose, reachability.Nodes(list), head, raylet, own=True):
        assert told.wait(60)
    assert lost == ["its raylet does not answer (Connection refused)"]


def test_a_process_takes_connections_for_as_long_as_it_lives() -> None:
    home = "import sys, time; from cluster.executor.reachability import reachable\n"
    home += "with reachable('127.0.0.1') as where: print(where[1], flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", home], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        address = ("127.0.0.1", int(driver.stdout.readline()))
        for _ in range(5):
            with socket.create_connection(address, 60) as line:
                assert line.recv(1) == b"", "nothing is told there"
        driver.kill()
        driver.wait()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 60)
    with reachable("127.0.0.1") as here:
        assert here is not None
        socket.create_connection(here, 60).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(here, 60)
    with reachable("192.0.2.1") as none:
        assert none is None, "an address of another machine"
