"""The user's cache: what it believes, and that it is never needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from kernels.host import cache


def keep(folder: Path, content: bytes, key: str = "key") -> Path | None:
    file = cache.keep(folder, key, ".bin", lambda file: file.write(content))
    return None if file is None else _closed(file)


def find(folder: Path, key: str = "key", suffix: str = ".bin") -> Path | None:
    file = cache.find(folder, key, suffix)
    return None if file is None else _closed(file)


def _closed(file: IO[bytes]) -> Path:
    with file:
        return Path(file.name)


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert find(folder) is None
    path = keep(folder, b"content" * 100_000)
    assert path is not None
    assert find(folder) == path
    assert path.read_bytes() == b"content" * 100_000
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert find(folder, "ke") is None
    assert find(folder, suffix=".other") is None
    assert list(folder.iterdir()) == [path]


def test_damage_is_noticed_and_cleared(tmp_path: Path) -> None:
    path = keep(tmp_path, b"content")
    assert path is not None
    path.write_bytes(b"contenT")
    assert find(tmp_path) is None
    assert not path.exists()


def test_what_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    path = keep(tmp_path, b"content")
    assert path is not None
    path.chmod(0o620)
    assert find(tmp_path) is None
    path.chmod(0o600)
    assert find(tmp_path) == path
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert find(tmp_path) is None


@pytest.mark.filterwarnings("ignore:the cache")
@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_folder_that_others_can_change_or_replace_is_not_used(tmp_path: Path, above: int) -> None:
    """Whoever may write the folder, or one above it, could have put another file there: nothing is read or left."""
    folder = tmp_path / "a" / "b"
    path = keep(folder, b"content")
    assert path is not None
    [folder, folder.parent, tmp_path][above].chmod(0o777)
    assert find(folder) is None
    assert keep(folder, b"content", "other") is None
    assert list(folder.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore:the cache")
def test_nothing_is_made_where_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert keep(tmp_path / "a" / "b", b"content") is None
    assert list(tmp_path.iterdir()) == []


def test_a_sticky_folder_above_will_do_and_one_at_the_end_will_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert keep(tmp_path / "a", b"content") is not None
    with pytest.warns(RuntimeWarning, match=r"the cache .* is not used: .* can be written by others \(mode 1777\)"):
        assert keep(tmp_path, b"content") is None


def test_links_are_followed_to_folders_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "way").symlink_to(tmp_path / "link" / ".." / "link")
    assert keep(tmp_path / "way" / "a", b"content") is not None
    assert find(tmp_path / "real" / "a") is not None
    (tmp_path / "real").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="real can be written by others"):
        assert find(tmp_path / "way" / "a") is None
    (tmp_path / "self").symlink_to("self")
    with pytest.warns(RuntimeWarning, match="one of too many"):
        assert find(tmp_path / "self" / "a") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_belongs_to_another_user_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "theirs" / "a"
    path = keep(folder, b"content")
    assert path is not None
    os.chown(path, 65534, -1)
    assert find(folder) is None
    os.chown(path, 0, -1)
    assert find(folder) == path
    os.chown(folder.parent, 65534, -1)
    with pytest.warns(RuntimeWarning, match="theirs belongs to user 65534"):
        assert find(folder) is None
    (tmp_path / "link").symlink_to(tmp_path)
    os.chown(tmp_path / "link", 65534, -1, follow_symlinks=False)
    with pytest.warns(RuntimeWarning, match="is a symbolic link of user 65534"):
        assert keep(tmp_path / "link" / "mine", b"content") is None


def test_what_was_checked_is_what_is_read(tmp_path: Path) -> None:
    """A file that takes its place after the check is not what the caller has in hands."""
    path = keep(tmp_path, b"content")
    file = cache.find(tmp_path, "key", ".bin")
    assert path is not None
    assert file is not None
    (tmp_path / "new").write_bytes(b"another")
    (tmp_path / "new").replace(path)
    with file:
        assert file.read() == b"content"


def test_it_is_said_once_that_a_cache_is_not_used(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from kernels.host import cache
for _ in range(3):
    assert cache.find(Path({str(tmp_path)!r}), "key", ".bin") is None
    assert cache.keep(Path({str(tmp_path)!r}), "key", ".bin", lambda file: None) is None
"""
    tmp_path.chmod(0o777)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.count("RuntimeWarning: the cache") == 1


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
    assert find(tmp_path / "file") is None


def test_the_folder_follows_the_users_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.user_cache_dir("x") == tmp_path / "distprove" / "x"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.user_cache_dir("x") == tmp_path / ".cache" / "distprove" / "x"
