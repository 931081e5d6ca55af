"""Parts of traces that have commitments of their own: preprocessed traces and cached mains."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from distprove.errors import UsageError
from distprove.stark.openvm.commitment import Stacked, commit
from distprove.stark.openvm.memory import commitment_bytes
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.traces import CachedMain
from kernels.interface.openvm import OpenVmKernels

MOST_PARTS = 16
"""Most parts that are kept."""


class PartCommitments:
    """Commits to parts, and keeps those used last in the backend's memory for further proofs.

    A key's preprocessed traces are the same in all proofs, and a program's cached trace in all its segments.
    """

    def __init__(self, kernels: OpenVmKernels, most: int = MOST_PARTS) -> None:
        """`most` is the number of parts that are kept."""
        self._kernels = kernels
        self._most = most
        self._kept: list[tuple[SystemParams, CachedMain, Stacked]] = []
        """The one used last is at the end."""

    def make_room(self, room: int, kept: Iterable[bytes]) -> None:
        """Keep the parts with the roots `kept`, and of the others those used last, of at most `room` bytes."""
        wanted, left, found = frozenset(kept), room, list[tuple[SystemParams, CachedMain, Stacked]]()
        for params, part, stacked in reversed(self._kept):
            needed = part.root.tobytes() in wanted
            left -= 0 if needed else commitment_bytes(params, stacked.layout)
            if needed or left >= 0:
                found.append((params, part, stacked))
        self._kept = found[::-1]

    def commit(self, params: SystemParams, part: CachedMain, air: str) -> Stacked:
        """Commit to a part of the AIR with this name. Raises UsageError if its root is another than stated."""
        for i, (under, kept, stacked) in enumerate(self._kept):
            if under == params and _same(kept, part):
                self._kept.append(self._kept.pop(i))
                return stacked
        stacked = commit(self._kernels, params, [self._kernels.load(part.columns)])
        if not np.array_equal(stacked.tree.root, part.root):
            raise UsageError(f"a preprocessed or cached trace of {air} has not the commitment that is stated for it")
        self._kept = [*self._kept, (params, part, stacked)][-self._most :] if self._most else []
        return stacked


def _same(a: CachedMain, b: CachedMain) -> bool:
    return np.array_equal(a.root, b.root) and (a.columns is b.columns or np.array_equal(a.columns, b.columns))
