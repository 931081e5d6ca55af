"""Development keys of wraps: what the user's cache keeps of them. A small circuit stands for a wrap's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.builder import CircuitBuilder
from distprove.errors import InputError, ResourceError
from distprove.formats.sampled import sample
from distprove.groth16.setup import setup
from distprove.groth16.zkey import read_zkey
from distprove.job import Job
from distprove.stark.wrap import kept
from distprove.stark.wrap.kept import development_key, kept_key, kept_tape
from distprove.stark.wrap.partition import key_facts, read_wrap_key
from kernels.cpu.backend import CpuBackend
from kernels.host import cache
from kernels.maths.curves import BN254

KEY: Any = object()
OPTIONS = {
    **{"program": "fibonacci", "partitions": 1, "arguments": {"rows": 16}, "engine": "multilinear"},
    **{"hash": "poseidon2", "security": 1, "grinding": 0, "wrap": True},
}


def small_circuit(key: Any = None) -> CircuitBuilder:
    b = CircuitBuilder(BN254)
    x = b.private_input("x")
    b.output("square", b.multiply(x, x))
    return b


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuBackend]:
    with CpuBackend(threads=1) as backend:
        yield backend


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of development keys in a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "wrap_circuit", small_circuit)
    monkeypatch.setattr(kept, "circuit_name", lambda key: "ab")
    return tmp_path / "distprove" / "wrap-keys"


def test_a_key_is_made_once(folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_key(KEY) is None
    path = development_key(KEY, cpu)
    assert path.parent == folder
    assert read_zkey(path).insecure
    monkeypatch.setattr(kept, "setup", lambda *_, **__: pytest.fail("made again"))
    assert development_key(KEY, cpu) == kept_key(KEY) == path


def test_a_key_is_ours_whatever_the_umask(folder: Path, cpu: CpuBackend) -> None:
    before = os.umask(0o002)
    try:
        assert development_key(KEY, cpu) == kept_key(KEY)
    finally:
        os.umask(before)


@pytest.mark.parametrize("damage", ["a bit", "the end"])
def test_a_damaged_key_is_made_again(damage: str, folder: Path, cpu: CpuBackend) -> None:
    path = development_key(KEY, cpu)
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data[:-1] if damage == "the end" else data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :])
    assert kept_key(KEY) is None
    assert not path.exists()
    assert read_zkey(development_key(KEY, cpu)).curve is BN254


def test_two_who_need_a_key_have_one(folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits, though longer than for other kinds of files, and takes what the first one has made."""
    monkeypatch.setattr(cache, "_PATIENCE", 0.0)
    entered, go, calls, found = threading.Event(), threading.Event(), list[int](), list[Path]()

    def slow(*given: Any, **named: Any) -> Any:
        calls.append(1)
        entered.set()
        assert go.wait(60)
        return setup(*given, **named)

    monkeypatch.setattr(kept, "setup", slow)
    looks = threading.Semaphore(0)
    monkeypatch.setattr(cache, "time", _Clock(looks.release))
    threads = [threading.Thread(target=lambda: found.append(development_key(KEY, cpu))) for _ in range(2)]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    assert looks.acquire(timeout=60)  # it looked in vain, and waits
    go.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert found[0] == found[1]


class _Clock:
    """`time`, of which it is told whenever somebody sleeps."""

    def __init__(self, slept: Callable[[], object]) -> None:
        import time

        self.monotonic, self.time, self._sleep, self._slept = time.monotonic, time.time, time.sleep, slept

    def sleep(self, seconds: float) -> None:
        self._slept()
        self._sleep(seconds)


def test_the_least_recently_used_key_is_evicted(folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {}
    for age, name in enumerate(("old", "older"), start=1):
        monkeypatch.setattr(kept, "circuit_name", lambda key, name=name: name)
        paths[name] = development_key(KEY, cpu)
        for each in (paths[name], paths[name].with_name(paths[name].name + ".seen")):
            os.utime(each, (1000 - age, 1000 - age))
    assert kept_key(KEY) == paths["older"]  # which is used now
    monkeypatch.setattr(kept, "circuit_name", lambda key: "new")
    made = development_key(KEY, cpu)
    assert {path.name for path in folder.glob("*.zkey")} == {made.name, paths["older"].name}


def test_a_disk_that_is_full_is_told(folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "setup", full)
    with pytest.raises(ResourceError, match="make room"):
        development_key(KEY, cpu)
    assert not list(folder.glob("*.tmp"))


def test_a_folder_of_others_is_refused_before_a_job(folder: Path, cpu: CpuBackend) -> None:
    folder.parent.mkdir()
    folder.parent.chmod(0o777)
    for needs in (
        lambda: Job.from_options("stark", **OPTIONS, insecure_dev=True).load(),
        lambda: development_key(KEY, cpu),
    ):
        with pytest.raises(InputError, match="can be written by others"):
            needs()
    folder.parent.chmod(0o700)
    folder.write_bytes(b"no folder")
    with pytest.raises(InputError, match="a folder of your own"):
        Job.from_options("stark", **OPTIONS, insecure_dev=True).load()


# -- the key of a job -----------------------------------------------------------------------------------------------


def test_a_key_and_its_tape_are_of_one_recording(
    folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = list[Any]()

    def circuit(key: Any) -> CircuitBuilder:
        recorded.append(key)
        return small_circuit()

    monkeypatch.setattr(kept, "wrap_circuit", circuit)
    development_key(KEY, cpu)
    tape = kept_tape(KEY)
    assert recorded == [KEY]
    assert tape.witness({"x": ["3"]}, cpu)[1].tolist() == [9, 0, 0, 0]


def test_a_key_is_digested_once(folder: Path, cpu: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identity is kept beside it. Whatever changes that has the content read again."""
    path = development_key(KEY, cpu)
    digests, digested = [], cache._name
    monkeypatch.setattr(cache, "_name", lambda *given: digests.append(1) or digested(*given))
    assert kept_key(KEY) == kept_key(KEY) == path
    assert not digests
    os.utime(path)
    assert kept_key(KEY) == kept_key(KEY) == path
    assert len(digests) == 1
    beside = path.with_name(path.name + ".seen")
    beside.chmod(0o666)  # by which others could vouch for a file
    assert kept_key(KEY) == path
    assert len(digests) == 2
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert kept_key(KEY) is None
    assert not path.exists()
    assert not beside.exists()


def test_a_key_is_that_of_the_report(cpu: CpuBackend, tmp_path: Path) -> None:
    path = tmp_path / "wrap.zkey"
    setup(small_circuit().system().r1cs(), insecure_dev=True, backend=cpu, out=path)
    loaded: Any = Job.from_options("stark", **OPTIONS, wrap_key=str(path)).load()
    assert sample(loaded.shared()["wrap_key"].data) == sample(memoryview(path.read_bytes()))
    told = {name: loaded.describe()[name] for name in ("insecure_wrap", "wrap_key")}
    assert told == key_facts(read_wrap_key(path, path.name))
    setup(small_circuit().system().r1cs(), insecure_dev=True, backend=cpu, out=path)
    assert told != key_facts(read_wrap_key(path, path.name))
    with pytest.raises(InputError, match="another file than when the job began"):
        loaded.shared()
