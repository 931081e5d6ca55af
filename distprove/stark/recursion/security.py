"""The bits of a tree of proofs, layer by layer: a root has those of its weakest layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.security import job_security


@dataclass(frozen=True)
class Layer:
    """The proofs of one key in a tree."""

    program: str
    proofs: int
    bits: float
    weakest: str
    """Name of the row of fewest bits."""


def tree_layers(
    key: MultilinearKey, partitions: Sequence[LogHeights], nodes: Sequence[tuple[MultilinearKey, int]]
) -> list[Layer]:
    """The layers of a tree from its segments, of these heights, up to the root. `nodes`: keys of nodes, with their
    numbers of proofs.

    A digest of Poseidon2 joins the layers, whose bits are the row "hash" of each.
    """
    reports = [(key, len(partitions), job_security(key, partitions))]
    for node, count in nodes:
        reports.append((node, count, job_security(node, [node.fixed_heights] * count)))
    return [Layer(own.program, count, report.bits, report.weakest.name) for own, count, report in reports]
