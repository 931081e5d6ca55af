"""Typed errors. Each message says what was wrong, where, and what was expected; no message holds secret values.

The exit codes of the command line are decided here, by `exit_code`: 0 done, 1 the job failed or a proof or ceremony
does not hold, 2 bad usage or input, 3 the environment failed and the same command may succeed later, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from kernels import errors as backend_errors
from kernels.errors import BackendError

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells expect."""


class DistproveError(Exception):
    """Base of all errors that distprove raises on purpose."""

    exit_code = 1


class UsageError(DistproveError):
    """A command line, job or call is not usable as given."""

    exit_code = 2


class TooMuchWork(UsageError):
    """What is asked for takes more work than is allowed. The message names the setting that allows more."""


class UntrustedName(UsageError):
    """A run folder names code or a cluster that only the user may name."""


class InputError(DistproveError):
    """A file or value given to distprove is not valid."""

    exit_code = 2


class FormatError(InputError):
    """A file does not follow its format: it is truncated or oversized, or its header is wrong."""


class CurveMismatch(InputError):
    """Two inputs belong to different curves."""


class InvalidKey(InputError):
    """A key has a point off its curve or outside the subgroup, or inconsistent sizes."""


class InvalidCeremony(InvalidKey):
    """A file is not what its ceremony's contributions make of it, so that verifying it ends with exit code 1."""

    exit_code = 1


class WitnessMismatch(InputError):
    """A witness belongs to another circuit: its length or field is wrong, or its first wire is not 1."""


class UnsatisfiedWitness(InputError):
    """A witness has the right shape but does not satisfy the circuit's constraints."""


class WitnessGenerationError(InputError):
    """The circuit's witness program refused the input (missing or unknown signal, failed assertion)."""


class VanillaMismatch(InputError):
    """Filecoin's vanilla proofs do not belong together, or are not of the statement that is to be proven."""


class CodeFault(InputError):
    """Code of a user's own, a program or a circuit, raised an error. The message shows where in that code."""


class AirError(InputError):
    """An AIR cannot be compiled, or a trace does not have the AIR's shape."""


class InvalidProof(DistproveError):
    """A proof does not verify, or its binding to its job does not hold."""


class UntrustedKey(DistproveError):
    """A proof verifies only under the key that its own file carries, and anyone can make such a key."""


class OutputMissing(DistproveError):
    """A proof of a job with an output of variable length cannot be verified without that output."""


class JobFailed(DistproveError):
    """At least one partition could not be proven; the run folder holds what succeeded."""

    def __init__(self, message: str, kinds: Iterable[str | None] = ()) -> None:
        """`kinds`: names of the errors of the partitions that failed. Where their exit codes agree, as where nothing
        but inputs is at fault and trying again is useless, theirs is the job's."""
        super().__init__(message)
        codes = {exit_code(error_named(kind)) for kind in kinds}
        if len(codes) == 1:
            self.exit_code = codes.pop()


class EnvironmentFailed(DistproveError):
    """The machine or cluster failed, and not the command or its input: the same command may succeed later."""

    exit_code = 3


class CalledOff(DistproveError):
    """Work ended early, because its caller cancelled it or left. The message names neither caller nor input."""

    def __init__(self, text: str = "cancelled: its caller no longer waits for the result") -> None:
        super().__init__(text)


class ClusterError(EnvironmentFailed):
    """Ray cannot be started or joined, is lost, or lacks the resources that the job needs."""


class ResourceError(EnvironmentFailed):
    """Disk, memory or another resource of the machine ran out, or failed."""


class OutputLost(EnvironmentFailed):
    """Output that was asked for cannot be written in full: its reader is gone, or the disk is full."""


class InUse(EnvironmentFailed, UsageError):
    """Another driver is at work on a run."""


class NoSuchJob(UsageError):
    """A service has no job of that id."""


class IdTaken(UsageError):
    """Another job was submitted under this id."""


class QueueFull(EnvironmentFailed):
    """A service takes no more jobs at the moment."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        """`retry_after`: seconds after which asking again is worth while."""
        super().__init__(message)
        self.retry_after = retry_after


class AccessDenied(UsageError):
    """A service does not know the token that it was shown, or was shown none."""


class ServiceGone(EnvironmentFailed):
    """No service answers, or it went away."""


_MEMORY = "free memory on this machine, raise its limits (ulimit -v), or give the job fewer workers"
_ROOM = "make room there"
_FILES = "raise the limit of open files (ulimit -n)"
_THREADS = "raise the limit of processes and threads (ulimit -u, or the container's), or end some"
_GONE = "the file system is gone, or its server does not answer"
_WAYS_ON = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.ENOMEM: _MEMORY,
    errno.EMFILE: _FILES,
    errno.ENFILE: "raise the system's limit of open files",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EAGAIN: _THREADS,
    errno.ENOLCK: "raise the limit of file locks, or choose a disk that has them",
    errno.EROFS: "the disk is mounted read-only",
    **dict.fromkeys((errno.EIO, errno.ENODEV, errno.ENXIO), "the disk is failing, or was removed"),
    errno.ESTALE: "the file system was mounted again meanwhile",
    **dict.fromkeys((errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ESHUTDOWN), _GONE),
}
"""Errors of the system that are the environment's, and what to do about them."""
_SIGNS = {
    "can't start new thread": _THREADS,
    os.strerror(errno.EAGAIN): _THREADS,
    os.strerror(errno.EMFILE): _FILES,
    os.strerror(errno.ENOMEM): _MEMORY,
    "failed to map segment": _MEMORY,
    "mmap failed": _MEMORY,
}
"""The same, as other libraries and the dynamic loader say it."""


def typed(error: BaseException, path: object = None, otherwise: type[DistproveError] | None = None) -> BaseException:
    """The error as one of ours, where it says by itself what failed; any other as it is. `path`: what an error of the
    system is about, unless it says so. `otherwise`: the type of one about a file that is not the environment's, by
    default InputError."""
    if isinstance(error, OSError):
        about = error.filename if error.filename is not None else path
        text = f"{about}: {error.strerror}" if about is not None else error.strerror or str(error)
        way_on = _WAYS_ON.get(error.errno or 0)
        if way_on is not None:
            return ResourceError(f"{text}; {way_on}")
        return ResourceError(text) if about is None else (otherwise or InputError)(text)  # a connection, a process
    if isinstance(error, MemoryError):
        return ResourceError(f"out of memory; {_MEMORY}")
    if isinstance(error, (RuntimeError, ImportError)) and (told := starved(str(error))) is not None:
        return told
    if type(error).__module__ == "sqlite3":
        return ResourceError(f"the service's books: {error}")
    if type(error).__module__.partition(".")[0] == "ray":  # which is imported by jobs that use it
        return ClusterError(f"Ray failed: {(str(error).strip().splitlines() or [type(error).__name__])[0]}")
    return error


def starved(text: str) -> ResourceError | None:
    """The error of the environment that another library or process tells, if it tells one."""
    sign = next((sign for sign in _SIGNS if sign in text), None)
    return ResourceError(f"{sign}; {_SIGNS[sign]}") if sign is not None else None


def forget_frames(error: BaseException) -> None:
    """Have an error that is not raised any more, and those that led to it, hold no frames. A frame that keeps the error
    is in a circle with it, and so are its callers: what they all hold stays in memory until the collector looks."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            left += [other for other in (each.__cause__, each.__context__) if other is not None]


def exit_code(error: BaseException | type[BaseException]) -> int:
    """The command line's exit code for an error, or for one of that type."""
    if isinstance(error, DistproveError):
        return error.exit_code
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, DistproveError):
        return kind.exit_code
    if issubclass(kind, KeyboardInterrupt):
        return INTERRUPTED
    return EnvironmentFailed.exit_code if issubclass(kind, BackendError) else DistproveError.exit_code


def error_named(name: str | None) -> type[BaseException]:
    """The type of error of that name, as reports have it; DistproveError for names that are not ours."""
    found = globals().get(name or "", getattr(backend_errors, name or "", None))
    return found if isinstance(found, type) and issubclass(found, BaseException) else DistproveError
