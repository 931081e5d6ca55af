"""The two sets of tables of `file-root`, which prove the same.

| layout | tables | made for |
|---|---|---|
| wide | `file_root_tables`: a row per round, degree 3 | blow-up 2, the fastest proofs |
| narrow | `file_root_narrow`: four rows per round, degree 5 | blow-up 4, the smallest ones |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, CppRows
from distprove.stark.programs import file_root_narrow, file_root_tables, keccak_rounds, keccak_slices
from distprove.stark.programs.file_root_tables import (
    DIGEST_WORDS,
    FACTS,
    LEVELS,
    TAIL_ROWS,
    TAIL_WORDS,
    Words,
    edge_columns,
)
from distprove.stark.statement import Boundary, PublicRef
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

Bytes = NDArray[np.uint8]
_ROOT = tuple(PublicRef("root", k) for k in range(DIGEST_WORDS))


class Layout(ABC):
    """Tables that prove a file's root. The public values are the same, but for the order of the root's bytes."""

    tables: tuple[Air, ...]
    buses: tuple[Bus, ...]
    rows: CppRows
    root: tuple[Boundary, ...]
    """What the statement takes from the bus of nodes."""

    @abstractmethod
    def parts(self, digests: Bytes) -> Words:
        """The numbers that stand for digests, (n, DIGEST_WORDS), on the bus and as the public value `root`. `digests`
        has shape (n, 32)."""

    @abstractmethod
    def root_bytes(self, parts: Sequence[int]) -> bytes:
        """The digest whose `parts` these are."""

    @abstractmethod
    def log_heights(self, permutations: int) -> tuple[int, ...]:
        """log2 of the tables' rows for so many permutations."""

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        """The preprocessed columns of tables."""
        return {"edge": np.arange(LEVELS, dtype=np.uint64).reshape(1, LEVELS)}

    def inputs(self, digests: Bytes, leaves: int, edge: Sequence[bytes], tail: Bytes | None) -> dict[str, NDArray[Any]]:
        """The arrays that `main` takes besides messages and places.

        `digests` are those of the messages, (n, 32), and `leaves` is the file's number of leaves. `edge` holds the last
        node of each level if this partition passes them up, `tail` the last leaf's padded message if it has that leaf.
        """
        joined = np.frombuffer(b"".join(edge), dtype=np.uint8).reshape(-1, 32)
        return {"edge": edge_columns(leaves, self.parts(joined) if edge else None)}

    @abstractmethod
    def main(
        self, backend: Backend, inputs: Mapping[str, Array], leaves: tuple[int, int], rows: int, *, has_tail: bool
    ) -> list[Array]:
        """The main columns of the tables, from `inputs`, "messages" (17, n) and "places" (2, n). `leaves` is the first
        leaf's number and one more than the last one's. `rows` are those of the table of permutations, a power of two,
        of which the last may be idle."""


class WideLayout(Layout):
    tables = (file_root_tables.HashAir(), file_root_tables.EdgeAir(), file_root_tables.TailAir())
    buses = (file_root_tables.NODES, FACTS, file_root_tables.TAIL)
    rows = keccak_rounds.ROWS
    root = (Boundary(file_root_tables.NODES.name, (LEVELS, 0, *_ROOT), -1, "first"),)

    def parts(self, digests: Bytes) -> Words:
        return np.ascontiguousarray(digests).view("<u4").astype(np.uint64)

    def root_bytes(self, parts: Sequence[int]) -> bytes:
        return np.array(parts, dtype="<u4").tobytes()

    def log_heights(self, permutations: int) -> tuple[int, ...]:
        return tuple(rows.bit_length() - 1 for rows in (keccak_rounds.rows_for(permutations), LEVELS, TAIL_ROWS))

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        tail = np.zeros((2, TAIL_ROWS), dtype=np.uint64)
        tail[0, 0] = tail[1, TAIL_WORDS - 1] = 1
        return {**super().preprocessed(), "tail": tail}

    def inputs(self, digests: Bytes, leaves: int, edge: Sequence[bytes], tail: Bytes | None) -> dict[str, NDArray[Any]]:
        shown = file_root_tables.leaf_messages(b"")[0] if tail is None else tail
        columns = file_root_tables.tail_columns(shown, tail is not None)
        return {**super().inputs(digests, leaves, edge, tail), "tail": columns}

    def main(
        self, backend: Backend, inputs: Mapping[str, Array], leaves: tuple[int, int], rows: int, *, has_tail: bool
    ) -> list[Array]:
        columns = file_root_tables.hash_columns(
            backend, inputs["messages"], inputs["places"], leaves, rows, has_tail=has_tail
        )
        return [columns, inputs["edge"], inputs["tail"]]


class NarrowLayout(Layout):
    tables = (file_root_narrow.NarrowHashAir(), file_root_narrow.NarrowEdgeAir())
    buses = (file_root_narrow.NODES, FACTS, keccak_slices.MOVED)
    rows = keccak_slices.ROWS
    root = tuple(
        Boundary(file_root_narrow.NODES.name, (LEVELS, 0, part, word), -1, "first") for part, word in enumerate(_ROOT)
    )

    def parts(self, digests: Bytes) -> Words:
        return file_root_narrow.digest_parts(digests)

    def root_bytes(self, parts: Sequence[int]) -> bytes:
        return file_root_narrow.digest_of(parts)

    def log_heights(self, permutations: int) -> tuple[int, ...]:
        return tuple(rows.bit_length() - 1 for rows in (keccak_slices.rows_for(permutations), LEVELS))

    def inputs(self, digests: Bytes, leaves: int, edge: Sequence[bytes], tail: Bytes | None) -> dict[str, NDArray[Any]]:
        return {**super().inputs(digests, leaves, edge, tail), "digests": np.ascontiguousarray(self.parts(digests).T)}

    def main(
        self, backend: Backend, inputs: Mapping[str, Array], leaves: tuple[int, int], rows: int, *, has_tail: bool
    ) -> list[Array]:
        columns = file_root_narrow.hash_columns(
            backend, inputs["messages"], inputs["digests"], inputs["places"], leaves, rows, has_tail=has_tail
        )
        return [columns, inputs["edge"]]


LAYOUTS: Mapping[str, type[Layout]] = {"wide": WideLayout, "narrow": NarrowLayout}
