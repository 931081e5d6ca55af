"""One proof of several jobs, for callers that name no proof system: STARK jobs have it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distprove.stark.aggregate.file import StarkAggregate as OneOfSeveral
    from distprove.stark.aggregate.trusted import VerifiedAggregate

    __all__ = ["OneOfSeveral", "VerifiedAggregate"]

SEVERAL_JOBS = "distprove.stark.aggregate"
"""The package that makes one proof of several jobs, and verifies it."""


def several_jobs(module: str) -> Any:
    """A module of `SEVERAL_JOBS`: "file", "runs" or "trusted"."""
    return import_module(f"{SEVERAL_JOBS}.{module}")
