"""A folder whose content somebody else may have laid: its files are reached through the folder, held open, and no link.

A run or a sweep may have come in an archive, with links to any file of whoever unpacks it. Files are opened relative to
the folder's descriptor and never through a symbolic link; they are replaced by renaming, and those that are written in
place must be regular files with one name. A folder that is written belongs to us, and ends up ours alone (mode 0700).
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from distprove.errors import InputError, UsageError, typed
from distprove.formats.files import is_temporary, read_bounded, replacing_in, temporary_name
from kernels.host.private import NotPrivate, require_no_link_of_others, walk

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking, so that a named pipe in place of a file is an error and not a wait."""
_MAX_DEPTH = 16
"""Folders within each other that are deleted: those of a run are two deep."""


class Folder:
    """An open folder. It stays open until nothing refers to this object, or until it is closed as a context manager."""

    def __init__(self, path: Path, descriptor: int, *, ours: bool, private: bool = True) -> None:
        self.path = path
        self._descriptor = descriptor
        self._ours = ours
        self._private = private
        # Not with the run: a thread may still be writing, and the number must not stand for another folder by then.
        self.close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls, path: Path) -> Folder:
        """A folder to read from. Raises UsageError for a link, and for what is no folder."""
        return cls(path, _open_folder(path), ours=False)

    @classmethod
    def open_ours(cls, path: Path) -> Folder:
        """A folder that we write. Raises UsageError as `open` does, InputError when it is another user's."""
        return cls(path, _open_folder(path), ours=True)._checked_itself()

    @classmethod
    def make(cls, path: Path, *, private: bool = True) -> Folder:
        """Open a folder as `open_ours` does; make it, and those above it, where there is none. Others may look into one
        that is not `private`, and into the folders that are made in it, as far as the user's mask lets them."""
        mode = 0o700 if private else 0o777
        return cls(path, _open_folder(path, mode), ours=True, private=private)._checked_itself()

    def close_to_others(self) -> None:
        """Let nobody else in, whoever could enter before."""
        os.fchmod(self._descriptor, 0o700)

    def folder(self, name: str) -> Folder:
        """The folder of that name in this one, made if there is none; closed to others, if this is private. Raises
        InputError."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o700 if self._private else 0o777, dir_fd=self._descriptor)
        path = self.path / name
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=self._descriptor)
        except OSError as error:
            raise self._refusal(name, error) from None
        inner = Folder(path, descriptor, ours=self._ours, private=self._private)._checked_itself()
        if self._private:
            inner.close_to_others()
        return inner

    def names(self) -> list[str]:
        """Names of all entries of the folder, links included."""
        return os.listdir(self._descriptor)

    def has(self, name: str) -> bool:
        """Whether there is anything of that name, be it a link: opening it tells what is wrong with it."""
        return self._facts(name) is not None

    def size(self, name: str) -> int | None:
        """Bytes of the regular file of this name; None where there is none."""
        facts = self._facts(name)
        return facts.st_size if facts is not None and stat.S_ISREG(facts.st_mode) else None

    def read(self, name: str, limit: int, *, begins: bytes | tuple[bytes, ...] = b"") -> bytes:
        """The content of a regular file of at most `limit` bytes. Raises InputError, and FormatError for more bytes, or
        other ones at the file's start than `begins`."""
        return read_bounded(self.path / name, limit, self.open_file(name), begins=begins, kind=f"a {name}")

    def open_file(self, name: str) -> int:
        """A descriptor to read a regular file. Raises InputError."""
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._descriptor)
        except OSError as error:
            raise self._refusal(name, error) from None
        return self._checked(name, descriptor)

    def open_in_place(self, name: str, flags: int = 0) -> int:
        """A descriptor to read and write a file where it is, made if there is none. Raises InputError."""
        flags |= os.O_RDWR | _FILE
        try:
            try:
                descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._descriptor)
            except FileExistsError:
                descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except OSError as error:
            raise self._refusal(name, error) from None
        if os.fstat(descriptor).st_nlink != 1:
            os.close(descriptor)
            raise InputError(f"{self.path / name} is a hard link to another file, which is not written; remove it")
        return self._checked(name, descriptor)

    def write(self, name: str, data: bytes, *, durable: bool = True, settled: bool = True) -> None:
        """Write a file as `files.write_atomically` does: what had the name before, be it a link, is replaced. A durable
        one that is not `settled` has its name for good once `settle` was called."""
        with replacing_in(self._descriptor, self.path / name, durable=durable, settled=settled) as file:
            file.write(data)

    def settle(self) -> None:
        """Sync the names in the folder."""
        os.fsync(self._descriptor)

    @contextmanager
    def filling(self, name: str, fill: Callable[[BinaryIO], object]) -> Iterator[Callable[[], BinaryIO]]:
        """A new file that `fill` writes on a thread of its own while the block runs. It replaces what had the name, be
        it a link, unless the block raises or the file cannot be written.

        The block is given a function that waits until all is written, has the file synced meanwhile, and returns it, to
        be read back. It raises what `fill` raises.
        """
        from distprove.host.beside import begin  # here: it takes some of the start of each command

        with replacing_in(self._descriptor, self.path / name) as file:

            def write() -> None:
                fill(file)
                file.flush()

            written = begin(2, write)
            waits = [written]

            def full() -> BinaryIO:
                written()
                waits.append(begin(2, partial(os.fsync, file.fileno())))
                return file

            try:
                yield full
            except BaseException:
                for wait in waits:  # the file is open until then; that it could not be written is no matter
                    with suppress(Exception):
                        wait()
                raise
            for wait in waits:
                wait()

    def write_new(self, name: str, data: bytes) -> None:
        """Write a file that is not there, or there with this content. Raises InputError for any other."""
        path = self.path / name
        if not self.has(name):
            self.write(name, data)
            return
        with open(self.open_file(name), "rb") as file:
            same = file.read(len(data) + 1) == data
        if not same:
            raise InputError(f"{path} is there already, with another content; choose another folder, or remove it")

    def add(self, name: str, files: Mapping[str, bytes]) -> None:
        """A new folder with these files in it, closed to others: there in full or, where that fails or the process is
        killed, not at all. Nothing is synced: a power cut may take or empty it. Raises OSError where there is one."""
        temporary = temporary_name(name)
        os.mkdir(temporary, 0o700, dir_fd=self._descriptor)
        try:
            inner = os.open(temporary, _FOLDER, dir_fd=self._descriptor)
            try:
                for file, data in files.items():
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                    descriptor = os.open(file, flags, 0o666, dir_fd=inner)
                    try:
                        if os.write(descriptor, data) != len(data):
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path / name / file))
                    finally:
                        os.close(descriptor)
            finally:
                os.close(inner)
            os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError, InputError):
                self._remove_folder(temporary)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, a link or an empty folder, if there is one, for good. Raises InputError for a full folder."""
        try:
            if self.is_folder(name):
                os.rmdir(name, dir_fd=self._descriptor)
            else:
                os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refusal(name, error) from None
        self.sync()

    def remove_temporaries(self) -> None:
        """Remove what writers that were killed left. To be called when nobody writes to the folder."""
        for name in filter(is_temporary, self.names()):
            if self.is_folder(name):
                self._remove_folder(name)
            else:
                self.remove(name)

    def _remove_folder(self, name: str) -> None:
        """Remove a folder in this one with all that is in it."""
        inner = os.open(name, _FOLDER, dir_fd=self._descriptor)
        try:
            _empty(inner, self.path / name, _MAX_DEPTH)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=self._descriptor)

    def require_files(self, *names: str) -> None:
        """Raise InputError where a folder is in place of a file of one of these names."""
        for name in filter(self.is_folder, names):
            raise self._refusal(name, IsADirectoryError(errno.EISDIR, "Is a directory"))

    def is_folder(self, name: str) -> bool:
        facts = self._facts(name)
        return facts is not None and stat.S_ISDIR(facts.st_mode)

    def empty(self, keep: str) -> None:
        """Delete all that is in the folder but the file of that name. Raises InputError."""
        try:
            _empty(self._descriptor, self.path, _MAX_DEPTH, keep)
        except OSError as error:
            raise typed(OSError(error.errno, error.strerror), self.path) from None

    def delete(self, last: str) -> None:
        """Delete the folder with all that is in it, the file `last` after all others, and nothing that has taken its
        place by now. Raises InputError."""
        self.empty(keep=last)
        try:
            os.unlink(last, dir_fd=self._descriptor)
            itself = os.path.join("..", os.path.basename(os.path.realpath(self.path)))  # wherever it lies by now
            if not self.holds(itself, self._descriptor):
                raise FileNotFoundError
            os.rmdir(itself, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise InputError(f"{self.path} was moved, or changed, while it was deleted") from None
        except OSError as error:
            raise typed(OSError(error.errno, error.strerror), self.path) from None

    def sync(self) -> None:
        """Make new names in the folder durable."""
        os.fsync(self._descriptor)

    def holds(self, name: str, descriptor: int) -> bool:
        """Whether the file of that name is the one that is open under `descriptor`."""
        here, opened = self._facts(name), os.fstat(descriptor)
        return here is not None and (here.st_dev, here.st_ino) == (opened.st_dev, opened.st_ino)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _facts(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _checked(self, name: str, descriptor: int) -> int:
        try:
            facts = os.fstat(descriptor)
            self.require_files(name)
            if not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{self.path / name}: not a regular file")
            self._require_ours(facts, self.path / name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _checked_itself(self) -> Folder:
        self._require_ours(os.fstat(self._descriptor), self.path)
        return self

    def _require_ours(self, facts: os.stat_result, path: Path) -> None:
        if self._ours and facts.st_uid != os.geteuid():
            raise InputError(
                f"{path} belongs to another user (number {facts.st_uid}); use a copy of the folder that is yours"
            )

    def _refusal(self, name: str, error: OSError) -> BaseException:
        facts = self._facts(name)
        if facts is not None and stat.S_ISLNK(facts.st_mode):
            return InputError(f"{self.path / name} is a symbolic link, and none is followed here; remove it")
        if facts is not None and error.errno in (errno.EISDIR, errno.ENOTEMPTY):
            return InputError(f"{self.path / name} is a folder in place of a file; move it away")
        if facts is not None and error.errno == errno.ENOTDIR:
            return InputError(f"{self.path / name} is a file in place of a folder; move it away")
        return typed(OSError(error.errno, error.strerror), self.path / name)


def _open_folder(path: Path, make: int | None = None) -> int:
    """A descriptor of the folder at `path`, to which no link leads that somebody else laid where all may write; `make`
    it with this mode, and those above it, where there is none."""
    name = path.name or "."
    try:
        above = walk(path.parent, require_no_link_of_others, create=None if make is None else 0o777)
        try:
            if make is not None:
                with suppress(FileExistsError):  # whatever it is, it is looked at next
                    os.mkdir(name, make, dir_fd=above)
            return os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    except NotPrivate as error:
        raise UsageError(f"{error}; name the folder that it points to") from None
    except ValueError:
        raise UsageError(f"{path}: a name with a zero byte is that of no folder") from None
    except OSError as error:
        if path.is_symlink():
            raise UsageError(f"{path} is a symbolic link; name the folder that it points to") from None
        if error.errno == errno.ENOTDIR:
            raise UsageError(f"{path} is not a folder") from None
        raise typed(OSError(error.errno, error.strerror), path, UsageError) from None


def _empty(folder: int, path: Path, depth: int, keep: str | None = None) -> None:
    """Remove all that is in the open `folder` but what has the name `keep`, links themselves and not what they lead to.
    `path` is for messages."""
    if not depth:
        raise InputError(f"{path}: folders are nested deeper than {_MAX_DEPTH} in what is to be deleted")
    with os.scandir(folder) as found:
        # Folders first: what cannot be deleted is met there, and a run is told by its files.
        entries = sorted(found, key=lambda entry: not entry.is_dir(follow_symlinks=False))
    for entry in (entry for entry in entries if entry.name != keep):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
            continue
        inner = os.open(entry.name, _FOLDER, dir_fd=folder)
        try:
            _empty(inner, path, depth - 1)
        finally:
            os.close(inner)
        os.rmdir(entry.name, dir_fd=folder)
