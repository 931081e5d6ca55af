"""The anchor: values that fix one trace per partition before the challenge of the global buses is drawn.

Beyond unique decoding a root binds its prover to a list of candidates, not to one trace. Over many partitions the lists
multiply, and a prover that saw the buses' challenge could choose among all combinations. So a partition of a key with
global buses first opens its main columns at one point: eta and delta are drawn from all its public data and its main
root, and for each height h the job's challenge absorbs the value at eta of the combination

    g_h = sum of delta^k f_k over the main columns f_k of this height

Two different candidates have the same values with a probability of at most (columns + rows) / |F|. DEEP proves that the
values are those of the trace (docs/stark-protocol.md, sections 10 and 12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from distprove.stark.extension import Extender, Extension, Opening
from distprove.stark.field import BASIS, Ext, Words, e_join, e_mul, element, ext_powers
from distprove.stark.shape import ProofShape


@dataclass
class Anchor:
    """The anchor of a committed partition. Its combinations of secret columns never leave the prover."""

    point: Ext
    """The point eta."""
    values: Words
    """The public values g_h(eta), (heights, 3), the tallest height first."""
    combinations: Mapping[int, Extension] = field(repr=False)
    """The combinations by height. Each g_h has three base columns, its coordinates."""

    @property
    def nbytes(self) -> int:
        return sum(e.nbytes for e in self.combinations.values())

    def opening(self, shape: ProofShape, height: int, weights: Words) -> Opening:
        """The term of this height in DEEP. `weights` holds all powers of gamma of the proof."""
        weight = element(weights[shape.anchor_weight(height)])
        value = element(self.values[shape.distinct_heights.index(height)])
        coordinates = np.array([e_mul(weight, unit) for unit in BASIS], dtype=np.uint64)
        return Opening(self.point, [self.combinations[height].columns()], coordinates, e_mul(weight, value))


def make_anchor(extender: Extender, shape: ProofShape, main: Sequence[Extension], eta: Ext, delta: Ext) -> Anchor:
    """Combine the committed main columns of each height and evaluate the combinations at eta.

    `main` holds the extensions of all tables, in the key's order.
    """
    combined = {
        height: extender.combine([main[i] for i in tables], ext_powers(delta, sum(main[i].width for i in tables)))
        for height, tables in shape.tables_by_height.items()
    }
    opened = extender.evaluate_at(list(combined.values()), eta, next_row=[()] * len(combined))
    values = np.array([e_join(v.tolist()) for v in opened], dtype=np.uint64)
    return Anchor(eta, values, combined)
