"""The anchor: what fixes one trace per partition before the challenge of the global buses is drawn.

Beyond unique decoding a root binds its prover to a list of candidates, not to one trace. Over many partitions the lists
multiply, and whoever saw the buses' challenge could choose among all combinations. So a partition of a key with global
buses first answers a question about its main columns: eta and delta are drawn from all that is public of it and from
its main root, and for each height h the job's list takes the value at eta of the combination

    g_h = sum of delta^k f_k over the main columns f_k of this height

Two candidates that differ share all values with a probability of at most (columns + rows) / |F|. DEEP shows that the
values are those of the trace (docs/stark-protocol.md, sections 10 and 12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.extension import Extender, Extension, Opening
from distprove.stark.field import Ext, Words, e_add, e_mul, ext_powers
from distprove.stark.shape import ProofShape

BASIS: tuple[Ext, Ext, Ext] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@dataclass
class Anchor:
    """The combinations of a committed partition. They are made of its secret columns and never leave the prover."""

    point: Ext
    """eta."""
    values: Words
    """(heights, 3): g_h(eta), the tallest height first. Public."""
    combinations: Mapping[int, Extension] = field(repr=False)
    """The combinations by height: each g_h as three base columns, its coordinates."""

    @property
    def nbytes(self) -> int:
        return sum(e.nbytes for e in self.combinations.values())

    def opening(self, shape: ProofShape, height: int, weights: Words) -> Opening:
        """DEEP's term of this height. `weights`: all powers of gamma of the proof."""
        weight, value = (_ext(w) for w in (weights[shape.anchor_weight(height)], self.values[_place(shape, height)]))
        coordinates = np.array([e_mul(weight, unit) for unit in BASIS], dtype=np.uint64)
        return Opening(self.point, [self.combinations[height].columns()], coordinates, e_mul(weight, value))


def make_anchor(extender: Extender, shape: ProofShape, main: Sequence[Extension], eta: Ext, delta: Ext) -> Anchor:
    """Combine the committed main columns of each height and evaluate the combinations at eta.

    `main`: the extensions of all tables, in the key's order.
    """
    combined = {
        height: extender.combine([main[i] for i in tables], ext_powers(delta, sum(main[i].width for i in tables)))
        for height, tables in shape.tables_by_height.items()
    }
    opened = extender.evaluate_at(list(combined.values()), eta, next_row=[()] * len(combined))
    values = np.array([_from_coordinates(v) for v in opened], dtype=np.uint64)
    return Anchor(eta, values, combined)


def _from_coordinates(values: Words) -> Ext:
    """The element a + b x + c x^2 of values (3, 3), each of a, b, c itself an element of F."""
    total: Ext = (0, 0, 0)
    for value, unit in zip(values, BASIS, strict=True):
        total = e_add(total, e_mul(_ext(value), unit))
    return total


def _place(shape: ProofShape, height: int) -> int:
    return shape.distinct_heights.index(height)


def _ext(words: Words) -> Ext:
    a, b, c = words.tolist()
    return a, b, c
