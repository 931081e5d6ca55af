"""One proof of several jobs, and wraps that a contract reads, for callers that name no proof system: STARK jobs have
them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distprove.stark.aggregate.file import StarkAggregate as OneOfSeveral
    from distprove.stark.aggregate.trusted import VerifiedAggregate
    from distprove.stark.wrap.contract_verifier import VerifiedRead

    __all__ = ["OneOfSeveral", "VerifiedAggregate", "VerifiedRead"]

SEVERAL_JOBS = "distprove.stark.aggregate"
"""The package that makes one proof of several jobs, and verifies it."""


CONTRACTS = "distprove.stark.wrap.contract_verifier"
"""The module that verifies wraps that a contract reads."""


def contract_verifier() -> Any:
    """The module `CONTRACTS`."""
    return import_module(CONTRACTS)


def several_jobs(module: str) -> Any:
    """A module of `SEVERAL_JOBS`: "file", "runs" or "trusted"."""
    return import_module(f"{SEVERAL_JOBS}.{module}")
