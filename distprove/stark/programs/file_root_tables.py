"""The tables of `file-root`: their rules and their rows. `file_root` explains how they prove a file's root."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, Expression, Table
from distprove.stark.field import P
from distprove.stark.programs.file_tree import CHUNK, LEAF, NODE, leaf_count
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
    over_rounds,
)
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

LEVELS = 32
"""Level of the root, whatever the file's length. Files have up to 2^32 chunks, 512 GiB."""
DIGEST_WORDS = 8
BLOCK = 8 * RATE_LANES
PAD, PAD_END = 0x01, 0x80
"""First and last byte of Keccak's original padding, which here are never the same byte of a block."""
TAIL_WORDS = 33
"""32-bit words of a leaf's message that hold its tag, its chunk and, after a full chunk, the padding's first byte."""
TAIL_ROWS = 64

NODES = Bus("nodes", 2 + DIGEST_WORDS, "global")
FACTS = Bus("facts", 2, "global")
TAIL = Bus("tail", 1 + TAIL_WORDS)
FACT_START, FACT_END, FACT_LENGTH = 1, 2, 3

Words = NDArray[np.uint64]


# -- rules ------------------------------------------------------------------------------------------------------------


class HashAir(Air):
    """The table of permutations, each a leaf, a node, or idle. `level`, `index` and `leaves` are constant in its 24
    rows."""

    name = "hash"
    main = {
        **COLUMNS,
        "leaf": 1,
        "node": 1,
        "begin_leaf": 1,
        "begin_node": 1,
        "begin_tail": 1,
        "level": 1,
        "index": 1,
        "leaves": 1,
        "carried": TAIL_WORDS,
    }
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

        # The message is tag, chunk or children, and padding; then come the zeros of the capacity.
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

        # The words on the buses have columns of their own, which are zero elsewhere: a fingerprint over the state's
        # bits would take thousands of operations in one constraint.
        for k, word in enumerate(this.carried):
            t.always(this.begin_tail * (word - before.word(k)), f"tail word {k}")
            carries = this.begin_tail + (this.begin_node if k < 2 * DIGEST_WORDS else 0)
            t.always((1 - carries) * word, f"nothing carried {k}")
        for k, word in enumerate(this.carried[: 2 * DIGEST_WORDS]):
            t.always(this.begin_node * (word - before.bits(8 + 32 * k, 40 + 32 * k)), f"child word {k}")
        t.send(TAIL, [this.leaves, *this.carried], times=this.begin_tail)
        for side in (0, 1):
            child = this.carried[DIGEST_WORDS * side : DIGEST_WORDS * (side + 1)]
            t.receive(NODES, [this.level - 1, 2 * this.index + side, *child], times=this.begin_node, at_most=1)
        t.send(NODES, [this.level, this.index, *this["out"][:DIGEST_WORDS]], times=ends * used)


class EdgeAir(Air):
    """The table of nodes without a sibling. If level l has an odd number of nodes, row l passes the last one up."""

    name = "edge"
    preprocessed = {"level": 1}
    main = {"nodes": 1, "odd": 1, "active": 1, "digest": DIGEST_WORDS}
    public = ("leaves",)

    def define(self, t: Table) -> None:
        this = t.this
        t.boolean(this.odd)
        t.boolean(this.active)
        t.always(this.active * (1 - this.odd))
        # Level 32 has one node, and the level below m nodes has 2 m or 2 m - 1. So every m is right for n leaves, and n
        # is at most 2^32.
        t.first(this.nodes - t.public.leaves)
        t.transition(2 * t.next.nodes - this.nodes - this.odd)
        t.last(2 - this.nodes - this.odd)
        self.pass_up(t, (this.nodes - 1) * pow(2, -1, P))

    def pass_up(self, t: Table, parent: Expression) -> None:
        """Receive the last node, and send its digest as that of number `parent` of the level above."""
        this = t.this
        t.receive(NODES, [t.fixed.level, this.nodes - 1, *this.digest], times=this.active, at_most=1)
        t.send(NODES, [t.fixed.level + 1, parent, *this.digest], times=this.active)


class TailAir(Air):
    """The table of the last leaf's message, a word per row. It counts the bytes before the padding, and constrains
    those after the padding's first byte to zero."""

    name = "tail"
    preprocessed = {"begin": 1, "end": 1}
    main = {"words": TAIL_WORDS, "bits": 32, "pad": 4, "done": 1, "count": 1, "active": 1}
    public = ("length", "leaves")

    def define(self, t: Table) -> None:
        this, after = t.this, t.next
        for flag in (*this.bits, *this.pad, this.done, this.active, t.fixed.begin):
            t.boolean(flag)  # `begin` is boolean anyway; the constraint lets the check of `times` see it
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


# -- rows -------------------------------------------------------------------------------------------------------------


def leaf_messages(data: bytes) -> NDArray[np.uint8]:
    """The padded messages of the chunks in a part of a file, (chunks, 136); one empty chunk if `data` is empty."""
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
    """The padded messages, (nodes, 136), of nodes with these pairs of children, (nodes, 64)."""
    out = np.zeros((len(children), BLOCK), dtype=np.uint8)
    out[:, 0], out[:, 1:65], out[:, 65], out[:, -1] = NODE, children, PAD, PAD_END
    return out


def states_of(backend: Backend, messages: Array, blocks: int) -> Array:
    """The initial states, (25, blocks), of permutations of messages (17, n) lanes; those after them are of zeros."""
    states = backend.zeros((LANES, blocks))
    states[:RATE_LANES, : messages.shape[1]] = messages
    return states


def numbers_of(backend: Backend, places: Array, leaves: tuple[int, int], blocks: int) -> Array:
    """The columns `leaf`, `node`, `level`, `index` and `leaves` of a table `hash`, with a value for each permutation,
    (5, blocks), from the arguments of `hash_columns`."""
    count, used = leaves[1] - leaves[0], places.shape[1]
    numbers = backend.zeros((5, blocks))
    numbers[0, :count] = 1
    numbers[1, count:used] = 1
    numbers[2:4, :used] = places
    numbers[4, :count] = places[1, :count]
    numbers[4, count:] = leaves[1]
    return numbers


def hash_columns(
    backend: Backend, messages: Array, places: Array, leaves: tuple[int, int], rows: int, *, has_tail: bool
) -> Array:
    """The columns of the table `hash`: one permutation for each message, leaves first, then idle ones up to `rows`.

    `messages` is (17, n) lanes, and `places` is (2, n) with level and index. `leaves` is the first leaf's number and
    one more than the last one's. `has_tail` says whether the last leaf is the file's last.
    """
    used = messages.shape[1]
    blocks = blocks_for(rows)
    columns = backend.empty((WIDTH + 8 + TAIL_WORDS, rows))
    fill_rounds(columns, states_of(backend, messages, blocks), backend)
    leaf, node, begin_leaf, begin_node, begin_tail, level, _, counter = range(WIDTH, WIDTH + 8)
    count = leaves[1] - leaves[0]
    per_block = numbers_of(backend, places, leaves, blocks)
    columns[leaf : node + 1] = over_rounds(per_block[:2], rows)
    columns[level : counter + 1] = over_rounds(per_block[2:], rows)
    columns[begin_leaf : begin_tail + 1] = 0
    columns[begin_leaf, ::ROUNDS] = per_block[0]
    columns[begin_node, ::ROUNDS] = per_block[1]
    carried = columns[WIDTH + 8 :]
    carried[:] = 0
    nodes = slice(ROUNDS * count, ROUNDS * used, ROUNDS)
    low = np.uint64(0xFFFFFFFF)
    for k in range(2 * DIGEST_WORDS):  # a node's children, which start at byte 1 of the message
        lane, bit = divmod(8 + 32 * k, 64)
        word = messages[lane, count:] >> np.uint64(bit)
        if bit > 32:
            word = word | messages[lane + 1, count:] << np.uint64(64 - bit)
        carried[k, nodes] = word & low
    if has_tail:
        columns[begin_tail, ROUNDS * (count - 1)] = 1
        for k in range(TAIL_WORDS):
            carried[k, ROUNDS * (count - 1)] = messages[k // 2, count - 1] >> np.uint64(32 * (k % 2)) & low
    return columns


def edge_columns(leaves: int, digests: Words | None) -> Words:
    """The columns of the table `edge`. `digests` holds the last node of each level, (LEVELS, DIGEST_WORDS), or None if
    another partition passes these up."""
    out = np.zeros((3 + DIGEST_WORDS, LEVELS), dtype=np.uint64)
    nodes = [-(-leaves >> level) for level in range(LEVELS)]
    out[0] = nodes
    out[1] = [m % 2 for m in nodes]
    if digests is not None:
        out[2] = out[1]
        out[3:] = digests.T
    return out


def tail_columns(message: NDArray[np.uint8], active: bool) -> Words:
    """The columns of the table `tail` for the padded message of a leaf of at most 128 bytes."""
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
