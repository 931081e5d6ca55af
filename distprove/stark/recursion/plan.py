"""The tree over a job's partitions: its nodes, and the kinds of these.

Leaves verify four partitions each, of one form where a form has so many. Nodes verify four consecutive leaves or nodes,
and the *root* the one that is left. The tree follows from the list of partitions alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from distprove.errors import FormatError
from distprove.formats.names import MAX_LENGTH
from distprove.stark.heights import LogHeights, decode_heights, encode_heights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.shape import heights_fit
from distprove.stark.recursion.node import MOST_CHILDREN

T = TypeVar("T")

ROOT = "root"
"""The name of a tree's last node, and its role."""
WRAP = "wrap"
"""The name and role of a second root over the same node, whose proof a Groth16 circuit verifies."""
LEAF = "leaf"
"""What the names of leaves begin with."""
INNER = "node"
"""The role of a node that is neither leaf nor root."""
MOST_LEAVES = 16
"""Different leaves of a tree, at most: each has a key of its own."""


@dataclass(frozen=True)
class TreeNode:
    """A node of a job's tree: a partition that depends on others."""

    name: str
    children: tuple[str, ...]
    """Names of partitions (for a leaf) or of nodes, in order."""

    @property
    def is_leaf(self) -> bool:
        return self.name.startswith(f"{LEAF}-")


@dataclass(frozen=True)
class Form:
    """What a leaf's circuit has of a partition, beside its key."""

    log_heights: LogHeights
    name_length: int
    """In bytes."""

    @classmethod
    def of(cls, name: str, log_heights: Sequence[int | None]) -> Form:
        return cls(tuple(log_heights), len(name.encode()))


def leaf_forms(partitions: Sequence[Form]) -> tuple[Form, ...]:
    """The forms of all places of a leaf over at most four partitions: absent ones have the first one's."""
    return (*partitions, *[partitions[0]] * (MOST_CHILDREN - len(partitions)))


def in_fours(items: Sequence[T]) -> list[Sequence[T]]:
    """The items below each node of a level."""
    return [items[i : i + MOST_CHILDREN] for i in range(0, len(items), MOST_CHILDREN)]


def leaf_places(partitions: Sequence[Form]) -> list[tuple[int, ...]]:
    """The numbers of the partitions below each leaf, from the form of each partition.

    Four partitions or more of one form have leaves of their own, so a job of few forms has few different leaves. All
    others share leaves. Numbers ascend within a leaf, and leaves ascend by their first number.
    """
    alike: dict[Form, list[int]] = {}
    for number, form in enumerate(partitions):
        alike.setdefault(form, []).append(number)
    rest = sorted(number for own in alike.values() if len(own) < MOST_CHILDREN for number in own)
    groups = [*(own for own in alike.values() if len(own) >= MOST_CHILDREN), rest]
    return sorted(tuple(leaf) for group in groups for leaf in in_fours(group))


def leaves_of(partitions: Sequence[Form]) -> list[tuple[Form, ...]]:
    """The forms of each leaf over partitions of these forms, in order."""
    return [leaf_forms([partitions[number] for number in leaf]) for leaf in leaf_places(partitions)]


def plan_tree(partitions: Mapping[str, LogHeights]) -> tuple[TreeNode, ...]:
    """The nodes over partitions of these heights, by name and in order: children before parents, the root last."""
    names = list(partitions)
    places = leaf_places([Form.of(name, log_heights) for name, log_heights in partitions.items()])
    return plan_above([[names[number] for number in leaf] for leaf in places])


def plan_above(leaves: Sequence[Sequence[str]]) -> tuple[TreeNode, ...]:
    """The nodes of a tree whose leaves have these children, by name: children before parents, the root last."""
    nodes = [TreeNode(f"{LEAF}-{i:05}", tuple(own)) for i, own in enumerate(leaves)]
    level, below = 1, [node.name for node in nodes]
    while len(below) > 1:
        made = [TreeNode(f"node-{level}-{i:05}", tuple(own)) for i, own in enumerate(in_fours(below))]
        nodes += made
        level, below = level + 1, [node.name for node in made]
    return (*nodes, TreeNode(ROOT, tuple(below)))


@dataclass(frozen=True)
class Kind:
    """What a node's key depends on, beside the key of the partitions."""

    leaves: tuple[tuple[Form, ...], ...]
    """The different leaves of the job, in order of their first one: all nodes have tables with room for each of them.
    Each by the forms of its places."""
    role: str | int
    """`INNER`, `ROOT`, `WRAP`, or the number of the leaf among `leaves`."""

    @property
    def room(self) -> int:
        """Children that the node has room for."""
        return 1 if self.role in (ROOT, WRAP) else MOST_CHILDREN

    @property
    def is_leaf(self) -> bool:
        return isinstance(self.role, int)

    def of_role(self, role: str | int) -> Kind:
        """The kind of another node of the same job."""
        return replace(self, role=role)

    def to_record(self) -> list[Any]:
        """The kind as plain data."""
        forms = [[[encode_heights(f.log_heights), f.name_length] for f in leaf] for leaf in self.leaves]
        return [forms, self.role]

    @classmethod
    def from_record(cls, record: Any, key: MultilinearKey, what: str) -> Kind:
        """Read what `to_record` wrote of a node over partitions under `key`. Raises FormatError."""
        if not isinstance(record, list) or len(record) != 2 or not isinstance(record[0], list):
            raise FormatError(f"{what}: not the kind of a node")
        leaves, role = record
        if not 1 <= len(leaves) <= MOST_LEAVES or not (
            0 <= role < len(leaves) if type(role) is int else role in (INNER, ROOT, WRAP)
        ):
            raise FormatError(f"{what}: not the kind of a node")
        return cls(tuple(_leaf(leaf, key, what) for leaf in leaves), role)


def _leaf(record: Any, key: MultilinearKey, what: str) -> tuple[Form, ...]:
    if not isinstance(record, list) or len(record) != MOST_CHILDREN:
        raise FormatError(f"{what}: not the kind of a leaf")
    forms = []
    for item in record:
        if (
            not isinstance(item, list)
            or [type(part) for part in item] != [bytes, int]
            or not 1 <= item[1] <= MAX_LENGTH
        ):
            raise FormatError(f"{what}: not the form of a partition")
        forms.append(Form(decode_heights(item[0]), item[1]))
        if not heights_fit(key, forms[-1].log_heights):
            raise FormatError(f"{what}: not the heights of a partition under this key")
    return tuple(forms)


def kinds_of(nodes: Sequence[TreeNode], partitions: Mapping[str, LogHeights]) -> dict[str, Kind]:
    """The kind of each node, by its name. `partitions` are the heights of all partitions, by name."""
    leaves = {
        node.name: leaf_forms([Form.of(name, partitions[name]) for name in node.children])
        for node in nodes
        if node.is_leaf
    }
    different = tuple(dict.fromkeys(leaves.values()))
    numbers = {leaf: number for number, leaf in enumerate(different)}
    kinds = {node.name: Kind(different, INNER) for node in nodes}
    kinds |= {name: Kind(different, numbers[leaf]) for name, leaf in leaves.items()}
    return kinds | {name: Kind(different, name) for name in (ROOT, WRAP) if name in kinds}
