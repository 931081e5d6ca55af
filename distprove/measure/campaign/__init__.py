"""Campaigns: random faults, kills and loads, many times over, with a check of what is found afterwards.

Each module is a command, run in a checkout: `python -m distprove.measure.campaign.faults --help`. A toy proof system,
whose partitions meet faults on order, is taken by the name of its module.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from distprove.system import ProofSystem

ROOT = Path(__file__).resolve().parents[3]
"""The checkout, where processes that a campaign starts find the toy."""
TOY = "tests.support.toy_system"


class Toy(Protocol):
    """The module of a toy proof system."""

    TOY_BACKEND: str
    """The backend of its provers, as "module:factory"."""
    Faults: Callable[..., Any]
    """Takes the folder in which faults count, and for each kind of fault how often it strikes which partition."""
    ToySystem: Callable[..., ProofSystem]
    """Takes the number of partitions, the faults, and whether there is a barrier and a verifier in Python."""


def load_toy(name: str = TOY) -> Toy:
    """Import the toy of that name."""
    return cast(Toy, import_module(name))


def write_result(result: dict[str, Any], out: Path | None, *, left_out: str | None = None) -> None:
    """Print a campaign's result as JSON, without the list `left_out`, and write all of it to `out`."""
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != left_out}, indent=1))
