"""The narrow tables of `file-root`: fewer opened columns, and so smaller proofs, at blow-up 4.

`file_root` explains how tables prove a file's root; these do it in the same way, over `keccak_slices`. A row has two
bytes of each lane, so a digest goes over the bus in eight parts, each under (level, index, part): part 2 s + h holds
the bytes 8 l + 2 s + h of the digest, for the lanes l = 0 to 3. For each part alone the argument of `file_root` gives
every place of the tree one permutation, and a permutation has one place, so that all parts which a node receives under
one place are of one child.

A message begins with a tag, and so a child's digest lies a byte further: its low bytes (h = 0) are the message's high
bytes in the same row, and its high bytes are the message's low bytes in the next row. Those of the last row are the low
bytes of the next lanes in the first.

There is no table for the last leaf. Its padding begins in the lane that `lane` marks, at the byte where `pad` is 1;
lanes behind it are zero, and so are the bytes behind it in its lane.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, Expression, Table, total
from distprove.stark.programs.file_root_tables import (
    DIGEST_WORDS,
    FACT_LENGTH,
    FACTS,
    PAD,
    PAD_END,
    EdgeAir,
    numbers_of,
    states_of,
)
from distprove.stark.programs.file_tree import CHUNK, LEAF, NODE
from distprove.stark.programs.keccak_rounds import LANES, RATE_LANES
from distprove.stark.programs.keccak_slices import (
    COLUMNS,
    FLAGS,
    PARTS,
    ROWS_EACH,
    SLICES,
    WIDTH,
    Slices,
    blocks_for,
    constrain_slices,
    fill_slices,
)
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

NODES = Bus("nodes", 4, "global")
LOW, HIGH = (0, 8), (8, SLICES)
"""The bits of a row's part of a lane that make its first and its second byte."""
LAST_LANE = RATE_LANES - 1

Words = NDArray[np.uint64]


# -- rules ------------------------------------------------------------------------------------------------------------


class NarrowHashAir(Air):
    """The table of permutations, each a leaf, a node, or idle, in 100 rows, over which `leaf`, `node`, `tail`, `level`,
    `index` and `lane` are constant."""

    name = "hash"
    main = {
        **COLUMNS,
        **FLAGS,
        "leaf": 1,
        "node": 1,
        "tail": 1,
        "level": 1,
        "index": 1,
        "leaves": 1,
        "begin_node": 1,
        "begin_tail": 1,
        "low": 2,
        "high": 2,
        "lane": RATE_LANES,
        "padded": 2,
        "pad": 2,
        "done": 1,
    }
    public = ("length", "leaves", "leaf_start", "leaf_end")

    def define(self, t: Table) -> None:
        slices = constrain_slices(t, ("leaf", "node"))
        this, after = t.this, t.next
        for flag in (this.leaf, this.node, this.tail, this.begin_node, *this.lane):
            t.boolean(flag)
        for name in ("leaf", "node", "tail", "level", "index", "lane"):
            for i, (cell, following) in enumerate(zip(this[name], after[name], strict=True)):
                t.transition((1 - slices.ends) * (following - cell), f"{name} {i} stays")
        t.always(this.tail * (1 - this.leaf))
        t.always(this.begin_node - slices.begins * this.node)
        t.always(this.begin_tail - slices.begins * this.tail)

        t.first(this.leaves - t.public.leaf_start)
        t.transition(after.leaves - this.leaves - slices.ends * this.leaf)
        t.last(this.leaves - t.public.leaf_end)
        t.always(this.leaf * this.level)
        t.always(this.leaf * (this.index - this.leaves))

        _constrain_messages(t, slices)
        _constrain_tail(t, slices)
        _constrain_digests(t, slices)


def _constrain_messages(t: Table, slices: Slices) -> None:
    """The input is tag, chunk or children, and padding; then come the zeros of the capacity."""
    this = t.this
    begin, begin_node = slices.begins, this.begin_node
    first, last = this.slices[0], this.slices[-1]
    t.always(begin * first * (slices.number(0, *LOW) - LEAF - (NODE - LEAF) * this.node), "tag")
    t.always(begin * last * (slices.number(LAST_LANE, *HIGH) - PAD_END), "padding's end")
    for lane in range(RATE_LANES, LANES):
        t.always(begin * slices.number(lane), f"capacity {lane}")
    t.always(begin_node * first * (slices.number(8, *HIGH) - PAD), "a node's padding")
    t.always(begin_node * (1 - first) * slices.number(8), "a node's zeros 8")
    for lane in range(9, LAST_LANE):
        t.always(begin_node * slices.number(lane), f"a node's zeros {lane}")
    t.always(begin_node * (slices.number(LAST_LANE) - last * (PAD_END << 8)), "a node's zeros 16")
    full = begin - begin_node - this.begin_tail
    t.always(full * first * (slices.number(LAST_LANE, *HIGH) - PAD), "a full leaf's padding")
    t.always(full * (1 - first) * (slices.number(LAST_LANE) - last * (PAD_END << 8)), "a full leaf's zeros")


def _constrain_tail(t: Table, slices: Slices) -> None:
    """Find where the padding of the last leaf begins, and constrain what comes after it to zero."""
    this, after = t.this, t.next
    leaves, length = t.public.leaves, t.public.length
    first, last = this.slices[0], this.slices[-1]
    t.always(this.tail * (total(this.lane) - 1), "one lane")
    for lane in range(1, RATE_LANES):
        value = slices.number(lane) - (last * (PAD_END << 8) if lane == LAST_LANE else 0)
        t.always(this.begin_tail * total(this.lane[:lane]) * value, f"zeros {lane}")
    for h, (start, stop) in enumerate((LOW, HIGH)):
        chosen = total(this.lane[i] * slices.number(i, start, stop) for i in range(RATE_LANES))
        if h:
            chosen = chosen - this.lane[LAST_LANE] * last * PAD_END
        t.always(this.begin_tail * (this.padded[h] - chosen), f"padded byte {h}")

    before: Expression = this.done
    place = 2 * total(flag * s for s, flag in enumerate(this.slices))
    lanes = total(flag * (8 * i) for i, flag in enumerate(this.lane))
    found = this.pad[0] + this.pad[1]
    for flag in (this.done, *this.pad, found):
        t.boolean(flag)
    t.always(found * (1 - this.begin_tail), "padding begins in the last leaf alone")
    t.always(this.begin_tail * first * this.done)
    for h, (byte, pad) in enumerate(zip(this.padded, this.pad, strict=True)):
        t.always((before + pad) * byte - PAD * pad, f"padding {h}")
        before = before + pad
        # The tag is byte 0, so the content's length is one less than the padding's place.
        t.always(pad * (CHUNK * (leaves - 1) + lanes + place + h - 1 - length), f"length {h}")
    t.transition(this.begin_tail * (1 - last) * (after.done - before), "done")
    t.always(this.begin_tail * last * (1 - before), "padding begins in the lane")
    t.always(found * this.lane[LAST_LANE] * (1 - first), "at most 128 bytes")
    t.always(this.pad[1] * first * this.lane[0] * (leaves - 1), "only an empty file has an empty chunk")
    t.always(found * (this.index - leaves + 1), "the last leaf")
    t.receive(FACTS, [FACT_LENGTH, length], times=found, at_most=1)


def _constrain_digests(t: Table, slices: Slices) -> None:
    """`low` and `high` hold the bytes of lanes 0 to 3 and 4 to 7, where digests end and nodes begin."""
    this = t.this
    first = this.slices[0]
    begin_node, closes = this.begin_node, slices.closes
    for side in (0, 1):
        low, high = (_bytes(slices, 4 * side, bits) for bits in (LOW, HIGH))
        shifted = _bytes(slices, 4 * side + 1, LOW)
        if side == 0:
            t.always(closes * (this.low[0] - low), "low of a digest")
            t.always(closes * (this.high[0] - high), "high of a digest")
        t.always(begin_node * (this.high[side] - high), f"high {side} of a node")
        t.always(begin_node * (this.low[side] - low - first * (shifted - low)), f"low {side} of a node")
    part = total(flag * (2 * s) for s, flag in enumerate(this.slices))
    t.send(NODES, [this.level, this.index, part, this.low[0]], times=closes)
    t.send(NODES, [this.level, this.index, part + 1, this.high[0]], times=closes)
    behind = part - 1 + 2 * PARTS * first
    for side in (0, 1):
        child = this.level - 1, 2 * this.index + side
        t.receive(NODES, [*child, part, this.high[side]], times=begin_node, at_most=1)
        t.receive(NODES, [*child, behind, this.low[side]], times=begin_node, at_most=1)


def _bytes(slices: Slices, lane: int, bits: tuple[int, int]) -> Expression:
    """A byte of each of four lanes as one number of 32 bits."""
    return total(slices.number(lane + i, *bits) * (1 << 8 * i) for i in range(4))


class NarrowEdgeAir(EdgeAir):
    """The table of nodes without a sibling, as `EdgeAir`, with digests in parts."""

    def pass_up(self, t: Table, parent: Expression) -> None:
        this = t.this
        for part, value in enumerate(this.digest):
            t.receive(NODES, [t.fixed.level, this.nodes - 1, part, value], times=this.active, at_most=1)
            t.send(NODES, [t.fixed.level + 1, parent, part, value], times=this.active)


_OWN = {
    name: sum(list(NarrowHashAir.main.values())[:i]) - WIDTH - len(FLAGS) for i, name in enumerate(NarrowHashAir.main)
}
"""The first column of each name after those of the permutations."""


# -- rows -------------------------------------------------------------------------------------------------------------


def digest_parts(digests: NDArray[np.uint8]) -> Words:
    """The eight parts of each digest, (n, 8), of digests (n, 32)."""
    # (n, lane, s, h) to (n, s, h, lane): the lanes' bytes make a word
    ordered = np.ascontiguousarray(digests.reshape(-1, 4, PARTS, 2).transpose(0, 2, 3, 1))
    return ordered.view("<u4").reshape(-1, DIGEST_WORDS).astype(np.uint64)


def digest_of(parts: Sequence[int]) -> bytes:
    """The digest of these eight parts."""
    text = np.array(parts, dtype="<u4").view(np.uint8).reshape(PARTS, 2, 4)
    return bytes(text.transpose(2, 0, 1).tobytes())


def hash_columns(
    backend: Backend,
    messages: Array,
    digests: Array,
    places: Array,
    leaves: tuple[int, int],
    rows: int,
    *,
    has_tail: bool,
) -> Array:
    """The columns of the table `hash`: one permutation for each message, leaves first, then idle ones up to `rows`.

    `messages` is (17, n) lanes, `digests` (8, n) parts of what they hash to, and `places` (2, n) level and index.
    `leaves` is the first leaf's number and one more than the last one's. `has_tail` says whether the last leaf is the
    file's last.
    """
    used = messages.shape[1]
    blocks = blocks_for(rows)
    columns = backend.zeros((sum(NarrowHashAir.main.values()), rows))
    fill_slices(columns, states_of(backend, messages, blocks), used, backend)
    own = columns[WIDTH + len(FLAGS) :]
    count = leaves[1] - leaves[0]
    per_block = numbers_of(backend, places, leaves, blocks).repeat(ROWS_EACH, axis=1)[:, :rows]
    own[:2], own[3:6] = per_block[:2], per_block[2:]  # between them the column `tail`, which `_fill_tail` writes
    begin_node, low, high = (_OWN[name] for name in ("begin_node", "low", "high"))
    nodes, stop = ROWS_EACH * count, ROWS_EACH * used
    byte, word = np.uint64(0xFF), np.uint64(8)
    for s in range(PARTS):
        own[begin_node, nodes + s : stop : ROWS_EACH] = 1
        closes = slice(ROWS_EACH - PARTS + s, stop, ROWS_EACH)
        own[low, closes], own[high, closes] = digests[2 * s], digests[2 * s + 1]
        begins = slice(nodes + s, stop, ROWS_EACH)
        for side in (0, 1):
            for i in range(4):
                at = 4 * side + i
                shift = np.uint64(SLICES * s)
                own[low + side, begins] |= (messages[at + (s == 0), count:] >> shift & byte) << np.uint64(8 * i)
                own[high + side, begins] |= (messages[at, count:] >> shift >> word & byte) << np.uint64(8 * i)
    if has_tail:
        message = np.ascontiguousarray(backend.to_host(messages[:, count - 1 : count].copy())[:, 0])
        _fill_tail(own, message.astype("<u8").view(np.uint8), ROWS_EACH * (count - 1), backend)
    return columns


def _fill_tail(own: Array, message: NDArray[np.uint8], row: int, backend: Backend) -> None:
    """Write the columns that find the padding of the last leaf, whose permutation begins in this row."""
    tail, begin_tail, lane, padded = (_OWN[name] for name in ("tail", "begin_tail", "lane", "padded"))
    text = message.copy()
    text[-1] -= PAD_END
    start = int(np.flatnonzero(text)[-1])  # the padding's first byte is the last that is not zero
    own[tail, row : row + ROWS_EACH] = 1
    own[begin_tail, row : row + PARTS] = 1
    own[lane + start // 8, row : row + ROWS_EACH] = 1
    found = np.zeros((5, PARTS), dtype=np.uint64)  # padded, pad, done
    place = start % 8
    found[:2] = text[start - place :][:8].reshape(PARTS, 2).T
    found[2 + place % 2, place // 2] = 1
    found[4] = np.arange(PARTS) > place // 2
    own[padded : padded + 5, row : row + PARTS] = backend.to_device(found)
