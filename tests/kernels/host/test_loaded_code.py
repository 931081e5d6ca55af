"""Names of what code makes, while the code on the disk changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kernels
from kernels.host.loaded_code import as_loaded, digest_of, sources


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    (tmp_path / "inner").mkdir()
    for name in ("a.py", "inner/b.py", "c.so"):
        (tmp_path / name).write_bytes(name.encode())
    return (*sources([str(tmp_path)]), tmp_path / "c.so")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process began when those files had been there for a while."""
    monkeypatch.setattr(kernels, "BEGAN", time.time_ns() + 2 * 10**9)
    digest_of.cache_clear()


@pytest.mark.usefixtures("later")
def test_the_digest_is_of_names_and_content(files: tuple[Path, ...]) -> None:
    assert [path.name for path in files] == ["a.py", "b.py", "c.so"]
    first = digest_of(files)
    digest_of.cache_clear()
    assert digest_of(files) == first
    assert digest_of(files[:2]) != first
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content + b"!")
        digest_of.cache_clear()
        assert digest_of(files) != first
        path.write_bytes(content)
    digest_of.cache_clear()
    assert digest_of(files) == first


def test_code_that_changed_under_a_process_has_no_digest(
    files: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an installer gave the file the time of change that it has in an archive."""
    monkeypatch.setattr(kernels, "BEGAN", time.time_ns() + 2 * 10**9)
    digest_of.cache_clear()
    right = digest_of(files)
    assert as_loaded(files)
    monkeypatch.setattr(kernels, "BEGAN", time.time_ns() - 10**9)
    os.utime(files[1], (0, 0))
    digest_of.cache_clear()
    first = digest_of(files)
    assert not as_loaded(files)
    assert first != right
    assert digest_of(files) == first, "one process finds what it kept"
    digest_of.cache_clear()
    assert digest_of(files) != first, "another one does not"
    files[0].unlink()
    assert not as_loaded(files)


BEGIN = "import kernels, time; print(kernels.BEGAN <= time.time_ns()); import distprove; print(kernels.BEGAN)"


def test_a_process_notes_when_it_began() -> None:
    before = time.time_ns()
    first = subprocess.run([sys.executable, "-c", BEGIN], capture_output=True, text=True, check=True, timeout=60)
    told, began = first.stdout.split()
    assert told == "True"
    assert before <= int(began) <= time.time_ns()
    loads = "import distprove, sys; print('kernels' in sys.modules)"
    second = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True, timeout=60)
    assert second.stdout.strip() == "True"
