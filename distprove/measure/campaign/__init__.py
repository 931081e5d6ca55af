"""Campaigns: random faults, kills and loads, many times over, with a check of what is found afterwards.

Each module is a command, run in a checkout: `python -m distprove.measure.campaign.faults --help`. A toy proof system,
whose partitions meet faults on order, is taken by the name of its module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import psutil

from distprove.host.provenance import provenance
from distprove.system import ProofSystem

ROOT = Path(__file__).resolve().parents[3]
"""The checkout, where processes that a campaign starts find the toy."""
TOY = "tests.support.toy_system"
TREE = "tests.support.toy_tree"
"""The same with partitions that need others."""
CLUSTER = "tests.support.lossy_cluster:LossyCluster"
"""A Ray of several nodes on this machine. It takes private parts of Ray, so it stays with the tests."""


class Toy(Protocol):
    """The module of a toy proof system."""

    TOY_BACKEND: str
    """The backend of its provers, as "module:factory"."""
    Faults: Callable[..., Any]
    """Takes the folder in which faults count, and for each kind of fault how often it strikes which partition."""
    ToySystem: Callable[..., ProofSystem]
    """Takes the number of partitions, the faults, and whether there is a barrier and a verifier in Python."""


class Tree(Protocol):
    """The module of a toy proof system whose partitions are a tree."""

    TreeSystem: Callable[..., ProofSystem]
    """Takes what `Toy.ToySystem` takes, the number of leaves in place of that of partitions."""
    CheckingTree: Callable[..., ProofSystem]
    """The same, and compares nodes with their children (`distprove.system.ChecksChildren`)."""
    tree_of: Callable[[int], Mapping[str, tuple[str, ...]]]
    """Takes the number of leaves. Gives all names, in the order of the plan, with those that each needs."""


class Cluster(Protocol):
    """What a campaign does to nodes of a Ray, which have numbers; 0 is the head."""

    address: str
    environment: dict[str, str]
    temporary: Path
    """TMPDIR of all nodes."""
    apart: bool
    """Whether each node has a network namespace of its own."""

    def address_of(self, number: int) -> str: ...
    def enter(self, number: int) -> None:
        """Bring this process into the network namespace of a node."""

    def kill(self, number: int) -> None: ...
    def kill_one(self, number: int, name: str) -> None:
        """End one process of a node, by its name."""

    def cut(self, number: int) -> None: ...
    def join(self, number: int) -> None: ...
    def left(self, *, idle: bool = True) -> list[psutil.Process]:
        """The processes of jobs on all nodes; `idle`: and those in which actors may begin."""

    def mend(self, nodes: int) -> None:
        """Start what is missing of so many nodes, and end all others."""

    def begin(self, number: int) -> int:
        """Begin to start a node; the process that does so."""

    def close(self) -> None: ...


def load_toy(name: str = TOY) -> Toy:
    """Import the toy of that name."""
    return cast(Toy, import_module(name))


def load_tree(name: str = TREE) -> Tree:
    """Import the toy tree of that name."""
    return cast(Tree, import_module(name))


def python_path() -> str:
    """The PYTHONPATH of processes that a campaign starts: the checkout, and what this one was given."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def made_by() -> dict[str, Any]:
    """The provenance of a result, without who ran the campaign and where."""
    return {name: value for name, value in provenance().items() if name not in ("user", "host")}


def write_result(result: dict[str, Any], out: Path | None, *, left_out: str | None = None) -> None:
    """Print a campaign's result as JSON, without the list `left_out`, and write all of it to `out`."""
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != left_out}, indent=1))
