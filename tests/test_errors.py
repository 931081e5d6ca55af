"""The exit codes of errors, and what is said of those of the system."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from distprove import errors
from distprove.errors import DistproveError, InputError, InUse, InvalidProof, JobFailed, ResourceError, UsageError
from kernels.errors import CompilerMissing, OutOfMemory


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobFailed("x"), 1),
        (InvalidProof("x"), 1),
        (ValueError("a fault of ours"), 1),
        (UsageError("x"), 2),
        (InputError("x"), 2),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.json"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "a.json"), 2),
        (OSError(errno.ENOSPC, "No space left", "run"), 3),
        (OSError(errno.EMFILE, "Too many open files", "run"), 3),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset"), 3),
        (MemoryError(), 3),
        *((OSError(code, "gone", "run/p0"), 3) for code in (errno.EROFS, errno.EDQUOT, errno.EIO, errno.ESTALE)),
        *((OSError(code, "gone", "run/p0"), 3) for code in (errno.ENOTCONN, errno.ENODEV, errno.EFBIG, errno.ENOLCK)),
        (RuntimeError("can't start new thread"), 3),
        (RuntimeError("Resource temporarily unavailable"), 3),
        (RuntimeError("thread constructor failed: Resource temporarily unavailable"), 3),
        (RuntimeError("a fault of ours"), 1),
        (ImportError("x.so: failed to map segment from shared object"), 3),
        (ImportError("no module"), 1),
        (sqlite3.OperationalError("database or disk is full"), 3),
        (OutOfMemory("x"), 3),
        (CompilerMissing("x"), 3),
        (InUse("x"), 3),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert errors.exit_code(errors.typed(error)) == code


def test_errors_of_the_system_say_of_what_they_are_and_what_to_do() -> None:
    full = errors.typed(OSError(errno.ENOSPC, "No space left", "run/p0"))
    assert (type(full), str(full)) == (ResourceError, "run/p0: No space left; make room there")
    read_only = OSError(errno.EROFS, "Read-only", "out")
    assert type(errors.typed(read_only, otherwise=UsageError)) is ResourceError
    assert type(errors.typed(OSError(errno.EACCES, "denied", "out"), otherwise=UsageError)) is UsageError
    secret = errors.typed(RuntimeError("8271640355928173645: can't start new thread"))
    assert str(secret) == f"can't start new thread; {errors._THREADS}"
    assert str(errors.typed(OSError(errno.EMFILE, "Too many"), "x")) == "x: Too many; " + errors._WAYS_ON[errno.EMFILE]

    lost = type("ActorDiedError", (Exception,), {"__module__": "ray.exceptions"})
    assert "Ray failed: the head is gone" in str(errors.typed(lost("the head is gone\n  at x")))
    assert errors.error_named("UntrustedName") is errors.UntrustedName
    assert errors.error_named("os") is errors.error_named(None) is DistproveError
