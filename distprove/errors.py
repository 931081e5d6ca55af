"""Typed errors. Each message says what was wrong, where, and what was expected; no message holds secret values."""

from __future__ import annotations


class DistproveError(Exception):
    """Base of all errors that distprove raises on purpose. `exit_code` is what the command line exits with."""

    exit_code = 1


class UsageError(DistproveError):
    """A command line, job or call is not usable as given."""

    exit_code = 2


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


class WitnessMismatch(InputError):
    """A witness belongs to another circuit: its length or field is wrong, or its first wire is not 1."""


class UnsatisfiedWitness(InputError):
    """A witness has the right shape but does not satisfy the circuit's constraints."""


class WitnessGenerationError(InputError):
    """The circuit's witness program refused the input (missing or unknown signal, failed assertion)."""


class AirError(InputError):
    """An AIR cannot be compiled, or a trace does not have the AIR's shape."""


class InvalidProof(DistproveError):
    """A proof does not verify, or its binding to its job does not hold."""


class UntrustedKey(DistproveError):
    """A proof verifies only under the key that its own file carries, and anyone can make such a key."""


class JobFailed(DistproveError):
    """At least one partition could not be proven; the run folder holds what succeeded."""


class ClusterError(DistproveError):
    """Ray cannot be started or joined, or lacks the resources that the job needs."""


class OutputLost(DistproveError):
    """Output that was asked for cannot be written in full: its reader is gone, or the disk is full."""

    exit_code = 3
