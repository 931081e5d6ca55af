"""What is remembered of a key's check: attacks on the memory, and that it is never needed."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import InvalidKey
from distprove.groth16 import key_check
from distprove.groth16.key_check import check_key_once
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.zkey import read_zkey
from distprove.options import InputFile
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups
from kernels.host import cache
from kernels.maths.curves import BN254, Curve, Group
from tests.support.file_builders import with_points
from tests.support.own_module import give

POINTS = (
    *("alpha1", "beta1", "delta1", "beta2", "gamma2", "delta2"),
    *("ic", "a", "b1", "b2", "c", "h"),
)


class CountingGroups(CpuGroups):
    """Counts the points that it checks."""

    checked = 0

    def check_points(self, curve: Curve, group: Group, points: Any, *, subgroup: bool = True) -> int | None:
        self.checked += len(points)
        return super().check_points(curve, group, points, subgroup=subgroup)


class CountingBackend(CpuBackend):
    groups: CountingGroups

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.groups = CountingGroups(self.pool, np.empty)


@pytest.fixture
def backend() -> Iterator[CountingBackend]:
    with CountingBackend() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records, which is not there yet. Keys of any size are remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(key_check, "REMEMBERED_BYTES", 0)
    return tmp_path / "distprove" / "checked-keys"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "c.zkey"
    with CpuBackend(threads=1) as cpu:
        setup(synthetic_circuit(BN254, 20, cpu).r1cs, insecure_dev=True, backend=cpu, out=path)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "c.zkey"))


def count(backend: CountingBackend, path: Path) -> int:
    """The number of points that are checked when a job checks the key at `path`, which must pass."""
    before = backend.groups.checked
    system = Groth16System(path, [InputFile("a", path)])
    system.check(system.shared(), backend)
    return backend.groups.checked - before


def spoil(path: Path) -> int:
    """Take a point of the key off the curve, in place, without another size or time; where it lies in the file."""
    facts, key = path.stat(), read_zkey(path)
    at = key.points.h.ctypes.data - key.data.ctypes.data
    flip(path, at)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert path.stat().st_mtime_ns == facts.st_mtime_ns
    return at


def flip(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_key_is_checked_once(path: Path, tmp_path: Path, folder: Path, backend: CountingBackend) -> None:
    key = read_zkey(path)
    every = 6 + key.n_public + 1 + 4 * key.n_vars - key.n_public - 1 + key.domain_size
    assert count(backend, path) == every
    assert count(backend, path) == 0
    assert count(backend, Path(shutil.copy(path, tmp_path / "other.zkey"))) == 0, "the content counts, not the path"
    assert len(list(folder.iterdir())) == 1
    assert folder.stat().st_mode & 0o777 == 0o700


def test_small_keys_and_other_backends_are_checked_each_time(
    path: Path, folder: Path, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "name", "cuda")
    assert count(backend, path) == count(backend, path) > 0
    monkeypatch.setattr(backend, "name", "cpu")
    monkeypatch.setattr(key_check, "REMEMBERED_BYTES", path.stat().st_size + 1)
    assert count(backend, path) == count(backend, path) > 0
    assert not folder.exists()


def test_a_key_that_was_changed_is_checked_again_and_never_remembered(
    path: Path, folder: Path, backend: CountingBackend
) -> None:
    assert count(backend, path) > 0
    records = list(folder.iterdir())
    spoil(path)
    for _ in range(2):
        with pytest.raises(InvalidKey, match=r"c\.zkey: point 0 of section H \(G1\) is not on"):
            count(backend, path)
    assert list(folder.iterdir()) == records


@pytest.mark.parametrize("field", POINTS)
def test_no_point_is_left_out_of_what_is_remembered(
    path: Path, folder: Path, backend: CountingBackend, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last point of each section is part of the digest too, after several blocks of points."""
    monkeypatch.setattr(key_check, "_ROWS", 3)
    key = read_zkey(path)
    check_key_once(key, backend)
    points = np.array(getattr(key.points, field))
    points.view(np.uint8).reshape(-1)[-1] ^= 1
    with pytest.raises(InvalidKey):
        check_key_once(with_points(key, **{field: points}), backend)
    assert len(list(folder.iterdir())) == 1


def test_points_of_another_section_are_not_those_that_were_checked(
    path: Path, folder: Path, backend: CountingBackend
) -> None:
    """The same bytes, cut into sections elsewhere, are another key: a point of G2 is no two points of G1."""
    key = read_zkey(path)
    check_key_once(key, backend)
    both = np.concatenate([key.points.ic, key.points.a])
    before = backend.groups.checked
    check_key_once(with_points(key, ic=both[:1], a=both[1:]), backend)
    assert backend.groups.checked > before
    b2 = key.points.b2.reshape(-1, key.points.a.shape[1])
    cut = np.concatenate([key.points.b1, b2])
    with pytest.raises(InvalidKey):
        check_key_once(with_points(key, b1=cut, b2=key.points.b2[:0]), backend)


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("how", ["file", "folder", "above", "link", "their file", "their folder"])
def test_a_record_that_others_could_have_made_is_not_believed(
    path: Path, tmp_path: Path, folder: Path, backend: CountingBackend, how: str
) -> None:
    if how.startswith("their") and os.geteuid() != 0:
        pytest.skip("gives files to another user")
    every = count(backend, path)
    (record,) = folder.iterdir()
    if how == "file":
        record.chmod(0o620)
    elif how == "folder":
        folder.chmod(0o770)
    elif how == "above":
        folder.parent.chmod(0o777)
    elif how == "link":
        record.rename(tmp_path / "elsewhere")
        record.symlink_to(tmp_path / "elsewhere")
    else:
        os.chown(record if how == "their file" else folder, 65534, -1)
    assert count(backend, path) == every


def test_a_record_of_another_version_of_the_check_is_not_believed(
    path: Path, folder: Path, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = count(backend, path)
    monkeypatch.setattr(key_check, "VERSION", key_check.VERSION + 1)
    assert count(backend, path) == every
    assert count(backend, path) == 0


def test_a_key_that_is_good_only_while_it_is_checked_is_not_remembered(
    path: Path, folder: Path, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write the file lays a bad key there, mends it when its digest has been looked up, and spoils it
    again when it has passed: what is remembered is the good key, which is what was checked."""
    at, find = spoil(path), cache.find

    def then_change(*arguments: Any, **named: Any) -> Any:
        found = find(*arguments, **named)
        flip(path, at)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(cache, "find", then_change)  # for the look-up, and once more when the record is kept
        assert count(backend, path) > 0
    with pytest.raises(InvalidKey):
        count(backend, path)
    flip(path, at)
    assert count(backend, path) == 0


def test_a_key_that_is_mended_for_each_check_of_a_block_is_refused(
    path: Path, folder: Path, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is hashed is what is checked: not what lies at the same place in the file by then."""
    at, check = spoil(path), backend.groups.check_points

    def on_the_mended(*arguments: Any, **options: Any) -> int | None:
        flip(path, at)
        try:
            return check(*arguments, **options)
        finally:
            flip(path, at)

    monkeypatch.setattr(backend.groups, "check_points", on_the_mended)
    with pytest.raises(InvalidKey):
        count(backend, path)
    assert not folder.exists()


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("where", ["no home", "a file", "no such device", "a full disk", "folder of all"])
def test_a_key_is_checked_where_nothing_can_be_remembered(
    path: Path, tmp_path: Path, folder: Path, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def no_user(_: int) -> Any:
        raise KeyError("no such user")

    def full(*_paths: Any, **_options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", no_user)
    elif where == "a full disk":
        give(monkeypatch, cache, "os", replace=full)
    elif where == "folder of all":
        (tmp_path / "all").mkdir()
        (tmp_path / "all").chmod(0o777)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all"))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(path) if where == "a file" else "/proc/self/none")
    assert count(backend, path) == count(backend, path) > 0
    spoil(path)
    with pytest.raises(InvalidKey):
        count(backend, path)
