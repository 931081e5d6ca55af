"""The user's cache: what it believes, and that it is never needed."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

from kernels import cache


def keep(folder: Path, content: bytes, key: str = "key") -> Path | None:
    return cache.keep(folder, key, ".bin", lambda file: file.write(content))


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert cache.find(folder, "key", ".bin") is None
    path = keep(folder, b"content" * 100_000)
    assert path is not None
    assert cache.find(folder, "key", ".bin") == path
    assert path.read_bytes() == b"content" * 100_000
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert cache.find(folder, "ke", ".bin") is None
    assert cache.find(folder, "key", ".other") is None
    assert list(folder.iterdir()) == [path]


def test_damage_is_noticed_and_cleared(tmp_path: Path) -> None:
    path = keep(tmp_path, b"content")
    assert path is not None
    path.write_bytes(b"contenT")
    assert cache.find(tmp_path, "key", ".bin") is None
    assert not path.exists()


def test_what_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    path = keep(tmp_path, b"content")
    assert path is not None
    path.chmod(0o620)
    assert cache.find(tmp_path, "key", ".bin") is None
    path.chmod(0o600)
    assert cache.find(tmp_path, "key", ".bin") == path
    tmp_path.chmod(0o777)
    assert cache.find(tmp_path, "key", ".bin") is None
    tmp_path.chmod(0o700)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.find(tmp_path, "key", ".bin") is None


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(file: IO[bytes]) -> None:
        file.write(b"half")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        cache.keep(tmp_path, "key", ".bin", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert keep(tmp_path / "file", b"content") is None
    assert cache.find(tmp_path / "file", "key", ".bin") is None


def test_the_folder_follows_the_users_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.user_cache_dir("x") == tmp_path / "distprove" / "x"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.user_cache_dir("x") == tmp_path / ".cache" / "distprove" / "x"
