"""A file that is put in the place of the driver's is told from it, whatever its size and time, and mapped by nobody."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.messages import files_of, mapped_file
from actors.rooms import shared_files
from cluster.scheduler.views import identity
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InputError
from distprove.groth16.binfile import map_file
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.options import InputFile
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254


def replace(path: Path, content: bytes) -> None:
    """Put another file there, of the same time of change."""
    facts, other = path.stat(), path.with_suffix(".other")
    other.write_bytes(content)
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (len(content), facts.st_mtime_ns)


@pytest.fixture(params=[1000, 3 << 20], ids=["short", "long"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / "key"
    path.write_bytes(np.random.default_rng(1).bytes(request.param))
    return path


def test_a_worker_does_not_map_another_file(path: Path) -> None:
    driver = {"key": map_file(path)}
    (file,) = files_of(driver).values()
    assert np.array_equal(shared_files(SimpleNamespace(shared={"key": file}))["key"], driver["key"])  # type: ignore
    replace(path, np.random.default_rng(2).bytes(len(driver["key"])))
    with pytest.raises(InputError, match="another file than the driver's"):
        shared_files(SimpleNamespace(shared={"key": file}))  # type: ignore[arg-type]
    assert files_of(driver) == {}, "workers are offered a file that the driver has not mapped"
    path.unlink()
    with pytest.raises(InputError, match="cannot be mapped"):
        shared_files(SimpleNamespace(shared={"key": file}))  # type: ignore[arg-type]


def test_an_actor_fetches_the_drivers_file_where_there_is_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    from actors.ray_actor import RemoteWorker

    opened: list[dict[str, Any]] = []
    actor = RemoteWorker.__new__(RemoteWorker)
    actor._lock, actor._given = threading.Lock(), {}
    actor._process = SimpleNamespace(call=lambda name, room, spec, folders, given: opened.append(given))  # type: ignore
    monkeypatch.setattr("actors.processes.expect", lambda spec: None)
    monkeypatch.setattr(actor, "_copied", lambda room, missing: dict.fromkeys(missing, "copy"))
    files, shared = {"key": mapped_file(path)}, {"key": None}
    actor.open(1, b"", shared, files)  # type: ignore[arg-type]
    replace(path, np.random.default_rng(2).bytes(path.stat().st_size))
    actor.open(1, b"", shared, files)  # type: ignore[arg-type]  # its process died
    assert opened == [files, {"key": "copy"}]
    assert mapped_file(path.with_name("nothing")) is None


def test_a_key_that_was_put_in_the_place_of_the_jobs_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "c.zkey", tmp_path / "d.zkey"
    with CpuBackend(threads=1) as cpu:
        for made in (path, other):
            setup(synthetic_circuit(BN254, 20, cpu).r1cs, insecure_dev=True, backend=cpu, out=made)
    system = Groth16System(path, [InputFile("a", path)])
    before, known = system.shared(), identity(system)
    replace(path, other.read_bytes())
    with pytest.raises(InputError, match=r"c\.zkey: another file than when the job began"):
        system.shared()
    assert bytes(before["zkey"]) != other.read_bytes()
    later = Groth16System(path, [InputFile("a", path)])
    assert identity(later) != known, "one pool of workers would serve both"
