"""The bits of a tree of proofs, layer by layer: a root has those of its weakest layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.security import job_security
from distprove.stark.multilinear.shape import Shape
from distprove.stark.security import two_places

FEW_BITS = 64
"""Keys of fewer bits are not for use. Their nodes have few queries whatever the blow-up, and the lowest one."""


@dataclass(frozen=True)
class Layer:
    """The proofs of one key in a tree."""

    program: str
    proofs: int
    cells: int
    """Cells that all of them commit to."""
    bits: float
    weakest: str
    """Name of the row of fewest bits."""

    def to_record(self) -> dict[str, Any]:
        """The layer as plain data, for reports."""
        bits = two_places(self.bits)
        counts = {"program": self.program, "proofs": self.proofs, "cells": self.cells}
        return {**counts, "bits": bits, "weakest": self.weakest}


def tree_layers(
    key: MultilinearKey, partitions: Sequence[LogHeights], nodes: Sequence[tuple[MultilinearKey, int]]
) -> list[Layer]:
    """The layers of a tree from its segments, of these heights, up to the root. `nodes`: keys of nodes, with their
    numbers of proofs.

    A digest of Poseidon2 joins the layers, whose bits are the row "hash" of each.
    """
    return [_layer(key, partitions), *node_layers(nodes)]


def node_layers(nodes: Sequence[tuple[MultilinearKey, int]]) -> list[Layer]:
    """The layers of nodes, given their keys with their numbers of proofs."""
    return [_layer(node, [node.fixed_heights] * count) for node, count in nodes]


def _layer(key: MultilinearKey, partitions: Sequence[LogHeights]) -> Layer:
    report = job_security(key, partitions)
    counts = Counter(partitions)
    cells = sum(count * Shape(key, heights).cells for heights, count in counts.items())
    return Layer(key.program, len(partitions), cells, report.bits, report.weakest.name)


def bits_of(layers: Sequence[Layer]) -> float:
    """Bits of the weakest layer, rounded down to two places."""
    return two_places(min(layer.bits for layer in layers))
