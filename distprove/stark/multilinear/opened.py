"""The rows of committed trees at the queries, for the verifier of WHIR."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.arithmetic import Elements, Indices, Scalars
from distprove.stark.field import Words
from distprove.stark.merkle import TreeClaim, openings_hold
from distprove.stark.multilinear.params import Round
from distprove.stark.multilinear.proof import MultilinearProof, tree_shapes
from distprove.stark.multilinear.shape import Shape
from kernels.maths.distinct import distinct
from kernels.maths.query_paths import QueryPaths


class Opened(ABC):
    """Gives the rows at drawn indices. They may be used when `check` has been called."""

    @abstractmethod
    def main(self, indices: Indices) -> Scalars:
        """The rows of the main tree at the queries of the first round, (q, 2^k width)."""

    @abstractmethod
    def fixed(self, indices: Indices) -> Scalars | None:
        """The rows of the preprocessed tree where the queries of the first round meet it, (q, 2^k, width). None
        without preprocessed columns."""

    @abstractmethod
    def codeword(self, number: int, indices: Indices) -> Elements:
        """The leaves of the codeword of a later round at its queries, (q, 2^k, element)."""

    @abstractmethod
    def check(self) -> None:
        """The rows must be those that the roots bind."""


class OpenedRows(Opened):
    """The rows of a proof, whose trees open at all queries together. Raises InvalidProof."""

    def __init__(self, shape: Shape, proof: MultilinearProof) -> None:
        self._shape, self._proof = shape, proof
        self._queried: list[tuple[int, bytes, Indices]] = []
        """For each tree that was asked for its number, its root and the indices of its leaves."""

    def main(self, indices: Indices) -> Scalars:
        return self._rows(0, self._proof.root, indices)

    def fixed(self, indices: Indices) -> Scalars | None:
        if self._shape.preprocessed_tree is None:
            return None
        places = preprocessed_queries(self._shape, indices)
        rows = self._rows(1, self._shape.key.preprocessed_root, places)
        return rows.reshape(len(indices), -1, self._shape.preprocessed.width)

    def codeword(self, number: int, indices: Indices) -> Elements:
        first = 1 + (self._shape.preprocessed_tree is not None)
        rows = self._rows(first + number - 1, self._proof.roots[number - 1], indices)
        return rows.reshape(len(indices), -1, 3)

    def claims(self) -> list[tuple[int, TreeClaim, Indices]]:
        """The number of each tree that was asked for, its opening, and the indices of its leaves, query by query."""
        shapes = [tree for tree, _ in tree_shapes(self._shape)]
        return [(n, TreeClaim(shapes[n], root, self._proof.trees[n]), indices) for n, root, indices in self._queried]

    def check(self) -> None:
        for _, claim, indices in self.claims():
            if not openings_hold([claim], QueryPaths(indices, claim.shape.log_leaves)):
                raise InvalidProof("an opening does not match its commitment")

    def _rows(self, tree: int, root: bytes, indices: Indices) -> Words:
        """Each index's row. The proof must have as many rows as the indices are distinct leaves."""
        (rows,) = self._proof.trees[tree].rows
        met = distinct(indices)
        if len(rows) != len(met):
            raise InvalidProof("an opening of another number of rows than the queries meet")
        self._queried.append((tree, root, indices))
        found: Words = rows[np.searchsorted(met, indices)]
        return found


def preprocessed_queries(shape: Shape, indices: Indices) -> Indices:
    """The leaves of the preprocessed tree that the queries of the first round meet, 2^k for each query."""
    tree = shape.preprocessed_tree
    assert tree is not None, "a key without preprocessed columns has no tree"
    places: Indices = (fibre(indices, shape.rounds[0]) & ((1 << tree.log_leaves) - 1)).reshape(-1)
    return places


def fibre(indices: Indices, round_: Round) -> Indices:
    """The indices of the word that meet in each leaf, (q, 2^k)."""
    places: Indices = indices[:, None] + (np.arange(1 << round_.log_fold, dtype=np.int64) << round_.log_leaves)
    return places
