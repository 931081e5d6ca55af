"""Two factors of an elementwise product as flat arrays with steps, for kernels over two groups of axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernels.maths.babybear import Elements


@dataclass(frozen=True)
class Factor:
    """A factor: item (i, j) of the product takes its item i * outer + j * inner."""

    items: Elements
    """Flat. A factor that stays the same along an axis is not copied there."""
    outer: int
    inner: int


@dataclass(frozen=True)
class Broadcast:
    """Factors of a product of outer x inner items."""

    shape: tuple[int, ...]
    """Common axes of the product, without those of an item."""
    outer: int
    inner: int
    a: Factor
    b: Factor

    @classmethod
    def of(cls, a: Elements, b: Elements, item_axes: int) -> Broadcast:
        """Broadcast two arrays as NumPy does, over all but the last `item_axes` axes. Raises ValueError as NumPy."""
        own = [each.shape[: each.ndim - item_axes] for each in (a, b)]
        if own[0] == own[1] or not own[0] or not own[1]:  # what most products are
            shape, factors = own[0] or own[1], [Factor(flat(each), 0, int(each.ndim > item_axes)) for each in (a, b)]
            return cls(shape, 1, _count(shape), *factors)
        shape = np.broadcast_shapes(*own)
        padded = [(1,) * (len(shape) - len(sizes)) + sizes for sizes in own]
        # The axes are cut in two groups, so that within the second each factor varies over all axes or over none.
        varies = [[size > 1 for size in sizes] for sizes in padded]
        changes = [i for i in range(1, len(shape)) if any(each[i] != each[i - 1] for each in varies)]
        cut = changes[-1] if changes else 0
        factors = [_factor(each, sizes, shape, cut, item_axes) for each, sizes in zip((a, b), padded, strict=True)]
        return cls(shape, _count(shape[:cut]), _count(shape[cut:]), *factors)


def _factor(array: Elements, own: tuple[int, ...], shape: tuple[int, ...], cut: int, item_axes: int) -> Factor:
    item = array.shape[array.ndim - item_axes :]
    groups = []
    for part, whole in ((own[:cut], shape[:cut]), (own[cut:], shape[cut:])):
        # A group over which the factor varies only in part is copied.
        groups.append(part if part == whole or all(size == 1 for size in part) else whole)
    full = (*groups[0], *groups[1], *item)
    items = flat(np.broadcast_to(array.reshape(*own, *item), full))
    varies = [any(size > 1 for size in group) for group in groups]
    return Factor(items, _count(groups[1]) if varies[0] else 0, 1 if varies[1] else 0)


def _count(sizes: tuple[int, ...]) -> int:
    return math.prod(sizes)


def flat(array: Elements) -> Elements:
    """Return the items in C order, as native functions take them; they refuse other types than uint32."""
    return np.ascontiguousarray(array).reshape(-1)
