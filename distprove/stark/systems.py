"""Chooses the class of a STARK job's system by the engine that its options name."""

from __future__ import annotations

from distprove.stark.multilinear.system import MultilinearSystem
from distprove.stark.options import StarkOptions
from distprove.stark.system import StarkSystem


class StarkSystems:
    """The systems of both engines."""

    @staticmethod
    def from_options(options: StarkOptions) -> StarkSystem:
        """Make the system of a job. Raises UsageError for a bad program or arguments, or an unreachable target."""
        return _system(options).from_options(options)

    @staticmethod
    def check_job(options: StarkOptions) -> None:
        """Raise UsageError or InputError for a job that `from_options` would refuse, where that is known before it is
        cut."""
        _system(options).check_job(options)


def _system(options: StarkOptions) -> type[StarkSystem]:
    if options.contract:
        from distprove.stark.wrap.contract_system import ContractSystem

        return ContractSystem
    if options.wrap:
        from distprove.stark.wrap.system import WrappedSystem

        return WrappedSystem
    if options.one_proof:
        from distprove.stark.recursion.system import OneProofSystem  # what few jobs need

        return OneProofSystem
    return MultilinearSystem if options.engine == MultilinearSystem.engine else StarkSystem
