"""The CUDA implementation of `kernels.interface.openvm_fractions`, with the transcript on the device.

All launches of a reduction are queued without a wait. Besides the leaves, of 20 bytes, a tree takes 12 bytes for each.
Padding is not stored.
"""

from __future__ import annotations

import numpy as np

from kernels.cuda.babybear import poseidon2_constants
from kernels.cuda.device import ByValue, Device, grid_for
from kernels.cuda.openvm.sponge import SPONGE, resumed, written
from kernels.cuda.openvm.sums import THREADS, GridSums
from kernels.errors import SizeError
from kernels.host.babybear import canonical, montgomery
from kernels.interface.arrays import Array
from kernels.interface.openvm_fractions import FractionKernels, FractionTree, ReducedFractions
from kernels.interface.sponge import Sponge
from kernels.maths.babybear import DEGREE, Elements, ext
from kernels.source import KernelSource

BLOCK_THREADS = 512
"""Threads of a block that works alone."""
SOURCE = KernelSource("openvm_fractions", (("THREADS", str(THREADS)), ("BLOCK_THREADS", str(BLOCK_THREADS))))
LEVELS = 3
"""Layers that one launch adds up, 3 to 7: from the third on every lane computes each, and ever fewer keep theirs."""
LOG_ALONE = 10
"""log2 of the most pairs of rows of a round that one block does alone."""
COORDINATES = 32
"""Most coordinates of a point. Must equal that in openvm_fractions.cu."""

STATE = np.dtype(
    [
        ("sponge", SPONGE),
        ("sent", np.uint32),
        ("unused", np.uint32),
        *((name, np.uint32, (DEGREE,)) for name in ("numerator", "denominator", "batch", "claim", "scale")),
        *((name, np.uint32, (COORDINATES, DEGREE)) for name in ("point", "inverse", "drawn", "rest")),
    ]
)
"""`struct LayerState`."""
REDUCTION = np.dtype(
    [
        *(
            (name, np.uint64)
            for name in ("with", "state", "sent", "numerators", "denominators", "tree", "paddings", "eq")
        ),
        *((name, np.uint64) for name in ("high", "log_leaves", "count", "restored")),
        ("place", np.uint64, (COORDINATES,)),
    ]
)
"""`struct Reduction`."""


class CudaFractions(FractionKernels):
    """The kernels of one device, on its compute stream. `log_alone` is for tests."""

    def __init__(self, device: Device, log_alone: int = LOG_ALONE) -> None:
        self._device, self._log_alone = device, log_alone

    def prepare(self) -> None:
        """Begin to compile the kernels in the background."""
        self._device.prepare(SOURCE)

    def tree(self, numerators: Array, denominators: Array, log_size: int, padding: Elements) -> CudaFractionTree:
        return CudaFractionTree(self._device, (numerators, denominators), log_size, padding, self._log_alone)


class CudaFractionTree(FractionTree):
    """A tree of 2^n leaves, whose layers are in one array.

    If n > 3, layer n - 1 is never stored, and layer n - 2 only when the layers above it are done, in their place.
    """

    def __init__(
        self, device: Device, leaves: tuple[Array, Array], log_size: int, padding: Elements, log_alone: int
    ) -> None:
        if log_size >= COORDINATES:
            raise SizeError(f"2^{log_size} fractions; less than 2^{COORDINATES}")
        self._device, self._log_alone, self._leaves, self._log_leaves = device, log_alone, leaves, log_size
        self._count = count = int(leaves[0].shape[0])
        if 2 * count < 1 << log_size:
            raise SizeError(f"{count} fractions of 2^{log_size}; at least half of them must be given")
        # Layer k has 1 / 2^(n - k) of the fractions. The folded rows that come in its place need an even number.
        sizes = [2 * (each + each % 2) for each in (-(-count >> (log_size - k)) for k in range(log_size))]
        places = np.cumsum([0, *sizes])[:-1]
        size, planes = sum(sizes), 4
        self._is_large = log_size > 3
        if self._is_large:
            # Layer n - 2 comes to lie over those above it. What it folds to has a part of its own.
            second = max(int(places[-2]), sizes[-2])
            places[-2:] = 0, second
            size, planes = second + 4 * -(-count >> 4), 4 if count % 4 else 3
        # All of it has room for the planes of the leaves' rows, folded once.
        self._tree = device.empty((max(size, planes * -(-count >> 2)), DEGREE), np.uint32)
        self._paddings = device.empty((log_size + 1, DEGREE), np.uint32)
        of_leaves = device.upload(montgomery(padding))
        device.kernel(SOURCE, "openvm_paddings").launch(1, 1, (of_leaves, self._paddings, np.uint32(log_size)))
        self._reduction = np.zeros((), dtype=REDUCTION)
        arrays = (*leaves, self._tree, self._paddings)
        for name, array in zip(("numerators", "denominators", "tree", "paddings"), arrays, strict=True):
            self._reduction[name] = device.address(array)
        self._reduction["log_leaves"], self._reduction["count"] = log_size, count
        self._reduction["place"][:log_size] = places

        k = log_size
        while k:
            levels = min(LEVELS, k)
            self._add_up(ByValue(self._reduction), k, levels)
            k -= levels
        if log_size:
            self.root = canonical(device.download(self._tree[:4]).reshape(2, 2, DEGREE)[:, 0])
        else:
            numerator, denominator = (canonical(device.download(array)) for array in leaves)
            self.root = np.concatenate((ext(numerator), denominator))

    def _add_up(self, reduction: ByValue, k: int, levels: int) -> None:
        """Queue so many layers above layer k."""
        items = -(-self._count >> (self._log_leaves + 2 - k))
        kernel = self._device.kernel(SOURCE, "openvm_fraction_levels")
        kernel.launch(grid_for(items, THREADS), THREADS, (reduction, np.uint32(k), np.uint32(levels)))

    def reduce(self, sponge: Sponge) -> ReducedFractions:
        device, n = self._device, self._log_leaves
        count = 3 * n * (n - 1) // 2 + 4 * n
        state = np.zeros((), dtype=STATE)
        state["sponge"] = written(sponge)
        kept = device.upload(state.reshape(1).view(np.uint32))
        sent = device.empty((max(1, count), DEGREE), np.uint32)
        high = 2 << (n // 2)
        eq, permutation = device.empty((3 * high, DEGREE), np.uint32), device.upload(poseidon2_constants())
        given = self._reduction.copy()
        for name, array in (("with", permutation), ("state", kept), ("sent", sent), ("eq", eq)):
            given[name] = device.address(array)
        given["high"], given["restored"] = high, 1
        reduction = ByValue(given)

        of_stored = GridSums(device, SOURCE, "openvm_layer_round", 2)
        of_above = GridSums(device, SOURCE, "openvm_round_above", 2)
        # 1. Layers from the root on. One block does those whose rounds are all small, and begins the next one. Large
        # rounds are launches. What is left of a layer goes with those behind it.
        v = round_ = 0
        while v < n:
            last = v
            while last + 1 < n and not self._large(last + 1):
                last += 1
            sizes = map(np.uint32, (v, round_, last, last + 1 < n))
            device.kernel(SOURCE, "openvm_layers").launch(1, BLOCK_THREADS, (reduction, *sizes))
            v, round_ = last + 1, 0
            while v < n and round_ < self._large(v):
                if self._is_large and v == n - 3 and round_ == 0:
                    self._add_up(reduction, n, 2)  # stores layer n - 2
                launches = of_above if self._is_large and v == n - 2 and round_ < 2 else of_stored
                rows = -(-self._count >> (n - v + round_))
                launches.launch(rows, (reduction, np.uint32(v), np.uint32(round_)))
                round_ += 1

        # 2. One wait for all that was sent and drawn.
        words = canonical(device.download(sent))[:count]
        found = device.download(kept).view(STATE)[0]
        resumed(sponge, found["sponge"])
        claims, rounds, at = [], [], 0
        for v in range(n):
            if v:
                rounds.append(words[at : at + 3 * v].reshape(v, 3, DEGREE))
            claims.append(words[at + 3 * v : at + 3 * v + 4])
            at += 3 * v + 4
        point = tuple(canonical(found["point"][:n]))
        return ReducedFractions(np.array(claims, dtype=np.uint32).reshape(-1, 4, DEGREE), tuple(rounds), point)

    def _large(self, v: int) -> int:
        """How many rounds of the layer of v variables are launches of many blocks.

        Two at least if the layer is never stored, and one if it is stored before them.
        """
        least = {2: 2, 3: 1}.get(self._log_leaves - v, 0) if self._is_large else 0
        return max(least, v - 1 - self._log_alone)
