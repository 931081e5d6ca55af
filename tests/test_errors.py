"""The exit codes of errors, and what is said of those of the system."""

from __future__ import annotations

import errno

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
    assert str(errors.typed(OSError(errno.EMFILE, "Too many"), "x")) == "x: Too many; " + errors._WAYS_ON[errno.EMFILE]

    lost = type("ActorDiedError", (Exception,), {"__module__": "ray.exceptions"})
    assert "Ray failed: the head is gone" in str(errors.typed(lost("the head is gone\n  at x")))
    assert errors.error_named("UntrustedName") is errors.UntrustedName
    assert errors.error_named("os") is errors.error_named(None) is DistproveError
