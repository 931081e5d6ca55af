"""Typed errors. Each message says what was wrong, where, and what was expected; none carries secret values."""

from __future__ import annotations


class DistproveError(Exception):
    """Base of all errors that distprove raises on purpose. `exit_code` is what the command line exits with."""

    exit_code = 1


class UsageError(DistproveError):
    """The command line, job or call is not usable as given."""

    exit_code = 2


class UntrustedName(UsageError):
    """Code or a cluster that a run folder names, and that only its user may name."""


class InputError(DistproveError):
    """A file or value given to distprove is not what it must be."""

    exit_code = 2


class FormatError(InputError):
    """A file that does not follow its format: truncated, oversized, or with a header that does not hold."""


class CurveMismatch(InputError):
    """Two inputs belong to different curves."""


class InvalidKey(InputError):
    """A key with a point off its curve or outside the subgroup, or with inconsistent sizes."""


class WitnessMismatch(InputError):
    """A witness for another circuit: wrong length, wrong field, or its first wire is not 1."""


class UnsatisfiedWitness(InputError):
    """A witness of the right shape that does not satisfy the circuit's constraints."""


class WitnessGenerationError(InputError):
    """The circuit's witness program refused the input (missing or unknown signal, failed assertion)."""


class AirError(InputError):
    """An AIR that cannot be compiled, or a trace that is not of its shape."""


class InvalidProof(DistproveError):
    """A proof that does not verify, or whose binding to its job does not hold."""


class UntrustedKey(DistproveError):
    """A proof that holds, but only under the key that its own file carries, which anyone can make."""


class JobFailed(DistproveError):
    """At least one partition could not be proven; the run folder holds what succeeded."""


class ClusterError(DistproveError):
    """Ray cannot be started or joined, or lacks the resources that the job needs."""
