"""The user's cache: what it believes, and that it is never needed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
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


# -- a bound ----------------------------------------------------------------------------------------------------------


def used(path: Path, seconds: float) -> None:
    """Let a file be last used so many seconds after the epoch."""
    os.utime(path, (seconds, seconds))


def test_beyond_its_bound_the_least_recently_used_files_go(tmp_path: Path) -> None:
    for number in range(4):
        path = keep(tmp_path, bytes([number]) * 100, f"key{number}")
        assert path is not None
        used(path, 1000 + number)
    assert find(tmp_path, "key0") is not None  # used just now
    bound = cache.Bound(bytes=300, files=10)
    with cache.keep(tmp_path, "key4", ".bin", lambda file: file.write(bytes(100)), bound) as file:  # type: ignore[union-attr]
        assert len(file.read()) == 100
    assert [find(tmp_path, f"key{number}") is not None for number in range(5)] == [True, False, False, True, True]
    few = cache.Bound(bytes=1 << 20, files=2)
    kept = cache.keep(tmp_path, "key5", ".bin", lambda file: file.write(b"5"), few)
    assert kept is not None
    kept.close()
    assert find(tmp_path, "key5") is not None
    assert len(list(tmp_path.iterdir())) == 2


def test_eviction_leaves_folders_and_files_that_are_being_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "new-another.tmp").write_bytes(bytes(1000))
    kept = cache.keep(tmp_path, "key", ".bin", lambda file: file.write(bytes(100)), cache.Bound(bytes=10, files=1))
    assert kept is not None
    with kept:  # open, and evicted already: it alone is larger than the bound
        assert kept.read() == bytes(100)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "new-another.tmp"}


def test_processes_may_find_keep_and_evict_at_once(tmp_path: Path) -> None:
    """Each finds the right content or none, and none fails."""
    folder = tmp_path / "cache"
    code = f"""
import random, sys
from pathlib import Path
from kernels.host import cache
chosen, folder = random.Random(int(sys.argv[1])), Path({str(folder)!r})
found = 0
for _ in range(150):
    number = chosen.randrange(12)
    for file in (cache.find(folder, f"key{{number}}", ".bin"), cache.keep(
        folder, f"key{{number}}", ".bin", lambda file: file.write(bytes([number]) * 100), cache.Bound(500, 5)
    )):
        if file is not None:
            with file:
                assert file.read() == bytes([number]) * 100
            found += 1
print(found)
"""
    workers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(3)
    ]
    found = [int(worker.communicate(timeout=250)[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert min(found) > 0
    assert 1 <= len(list(folder.iterdir())) <= 5 + 3  # each evicts what it has seen


def test_one_makes_a_file_and_another_finds_it(tmp_path: Path) -> None:
    made: list[int] = []

    def make(number: int) -> None:
        with cache.making(tmp_path, "files"):
            if find(tmp_path) is None:
                made.append(number)
                time.sleep(0.05)
                keep(tmp_path, b"content")

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
    assert (tmp_path / "files.lock").stat().st_mode & 0o777 == 0o600


HOLD = """
import sys, time
from pathlib import Path
from kernels.host import cache
with cache.making(Path(sys.argv[1]), 'files'):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_process_that_dies_while_it_makes_a_file_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that hangs does so for a while."""
    monkeypatch.setattr(cache, "_PATIENCE", 0.2)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        begun = time.monotonic()
        with cache.making(tmp_path, "files"):
            assert time.monotonic() - begun >= 0.2
        other.kill()
        other.wait()
        monkeypatch.setattr(cache, "_PATIENCE", 1e6)
        with cache.making(tmp_path, "files"):
            pass


def test_a_folder_that_is_not_usable_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with cache.making(tmp_path / "file", "files"), cache.making(tmp_path / "file", "files"):
        pass


def test_what_fails_while_a_file_is_made_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), cache.making(tmp_path, "files"):
        raise OSError("mine")
    with cache.making(tmp_path, "files"):
        pass
