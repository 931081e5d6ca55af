"""The Merkle root of a file, by Keccak-256, cut into partitions that share a bus.

The statement, for a root, a length and a number of leaves: the prover knows a file of exactly this length whose tree,
as `file_tree` defines it (RFC 6962's over chunks of 128 bytes), has this root. Each leaf and each node takes one
permutation.

Why it holds. The bus `nodes` carries (level, index, digest). A leaf sends (0, index), a node receives (l - 1, 2 i) and
(l - 1, 2 i + 1) and sends (l, i), and the statement receives (32, 0, root). Only the statement receives without
sending, and levels rise by one, so every permutation that takes part has its own place in the one tree below the root:
nothing can be sent that is not used, nor used twice. Where a node has no second child, a row of `edge` passes the first
one up. These places follow from the number of leaves n alone: on a level of m nodes with m odd, it is the last node.
Leaves are numbered by a counter that runs on from partition to partition (`chain`), from 0 to n (bus `facts`), so their
indices are 0 to n - 1, each once. With no leaf beyond n, a place that may be passed up cannot hold a node instead,
because all of its right half would lie beyond n; and elsewhere nothing may be passed up. So the tree has the only right
shape.

There are two layouts of the tables (`file_root_layouts`); what follows speaks of the wide one, and `file_root_narrow`
says what differs in the other.

Every leaf but the last has 128 bytes. The table `tail` takes the message of leaf n - 1, finds where its padding begins,
and proves that the length is 128 (n - 1) + c with 1 <= c <= 128, or c = 0 when n = 1. It does so in one partition of
the job, because the statement sends the length once. A padding permutation sends and receives nothing; a permutation
that the table's end cuts off must be a padding one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError, UsageError
from distprove.stark.air import Air, Bus, CppRows
from distprove.stark.heights import tallest
from distprove.stark.program import Cut, Program, Slice, Trace
from distprove.stark.programs.file_root_layouts import LAYOUTS
from distprove.stark.programs.file_root_tables import (
    DIGEST_WORDS,
    FACT_END,
    FACT_LENGTH,
    FACT_START,
    FACTS,
    LEVELS,
    leaf_messages,
    node_messages,
)
from distprove.stark.programs.file_tree import (
    CHUNK,
    FileTree,
    file_length,
    leaf_count,
    leaves_of,
    level_above,
    read_slice,
)
from distprove.stark.programs.registry import PROGRAMS
from distprove.stark.statement import Boundary, PublicRef, Statement
from kernels.cpu.keccak import keccak256
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

PIECES = 64
"""Minimum number of subtrees in a partition. Files are cut at the ends of subtrees, so that the longest partition is at
most 1/64 above the mean."""


class FileRoot(Program):
    """The program `file-root`. Partitions hash consecutive parts of the file, and each its share of the nodes above."""

    name = "file-root"
    compared = ("file",)

    def __init__(self, file: str = "", layout: str = "wide") -> None:
        """`file` is the path of the file to hash. A verifier needs none. Raises UsageError for an unknown layout."""
        PROGRAMS["file-root"].check(layout=layout)
        self.file, self.layout = file, layout
        self._layout = LAYOUTS[layout]()

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"layout": self.layout}

    @property
    def tables(self) -> Sequence[Air]:
        return self._layout.tables

    @property
    def buses(self) -> Sequence[Bus]:
        return self._layout.buses

    @property
    def row_functions(self) -> Sequence[CppRows]:
        return (self._layout.rows,)

    @property
    def statement(self) -> Statement:
        return Statement(
            public=(("root", DIGEST_WORDS), ("length", 1), ("leaves", 1), ("leaf_start", 1), ("leaf_end", 1)),
            same=("root", "length", "leaves"),
            chain=(("leaf_end", "leaf_start"),),
            boundary=(
                *self._layout.root,
                Boundary(FACTS.name, (FACT_START, PublicRef("leaf_start")), 1, "first"),
                Boundary(FACTS.name, (FACT_START, 0), -1, "first"),
                Boundary(FACTS.name, (FACT_END, PublicRef("leaf_end")), 1, "last"),
                Boundary(FACTS.name, (FACT_END, PublicRef("leaves")), -1, "last"),
                Boundary(FACTS.name, (FACT_LENGTH, PublicRef("length")), 1, "first"),
            ),
        )

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return self._layout.preprocessed()

    @property
    def counts(self) -> Sequence[int]:
        """The root of the file is the same however it is cut, down to one chunk of it."""
        return range(1, max(1, self._cuts(1)[0]) + 1)

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        """log2 of the tables' rows in each partition, from the file's length alone. Raises UsageError, InputError."""
        _, _, cuts = self._cuts(partitions)
        return [self._layout.log_heights(stop - start + node_count(start, stop)) for start, stop in pairwise(cuts)]

    def check_job(self, partitions: int | None) -> None:
        self._cuts(partitions or 1)

    def slices(self, partitions: int) -> list[Slice]:
        """Cut the file into partitions. Reads the whole file once, for its root; partitions then read their parts."""
        leaves, level, cuts = self._cuts(partitions)
        path = Path(self.file).absolute()
        tree = FileTree(path, level)
        if tree.leaves != leaves:
            raise InputError(f"{path}: the file's length changed while it was read")
        common = {"path": str(path), "length": tree.length, "root": tree.root, "level": level}
        out = []
        for k, (start, stop) in enumerate(pairwise(cuts)):
            roots = b"".join(tree.node(level, i) for i in range(start >> level, -(-stop >> level)))
            part = {"start": start, "stop": stop, "check": keccak256(roots), "edge": []}
            part["nodes"] = [
                (height, index, tree.node(height - 1, 2 * index) + tree.node(height - 1, 2 * index + 1))
                for height, index in nodes_across(start, stop, leaves)
            ]
            if stop == leaves:
                part["edge"] = [tree.node(height, (leaves - 1) >> height) for height in range(LEVELS)]
            out.append(Slice(f"part-{k:04}", {**common, **part}))
        return out

    def levelled(self, cut: Cut, kinds: int = 1) -> Cut:
        """Every partition with as many permutations as the longest, the further ones idle."""
        heights = tallest(self.log_heights(len(cut.slices)))
        slices = [Slice(part.name, {**part.source, "log_rows": heights[0]}) for part in cut.slices]
        return Cut(slices, [heights] * len(slices), cut.output)

    def _cuts(self, partitions: int) -> tuple[int, int, list[int]]:
        """The file's number of leaves; a level; and the leaves at which the file is cut, both ends included, which are
        the ends of nodes of that level."""
        if not self.file:
            raise UsageError("file-root needs the argument file: the file to hash")
        path = Path(self.file).absolute()
        leaves = leaf_count(file_length(path))
        if partitions > leaves:
            raise UsageError(f"{path} has {count_of(leaves, 'chunk')} of {CHUNK} bytes: at most so many partitions")
        if leaves > 1 << LEVELS:
            raise InputError(f"{path}: more than 2^{LEVELS} chunks of {CHUNK} bytes")
        level = max(0, (leaves // (PIECES * partitions)).bit_length() - 1)
        pieces = -(-leaves >> level)
        return leaves, level, [min(pieces * k // partitions << level, leaves) for k in range(partitions + 1)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Read the part of the file and make the messages of all permutations of the partition. Raises InputError."""
        path, length, level = Path(source["path"]), source["length"], source["level"]
        start, stop, leaves = source["start"], source["stop"], leaf_count(source["length"])
        size = min(stop * CHUNK, length) - start * CHUNK
        data = b"".join(read_slice(path, start * CHUNK, size, length))
        messages, places = [leaf_messages(data)], [np.stack((np.zeros(stop - start), np.arange(start, stop)))]
        below, first = leaves_of(data), start
        digests = [below]
        for height in range(1, LEVELS + 1):
            if height - 1 == level and keccak256(below.tobytes()) != source["check"]:
                raise InputError(f"{path}: the file changed during the job")
            if not len(below):
                break
            first_pair = first % 2
            pairs = (len(below) - first_pair) // 2
            alone = first + len(below) == -(-leaves >> (height - 1)) and (first + len(below)) % 2
            inside = below[first_pair : first_pair + 2 * pairs]
            first = -(-first // 2)
            messages.append(node_messages(inside.reshape(pairs, 64)))
            places.append(np.stack((np.full(pairs, height), np.arange(first, first + pairs))))
            digests.append(level_above(inside))
            below = np.concatenate((digests[-1], below[len(below) - 1 :] if alone else below[:0]))
        children = np.frombuffer(b"".join(n[2] for n in source["nodes"]), np.uint8)
        messages.append(node_messages(children.reshape(-1, 64)))
        digests.append(level_above(children.reshape(-1, 32)))
        places.append(np.array([n[:2] for n in source["nodes"]], dtype=np.int64).reshape(-1, 2).T)
        blocks = np.concatenate(messages)
        tail = blocks[stop - start - 1] if stop == leaves else None
        (root,) = self._layout.parts(np.frombuffer(source["root"], dtype=np.uint8).reshape(1, 32))
        return {
            "messages": np.ascontiguousarray(blocks.view("<u8").astype(np.uint64).T),
            "places": np.concatenate(places, axis=1).astype(np.uint64),
            "public": np.array([*root, length, leaves, start, stop], dtype=np.uint64),
            "log_rows": np.array([source.get("log_rows", self._layout.log_heights(len(blocks))[0])], dtype=np.uint64),
            **self._layout.inputs(np.concatenate(digests), leaves, source["edge"], tail),
        }

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        public = tuple(int(v) for v in backend.to_host(inputs["public"]))
        leaves, start, stop = public[-3:]
        rows = 1 << int(backend.to_host(inputs["log_rows"])[0])
        return Trace(self._layout.main(backend, inputs, (start, stop), rows, has_tail=stop == leaves), public)

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        path, told = Path(value), self.explain(public, ())
        tree = FileTree(path, max(0, (leaf_count(file_length(path)) // PIECES).bit_length() - 1))
        return (
            f"root {told['root']} of {count_of(int(told['bytes']), 'byte')}",
            f"root {tree.root.hex()} of {count_of(tree.length, 'byte')}",
        )

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        root = self._layout.root_bytes(public[0][:DIGEST_WORDS])
        return {"root": root.hex(), "bytes": str(public[0][DIGEST_WORDS]), "chunks": str(public[0][DIGEST_WORDS + 1])}


# A node's middle is the first leaf of its second child. Every leaf but the first is the middle of one node. A partition
# hashes the nodes whose middles it has, so that it has no more nodes than leaves.


def node_count(start: int, stop: int) -> int:
    """Number of nodes that the partition of leaves `start` to `stop` - 1 hashes."""
    return stop - max(start, 1)


def nodes_across(start: int, stop: int, leaves: int) -> list[tuple[int, int]]:
    """Level and index of the nodes, of a file of so many leaves, with their middle from `start` to `stop` - 1 and other
    leaves elsewhere. The partition cannot hash their children itself."""
    return sorted(
        {
            (level, cut >> level)
            for cut in (start, stop)
            if cut < leaves
            for level in range(1, (leaves - 1).bit_length() + 1)
            if cut % (1 << level) and start <= (2 * (cut >> level) + 1) << (level - 1) < stop
        }
    )
