"""The Merkle root of a file, by Keccak-256, cut into partitions that meet on a bus.

Stated, for a root, a length and a number of leaves: the prover knows a file of exactly this length whose tree, as
`file_tree` defines it (RFC 6962's over chunks of 128 bytes), has this root. One permutation per leaf and per node.

Why it holds. The bus `nodes` carries (level, index, digest). A leaf sends (0, index), a node receives (l - 1, 2 i) and
(l - 1, 2 i + 1) and sends (l, i), and the statement receives (32, 0, root). Only it receives without sending, and
levels rise by one, so every permutation that takes part belongs to the one tree below the root, at a place of its own:
nothing can be sent that is not used, nor used twice. Where a node has no second child, a row of `edge` passes the first
one up; these places follow from n, the number of leaves, alone: on the level of m nodes, when m is odd, the last.
Leaves are numbered by a counter that runs on from partition to partition (`chain`), from 0 to n (bus `facts`), so their
indices are 0 to n - 1, each once. With no leaf beyond n, a place that may be passed up cannot hold a node instead, as
all of its right half would lie beyond n; and elsewhere nothing may be passed up. So the tree has the one right shape.

Every leaf but one has 128 bytes. The table `tail` takes the message of leaf n - 1, shows where its padding begins, and
that the length is 128 (n - 1) + c with 1 <= c <= 128, or c = 0 when n = 1. It does so in one partition of the job,
because the statement sends the length once. A padding permutation sends and receives nothing; one that the table's end
cuts off can be none of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError, UsageError
from distprove.stark.air import Air, Bus, Table
from distprove.stark.field import P
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.file_tree import (
    CHUNK,
    LEAF,
    NODE,
    FileTree,
    file_length,
    leaf_count,
    leaves_of,
    level_above,
    read_slice,
)
from distprove.stark.programs.keccak_rounds import (
    COLUMNS,
    LANES,
    RATE_LANES,
    ROUNDS,
    WIDTH,
    WORDS,
    blocks_for,
    constrain_rounds,
    fill_rounds,
    rows_for,
)
from distprove.stark.statement import Boundary, PublicRef, Statement
from kernels.backend import Array, Backend
from kernels.keccak import keccak256

LEVELS = 32
"""The root stands on this level, whatever the length: files of up to 2^32 chunks, 512 GiB."""
DIGEST_WORDS = 8
BLOCK = 8 * RATE_LANES
PAD, PAD_END = 0x01, 0x80
"""First and last byte of Keccak's original padding, in a block that they do not share."""
TAIL_WORDS = 33
"""Words of a leaf's message that hold its tag, its chunk and, where that is full, the padding's first byte."""
TAIL_ROWS = 64
PIECES = 16
"""A partition has at least so many of the subtrees at whose ends files are cut: the longest is 1/16 above the mean."""

NODES = Bus("nodes", 2 + DIGEST_WORDS, "global")
FACTS = Bus("facts", 2, "global")
TAIL = Bus("tail", 1 + TAIL_WORDS)
FACT_START, FACT_END, FACT_LENGTH = 1, 2, 3

Words = NDArray[np.uint64]


# -- tables -----------------------------------------------------------------------------------------------------------


class HashAir(Air):
    """Permutations: each is a leaf, a node, or idle. `level`, `index` and `leaves` stay the same for its 24 rows."""

    name = "hash"
    main: Mapping[str, int] = MappingProxyType(
        {
            **COLUMNS,
            "leaf": 1,
            "node": 1,
            "begin_leaf": 1,
            "begin_node": 1,
            "begin_tail": 1,
            "level": 1,
            "index": 1,
            "leaves": 1,
        }
    )
    public = ("leaf_start", "leaf_end")

    def define(self, t: Table) -> None:
        before = constrain_rounds(t)
        this, after = t.this, t.next
        begins, ends = this["round"][0], this["round"][-1]
        used = this.leaf + this.node
        for flag in (this.leaf, this.node, used, this.begin_tail):
            t.boolean(flag)
        for name in ("leaf", "node", "level", "index"):
            t.transition((1 - ends) * (after[name][0] - this[name][0]), f"{name} stays")
        t.last(used, "the last permutation, cut off, is idle")
        t.always(this.begin_leaf - begins * this.leaf)
        t.always(this.begin_node - begins * this.node)
        t.always(this.begin_tail * (1 - this.begin_leaf))

        t.first(this.leaves - t.public.leaf_start)
        t.transition(after.leaves - this.leaves - ends * this.leaf)
        t.last(this.leaves - t.public.leaf_end)
        t.always(this.leaf * this.level)
        t.always(this.leaf * (this.index - this.leaves))

        # The message: tag, chunk or children, padding; then the capacity's zeros.
        begin = this.begin_leaf + this.begin_node
        t.always(begin * (before.bits(0, 8) - (NODE * this.begin_node + LEAF * this.begin_leaf)), "tag")
        t.always(begin * (before.word(2 * RATE_LANES - 1) - (PAD_END << 24)), "padding's end")
        for k in range(2 * RATE_LANES, WORDS):
            t.always(begin * before.word(k), f"capacity {k}")
        t.always(this.begin_node * (before.bits(8 * 65, 8 * 68) - PAD), "a node's padding")
        for k in range(17, TAIL_WORDS):
            t.always(this.begin_node * before.word(k), f"a node's zeros {k}")
        full = this.begin_leaf - this.begin_tail
        t.always(full * (before.bits(8 * (1 + CHUNK), 8 * (4 + CHUNK)) - PAD), "a full leaf's padding")
        t.send(TAIL, [this.leaves, *(before.word(k) for k in range(TAIL_WORDS))], times=this.begin_tail)

        for side in (0, 1):
            first = 8 * (1 + 32 * side)
            child = [before.bits(first + 32 * k, first + 32 * k + 32) for k in range(DIGEST_WORDS)]
            t.receive(NODES, [this.level - 1, 2 * this.index + side, *child], times=this.begin_node, at_most=1)
        t.send(NODES, [this.level, this.index, *this["out"][:DIGEST_WORDS]], times=ends * used)


class EdgeAir(Air):
    """The nodes that have no sibling: row l passes the last of m nodes on level l to level l + 1 when m is odd."""

    name = "edge"
    preprocessed: Mapping[str, int] = MappingProxyType({"level": 1})
    main: Mapping[str, int] = MappingProxyType({"nodes": 1, "odd": 1, "active": 1, "digest": DIGEST_WORDS})
    public = ("leaves",)

    def define(self, t: Table) -> None:
        this = t.this
        t.boolean(this.odd)
        t.boolean(this.active)
        t.always(this.active * (1 - this.odd))
        # From one node on level 32 down, 2 m or 2 m - 1 below m: so every m is that of n leaves, n at most 2^32.
        t.first(this.nodes - t.public.leaves)
        t.transition(2 * t.next.nodes - this.nodes - this.odd)
        t.last(2 - this.nodes - this.odd)
        half = pow(2, -1, P)
        t.receive(NODES, [t.fixed.level, this.nodes - 1, *this.digest], times=this.active, at_most=1)
        t.send(NODES, [t.fixed.level + 1, (this.nodes - 1) * half, *this.digest], times=this.active)


class TailAir(Air):
    """The last leaf's message, a word per row: its bytes up to the padding's first are counted, later ones zero."""

    name = "tail"
    preprocessed: Mapping[str, int] = MappingProxyType({"begin": 1, "end": 1})
    main: Mapping[str, int] = MappingProxyType(
        {"words": TAIL_WORDS, "bits": 32, "pad": 4, "done": 1, "count": 1, "active": 1}
    )
    public = ("length", "leaves")

    def define(self, t: Table) -> None:
        this, after = t.this, t.next
        for flag in (*this.bits, *this.pad, this.done, this.active):
            t.boolean(flag)
        t.always(this.words[0] - sum(bit * (1 << i) for i, bit in enumerate(this.bits)))
        for i, word in enumerate(after.words):
            t.transition(word - (this.words[i + 1] if i + 1 < TAIL_WORDS else 0), f"word {i} moves")

        t.first(this.done)
        t.first(this.count)
        t.first(this.pad[0], "the tag is no padding")
        counted = 0
        done = this.done
        for j, pad in enumerate(this.pad):
            byte = sum(bit * (1 << i) for i, bit in enumerate(this.bits[8 * j : 8 * j + 8]))
            t.always((done + pad) * byte - PAD * pad, f"padding {j}")
            done = done + pad
            counted = counted + 1 - done
        t.transition(after.done - done)  # boolean, so that the padding begins once
        t.transition(after.count - this.count - counted)
        t.last(1 - this.done)
        t.always(t.fixed.end * (this.pad[2] + this.pad[3]), "at most 128 bytes")

        t.transition(after.active - this.active)
        leaves, length = t.public.leaves, t.public.length
        t.last(this.active * (this.count - 1 + CHUNK * (leaves - 1) - length), "length")
        t.first(this.active * this.pad[1] * (leaves - 1), "only an empty file has an empty chunk")
        times = this.active * t.fixed.begin
        t.receive(TAIL, [leaves - 1, *this.words], times=times, at_most=1)
        t.receive(FACTS, [FACT_LENGTH, length], times=times, at_most=1)


# -- the program ------------------------------------------------------------------------------------------------------


class FileRoot(Program):
    """See the module's text. Partitions hash consecutive parts of the file; the last also what lies above them all."""

    name = "file-root"

    def __init__(self, file: str = "") -> None:
        """A verifier needs no file."""
        self.file = file

    @property
    def arguments(self) -> dict[str, int | str]:
        return {}

    @property
    def tables(self) -> Sequence[Air]:
        return (HashAir(), EdgeAir(), TailAir())

    @property
    def buses(self) -> Sequence[Bus]:
        return (NODES, FACTS, TAIL)

    @property
    def statement(self) -> Statement:
        root = tuple(PublicRef("root", k) for k in range(DIGEST_WORDS))
        return Statement(
            public=(("root", DIGEST_WORDS), ("length", 1), ("leaves", 1), ("leaf_start", 1), ("leaf_end", 1)),
            same=("root", "length", "leaves"),
            chain=(("leaf_end", "leaf_start"),),
            boundary=(
                Boundary(NODES.name, (LEVELS, 0, *root), -1, "first"),
                Boundary(FACTS.name, (FACT_START, PublicRef("leaf_start")), 1, "first"),
                Boundary(FACTS.name, (FACT_START, 0), -1, "first"),
                Boundary(FACTS.name, (FACT_END, PublicRef("leaf_end")), 1, "last"),
                Boundary(FACTS.name, (FACT_END, PublicRef("leaves")), -1, "last"),
                Boundary(FACTS.name, (FACT_LENGTH, PublicRef("length")), 1, "first"),
            ),
        )

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        tail = np.zeros((2, TAIL_ROWS), dtype=np.uint64)
        tail[0, 0] = tail[1, TAIL_WORDS - 1] = 1
        return {"edge": np.arange(LEVELS, dtype=np.uint64).reshape(1, LEVELS), "tail": tail}

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        """From the file's length alone."""
        _, leaves = self._file(partitions)
        _, cuts = cuts_of(leaves, partitions)
        used = [permutations_within(start, stop, leaves) for start, stop in itertools.pairwise(cuts)]
        used[-1] += len(places_across(leaves, cuts[1:-1]))
        fixed = ((LEVELS - 1).bit_length(), (TAIL_ROWS - 1).bit_length())
        return [((rows_for(n) - 1).bit_length(), *fixed) for n in used]

    def slices(self, partitions: int) -> list[Slice]:
        """Reads the whole file once, for its root; a job's partitions then read their parts."""
        path, leaves = self._file(partitions)
        level, cuts = cuts_of(leaves, partitions)
        tree = FileTree(path, level)
        if tree.leaves != leaves:
            raise InputError(f"{path}: the file's length changed while it was read")
        common = {"path": str(path), "length": tree.length, "root": tree.root, "level": level}
        out = []
        for k, (start, stop) in enumerate(itertools.pairwise(cuts)):
            roots = b"".join(tree.node(level, i) for i in range(start >> level, -(-stop >> level)))
            part = {"start": start, "stop": stop, "check": keccak256(roots), "nodes": [], "edge": []}
            if k == partitions - 1:
                part["nodes"] = nodes_across(tree, cuts[1:-1])
                part["edge"] = [tree.node(height, (leaves - 1) >> height) for height in range(LEVELS)]
            out.append(Slice(f"part-{k:04}", {**common, **part}))
        return out

    def _file(self, partitions: int) -> tuple[Path, int]:
        """The file and its number of leaves. Raises UsageError, InputError when it cannot be cut so."""
        if not self.file:
            raise UsageError("file-root needs the argument file: the file to hash")
        path = Path(self.file).absolute()
        leaves = leaf_count(file_length(path))
        if partitions > leaves:
            raise UsageError(f"{path} has {leaves} chunks of {CHUNK} bytes: at most so many partitions")
        if leaves > 1 << LEVELS:
            raise InputError(f"{path}: more than 2^{LEVELS} chunks of {CHUNK} bytes")
        return path, leaves

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The messages of all permutations of a partition, from its part of the file."""
        path, length, level = Path(source["path"]), source["length"], source["level"]
        start, stop, leaves = source["start"], source["stop"], leaf_count(source["length"])
        size = min(stop * CHUNK, length) - start * CHUNK
        data = b"".join(read_slice(path, start * CHUNK, size, length))
        messages, places = [leaf_messages(data)], [np.stack((np.zeros(stop - start), np.arange(start, stop)))]
        below, first = leaves_of(data), start
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
            below = np.concatenate((level_above(inside), below[len(below) - 1 :] if alone else below[:0]))
        messages.append(node_messages(np.frombuffer(b"".join(n[2] for n in source["nodes"]), np.uint8).reshape(-1, 64)))
        places.append(np.array([n[:2] for n in source["nodes"]], dtype=np.int64).reshape(-1, 2).T)
        blocks = np.concatenate(messages)
        is_last = stop == leaves
        return {
            "messages": np.ascontiguousarray(blocks.view("<u8").astype(np.uint64).T),
            "places": np.concatenate(places, axis=1).astype(np.uint64),
            "edge": edge_columns(leaves, source["edge"]),
            "tail": tail_columns(blocks[stop - start - 1] if is_last else leaf_messages(b"")[0], is_last),
            "public": np.array(
                [*np.frombuffer(source["root"], dtype="<u4").tolist(), length, leaves, start, stop], dtype=np.uint64
            ),
        }

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        public = tuple(int(v) for v in backend.to_host(inputs["public"]))
        leaves, start, stop = public[-3:]
        used = inputs["messages"].shape[1]
        rows = rows_for(used)
        blocks = blocks_for(rows)
        states = backend.zeros((LANES, blocks))
        states[:RATE_LANES, :used] = inputs["messages"]
        columns = backend.empty((WIDTH + 8, rows))
        fill_rounds(columns, states, backend)
        leaf, node, begin_leaf, begin_node, begin_tail, level, index, counter = range(WIDTH, WIDTH + 8)
        per_block = backend.zeros((5, blocks))
        leaf_blocks = stop - start
        per_block[0, :leaf_blocks] = 1
        per_block[1, leaf_blocks:used] = 1
        per_block[2:4, :used] = inputs["places"]
        per_block[4, :leaf_blocks] = inputs["places"][1, :leaf_blocks]
        per_block[4, leaf_blocks:] = stop
        for r in range(ROUNDS):
            here = per_block[:, : -(-(rows - r) // ROUNDS)]
            for column, values in zip((leaf, node, level, index, counter), here, strict=True):
                columns[column, r::ROUNDS] = values
        columns[begin_leaf : begin_tail + 1] = 0
        columns[begin_leaf, ::ROUNDS] = per_block[0]
        columns[begin_node, ::ROUNDS] = per_block[1]
        if stop == leaves:
            columns[begin_tail, ROUNDS * (leaf_blocks - 1)] = 1
        return Trace([columns, inputs["edge"], inputs["tail"]], public)

    def explain(self, public: Sequence[Sequence[int]]) -> dict[str, str]:
        root = np.array(public[0][:DIGEST_WORDS], dtype="<u4").tobytes()
        return {"root": root.hex(), "bytes": str(public[0][DIGEST_WORDS]), "chunks": str(public[0][DIGEST_WORDS + 1])}


# -- what the tables hold ---------------------------------------------------------------------------------------------


def cuts_of(leaves: int, partitions: int) -> tuple[int, list[int]]:
    """The level of the subtrees at whose ends a file is cut, and the cuts as numbers of leaves, both ends included."""
    level = max(0, (leaves // (PIECES * partitions)).bit_length() - 1)
    pieces = -(-leaves >> level)
    return level, [min(pieces * k // partitions << level, leaves) for k in range(partitions + 1)]


def permutations_within(start: int, stop: int, leaves: int) -> int:
    """Leaves of a part of a file of `leaves`, and the nodes that lie all within it."""
    used, first, below = stop - start, start, stop - start
    for _ in range(LEVELS):
        if not below:
            break
        pairs = (below - first % 2) // 2
        alone = first + below == leaves and leaves % 2
        used, first, leaves, below = used + pairs, -(-first // 2), -(-leaves // 2), pairs + alone
    return used


def places_across(leaves: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Level and index of the nodes that lie across one of these cuts (numbers of leaves)."""
    found = {
        (level, cut >> level)
        for cut in cuts
        for level in range(1, (leaves - 1).bit_length() + 1)
        if cut % (1 << level) and (2 * (cut >> level) + 1) << (level - 1) < leaves
    }
    return sorted(found)


def nodes_across(tree: FileTree, cuts: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """Level, index and children of the nodes that lie across one of these cuts."""
    return [
        (level, index, tree.node(level - 1, 2 * index) + tree.node(level - 1, 2 * index + 1))
        for level, index in places_across(tree.leaves, cuts)
    ]


def leaf_messages(data: bytes) -> NDArray[np.uint8]:
    """(chunks, 136): the padded messages of a part of a file, of one empty chunk when there is none."""
    chunks = leaf_count(len(data))
    out = np.zeros((chunks, BLOCK), dtype=np.uint8)
    full, rest = divmod(len(data), CHUNK)
    whole = np.frombuffer(data, dtype=np.uint8)
    out[:full, 1 : 1 + CHUNK] = whole[: full * CHUNK].reshape(full, CHUNK)
    out[:full, 1 + CHUNK] = PAD
    if chunks > full:
        out[full, 1 : 1 + rest] = whole[full * CHUNK :]
        out[full, 1 + rest] = PAD
    out[:, 0], out[:, -1] = LEAF, PAD_END
    return out


def node_messages(children: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(nodes, 136): the padded messages of nodes with these children, (nodes, 64)."""
    out = np.zeros((len(children), BLOCK), dtype=np.uint8)
    out[:, 0], out[:, 1:65], out[:, 65], out[:, -1] = NODE, children, PAD, PAD_END
    return out


def edge_columns(leaves: int, digests: Sequence[bytes]) -> Words:
    """The table `edge`. `digests`: the last node of each level, or none where another partition passes them up."""
    out = np.zeros((3 + DIGEST_WORDS, LEVELS), dtype=np.uint64)
    nodes = [-(-leaves >> level) for level in range(LEVELS)]
    out[0] = nodes
    out[1] = [m % 2 for m in nodes]
    if digests:
        out[2] = out[1]
        out[3:] = np.frombuffer(b"".join(digests), dtype="<u4").reshape(LEVELS, DIGEST_WORDS).T
    return out


def tail_columns(message: NDArray[np.uint8], active: bool) -> Words:
    """The table `tail` for the padded message of a leaf of at most 128 bytes."""
    text = np.zeros(4 * TAIL_ROWS, dtype=np.uint8)
    text[: 4 * TAIL_WORDS] = message[: 4 * TAIL_WORDS]
    start = int(np.flatnonzero(text)[-1])  # the padding's first byte is the last that is not zero
    words = text.view("<u4").astype(np.uint64)
    pad = np.zeros(4 * TAIL_ROWS, dtype=np.uint64)
    pad[start] = 1
    begin = 4 * np.arange(TAIL_ROWS)
    out = np.zeros((TAIL_WORDS + 32 + 4 + 3, TAIL_ROWS), dtype=np.uint64)
    for i in range(TAIL_WORDS):
        out[i, : TAIL_ROWS - i] = words[i:]
    out[TAIL_WORDS : TAIL_WORDS + 32] = words >> np.arange(32, dtype=np.uint64)[:, None] & np.uint64(1)
    out[TAIL_WORDS + 32 : TAIL_WORDS + 36] = pad.reshape(-1, 4).T
    out[-3] = begin > start
    out[-2] = np.minimum(begin, start)
    out[-1] = active
    return out
