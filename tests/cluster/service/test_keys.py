"""Keys that a service loads before a job needs them: by whom, from where, and what becomes of their jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.service.client import Client
from cluster.service.contact import Contact
from cluster.service.http.access import make_tokens
from cluster.service.http.server import Options, Server
from cluster.service.keys import MOST
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobRequest, JobState, KeyRequest
from distprove.errors import DistproveError, InputError, InUse, QueueFull, UsageError
from distprove.groth16.setup import setup
from distprove.groth16.wtns import write_wtns
from distprove.settings import ExecutorSettings
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254
from tests.circuits.test_registry import inputs, squares
from tests.cli.conftest import run

THREADS = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys")
    with CpuBackend() as cpu:
        circuit = squares().build()
        setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=made / "key.zkey")
        write_wtns(made / "w.wtns", BN254, circuit.witness(inputs((3, 4))[0], cpu))
    (made / "damaged.zkey").write_bytes((made / "key.zkey").read_bytes()[:500])
    return made


@pytest.fixture(scope="module")
def service(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("service") / "own", THREADS, Limits(roots=(folder,)))
    made.start()
    yield made
    made.close(drain=False)


@pytest.fixture
def where(service: Service, tmp_path: Path) -> Iterator[list[str]]:
    """Options of commands that ask the service."""
    make_tokens(tmp_path / "tokens")
    server = Server(service, Options(tmp_path / "tokens"), lambda drain: None)
    server.start()
    yield ["--service", server.url, "--token-file", str(tmp_path / "tokens")]
    server.close()


def test_a_key_is_listed_loaded_and_put_away_by_commands(folder: Path, where: list[str]) -> None:
    key = ["--zkey", folder / "key.zkey", "--system", "groth16"]
    assert json.loads(run("keys", "list", *where, "--json").stdout) == []
    first, again = (run("keys", "load", *key, *where, "--json") for _ in range(2))
    times = [json.loads(each.stdout)["seconds"] for each in (first, again)]
    assert times[0] > 0
    assert times[1] == 0, "it was loaded already"
    assert first.exit_code == 0, first.output
    assert not json.loads(first.stdout)["already"]
    assert json.loads(again.stdout)["already"]
    (listed,) = json.loads(run("keys", "list", *where, "--json").stdout)
    assert (listed["system"], listed["workers"], listed["jobs"]) == ("groth16", 1, 0)
    assert "groth16" in run("keys", "list", *where).stdout
    with Client(Contact(where[1], where[3])) as client:
        job = {"system": "groth16", "zkey": "key.zkey", "witnesses": ["w.wtns"]}
        view = client.wait(client.submit(JobRequest("warm", job, str(folder))).id, 100)
    assert (view.state, view.cold) == (JobState.PROVED, False)
    assert "freed" in run("keys", "evict", *key, *where).stdout
    assert "not loaded" in run("keys", "evict", *key, *where).stdout
    assert run("keys", "load", *key[2:], *where).exit_code == 2, "it names no key"


@pytest.mark.parametrize(
    ("request_", "error", "told"),
    [
        (KeyRequest("stark", {"zkey": "key.zkey"}), UsageError, "loaded ahead for jobs of groth16, filecoin"),
        (KeyRequest("none", {"zkey": "key.zkey"}), UsageError, "loaded ahead for jobs of"),
        (KeyRequest("groth16", {}), UsageError, "one of `zkey`, `params` and `gnark_pk`"),
        (
            KeyRequest("groth16", {"zkey": "key.zkey", "params": "key.zkey"}),
            UsageError,
            "one of `zkey`, `params` and `gnark_pk`",
        ),
        (KeyRequest("groth16", {"params": "key.zkey"}), UsageError, "go together"),
        (KeyRequest("groth16", {"zkey": "key.zkey", "secret": "w.wtns"}), UsageError, "no file `secret`"),
        (KeyRequest("groth16", {"zkey": "../key.zkey"}), UsageError, "without `..`"),
        (KeyRequest("groth16", {"zkey": "/etc/passwd"}), UsageError, "folder that this service takes files from"),
        (KeyRequest("groth16", {"zkey": "link.zkey"}), UsageError, "folder that this service takes files from"),
        (KeyRequest("groth16", {"zkey": "none.zkey"}), InputError, "none.zkey"),
        (KeyRequest("groth16", {"zkey": "damaged.zkey"}), InputError, "damaged.zkey"),
        (KeyRequest("groth16", {"zkey": "key.zkey"}, "os:getcwd"), UsageError, "one that ships"),
        (KeyRequest("groth16", {"zkey": "key.zkey"}, "filecoin/porep-3KiB"), UsageError, "there is no circuit"),
        (KeyRequest("filecoin", {"zkey": "key.zkey"}), UsageError, "and its `circuit`"),
        (KeyRequest("groth16", {"zkey": "key.zkey"}, base="relative"), UsageError, "absolute path"),
    ],
)
def test_what_names_no_key_is_refused(
    service: Service, folder: Path, request_: KeyRequest, error: type[DistproveError], told: str
) -> None:
    if not (folder / "link.zkey").is_symlink():
        (folder / "link.zkey").symlink_to("/etc/passwd")
    base = request_.base or str(folder)
    asked = KeyRequest(request_.system, request_.files, request_.circuit, base)
    for ask in (service.keys.load, service.keys.put_away):
        with pytest.raises(error, match=told):
            ask(asked)
    assert service.overview().keys == ()


def test_a_key_of_gnark_with_commitments_is_loaded_for_its_jobs(
    service: Service, folder: Path, where: list[str]
) -> None:
    files = Path(__file__).parents[2] / "groth16" / "gnark" / "bn254" / "commit"
    for name in ("pk", "vk", "c.r1cs", "w.wtns"):
        (folder / f"gnark-{name}").write_bytes((files / name).read_bytes())
    key = {"gnark_pk": "gnark-pk", "gnark_vk": "gnark-vk", "r1cs": "gnark-c.r1cs"}
    _, loading = service.keys.load(KeyRequest("groth16", key, None, str(folder)))
    assert loading is not None
    loading.result(100)
    job = {"system": "groth16", **key, "witnesses": ["gnark-w.wtns"]}
    with Client(Contact(where[1], where[3])) as client:
        view = client.wait(client.submit(JobRequest("committed", job, str(folder))).id, 100)
    assert (view.state, view.cold) == (JobState.PROVED, False)
    service.keys.put_away(KeyRequest("groth16", key, None, str(folder)))


def test_a_key_of_another_circuit_says_so(service: Service, folder: Path) -> None:
    asked = KeyRequest("filecoin", {"zkey": "key.zkey"}, "filecoin/window-post-2KiB", str(folder))
    with pytest.raises(DistproveError, match="over BLS12-381, the key BN254"):
        service.keys.load(asked)
    assert service.overview().keys == ()


def test_so_many_are_loaded_at_a_time(service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.service.keys.MOST", 0)
    with pytest.raises(QueueFull, match="keys are being loaded"):
        service.keys.load(KeyRequest("groth16", {"zkey": "key.zkey"}, None, str(folder)))
    assert MOST > 1


def test_a_key_is_in_use_while_it_is_loaded(service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = KeyRequest("groth16", {"zkey": "key.zkey"}, None, str(folder))
    monkeypatch.setattr(service._scheduler, "put_away", lambda id: False)
    with pytest.raises(InUse, match="a job needs it, or it is being loaded"):
        service.keys.put_away(asked)
