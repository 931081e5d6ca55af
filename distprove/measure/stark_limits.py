"""Minimum time of each stage of a STARK proof: the time of the operation that bounds it on the hardware.

Extensions are bound by butterflies or by memory, whichever takes longer, trees by permutations, and stages that only
read and write by memory. Constraints count as memory too, a lower bound that ignores their arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from distprove.stark.merkle import TreeShape
from distprove.stark.shape import ROUNDS, ProofShape
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class Rates:
    """What a device reaches at most in a second, by microkernels that use registers only, and by copies."""

    butterflies: float
    """Goldilocks butterflies: one product, one addition, one subtraction."""
    permutations: float
    """Keccak-f[1600] permutations."""
    bandwidth: float
    """Bytes that a copy within device memory reads and writes together."""


RATES = {"H200": Rates(4.96e11, 3.43e9, 4.293e12)}
"""The rates of a device by its name. The SM clock was 1980 MHz."""
RATE_LANES = 17
WORD = 8
EXTENSION = 3


@dataclass(frozen=True)
class StageLimit:
    """The minimum seconds that a stage can take, and the operation that bounds it."""

    seconds: float
    operation: str


def stage_limits(shape: ProofShape, backend: Backend) -> dict[str, StageLimit]:
    """The limits by stage name; empty where the device's rates are not known."""
    name = backend.info().name
    rates = next((rates for device, rates in RATES.items() if device in name), None)
    return {} if rates is None else dict(_limits(shape, rates))


def _limits(shape: ProofShape, rates: Rates) -> Iterator[tuple[str, StageLimit]]:
    blowup, airs = shape.key.params.blowup, shape.airs
    tables = list(zip(shape.tables, airs, strict=True))

    def memory(words: float) -> StageLimit:
        return StageLimit(WORD * words / rates.bandwidth, "memory")

    def extending(round_index: int) -> StageLimit:
        """The limit of an extension: an inverse transform of each column and a forward one for each coset."""
        parts = [(t.widths[round_index] << t.log_height, t.log_height) for t, _ in tables]
        computing = sum(values * (1 + blowup) / 2 * log_height for values, log_height in parts) / rates.butterflies
        moving = memory(sum(values * (1 + blowup) for values, _ in parts))
        return StageLimit(computing, "butterflies") if computing > moving.seconds else moving

    def hashing(trees: list[TreeShape]) -> StageLimit:
        return StageLimit(sum(map(tree_permutations, trees)) / rates.permutations, "permutations")

    rows = [(1 << t.log_height, t, air) for t, air in tables]
    yield "trace", memory(sum(n * air.main_width for n, _, air in rows))
    for index, name in enumerate(ROUNDS):
        if index and name in shape.rounds:  # preprocessed columns belong to the key and are not extended in a proof
            yield f"{name}_lde", extending(index)
            yield f"{name}_tree", hashing([shape.rounds[name]])
    yield (
        "constraints",
        memory(sum(n * air.quotient_chunks * (sum(t.widths[:3]) + EXTENSION) for n, t, air in rows)),
    )
    yield "openings", memory(sum(n * sum(t.widths) for n, t, _ in rows))
    codewords = sum(EXTENSION * blowup << height for height in shape.distinct_heights)
    yield "deep", memory(sum(n * blowup * sum(t.widths) for n, t, _ in rows) + codewords)
    if shape.steps:
        yield "fri_tree", hashing(shape.fri_trees)
        folded = sum((EXTENSION * blowup << s.log_reached) * ((1 << s.log_arity) + 1) for s in shape.steps)
        yield "fri_fold", memory(folded)


def tree_permutations(shape: TreeShape) -> int:
    """Number of Keccak-f[1600] permutations of a tree: for its leaves of each height, for its nodes, and one more for
    each leaf of a shorter matrix, which enters above the lowest level."""
    total = (1 << shape.log_leaves) - 1
    for height in {log for log, _ in shape.matrices}:
        widths = [width for log, width in shape.matrices if log == height]
        header = -(-(1 + len(widths)) // 2)
        leaves = 1 << height
        total += leaves * ((header + sum(widths)) // RATE_LANES + 1) + (leaves if height < shape.log_leaves else 0)
    return total
