"""Inputs of Filecoin's circuits without a sector: random leaves and siblings in trees that agree on their roots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random

from distprove.circuits.filecoin.gadgets import ELEMENT_BITS, PACKED_BITS
from distprove.circuits.filecoin.hashing import (
    FIELD,
    hash_poseidon,
    hash_sha256,
    node_label,
    poseidon_hashes,
    sha256_hashes,
)
from distprove.circuits.filecoin.porep import ALL_PARENTS, hashed_parents, labelled_layer
from distprove.circuits.filecoin.poseidon import filecoin_poseidon
from distprove.circuits.filecoin.snap import RANDOMNESS_TAG, Update
from distprove.errors import UsageError
from kernels.host.units import count_of


class SparseTree:
    """A Merkle tree of which only what some leaves' paths need exists: siblings that nothing determines are random."""

    def __init__(self, arities: Sequence[int], levels: Sequence[Mapping[int, int]]) -> None:
        """`levels` are the nodes that exist by their index, from the leaves up: see `sparse_trees`."""
        self._arities = tuple(arities)
        self._levels = tuple(levels)

    @property
    def root(self) -> int:
        return self._levels[-1][0]

    def path(self, index: int) -> list[int]:
        """The siblings of a leaf, from the leaf up."""
        siblings = []
        for arity, level in zip(self._arities, self._levels, strict=False):
            first = index - index % arity
            siblings += [level[k] for k in range(first, first + arity) if k != index]
            index //= arity
        return siblings


def elements_of(random: Random) -> Callable[[], int]:
    """Draws uniform elements of the field: those of `random.randrange`, in a third of the time."""
    bits, modulus, getrandbits = FIELD.bits, FIELD.modulus, random.getrandbits

    def draw() -> int:
        while (value := getrandbits(bits)) >= modulus:
            pass
        return value

    return draw


Hashes = Callable[[Sequence[Sequence[int]]], list[int]]
"""What hashes the children of many nodes."""


def sparse_trees(
    arities: Sequence[int], leaves: Sequence[Mapping[int, int]], hashed: Hashes, draw: Callable[[], int]
) -> list[SparseTree]:
    """Trees of the given arities (from the leaves up) with these leaves, made level by level, so that all nodes of a
    level are hashed at once."""
    trees = [[dict(of_tree)] for of_tree in leaves]
    for arity in arities:
        nodes: list[list[int]] = []
        for levels in trees:
            level, above = levels[-1], dict[int, int]()
            for parent in sorted({index // arity for index in level}):
                above[parent] = len(nodes)
                children = range(parent * arity, (parent + 1) * arity)
                nodes.append([level[k] if k in level else level.setdefault(k, draw()) for k in children])
            levels.append(above)
        made = hashed(nodes)
        for levels in trees:
            levels[-1] = {parent: made[number] for parent, number in levels[-1].items()}
    return [SparseTree(arities, levels) for levels in trees]


class BlockTree:
    """A whole Merkle tree whose leaves are alike within each of equally long blocks, so that a large one takes a few
    hashes only."""

    def __init__(self, arities: Sequence[int], blocks: Sequence[int], hashed: Callable[[Sequence[int]], int]) -> None:
        """`blocks` are the leaves' values by block, a power of two of them."""
        self._arities = tuple(arities)
        size = prod(arities)
        self._levels = [(size, list(blocks))]
        for arity in arities:
            size //= arity
            count = min(size, len(blocks))
            parents = range(0, size, size // count)
            self._levels.append((size, [hashed(self.nodes(-1, parent * arity, arity)) for parent in parents]))

    def nodes(self, level: int, first: int, count: int) -> list[int]:
        """Nodes of a level. Levels count from the leaves up."""
        size, values = self._levels[level]
        return [values[index * len(values) // size] for index in range(first, first + count)]

    @property
    def root(self) -> int:
        return self._levels[-1][1][0]

    def path(self, index: int, levels: slice = slice(None)) -> list[int]:
        """The siblings of a leaf, from the leaf up, of some levels."""
        siblings = []
        for level, arity in enumerate(self._arities):
            first = index - index % arity
            children = self.nodes(level, first, arity)
            siblings.append(children[: index - first] + children[index - first + 1 :])
            index //= arity
        return [sibling for some in siblings[levels] for sibling in some]


def post_inputs(sectors: int, challenges: int, arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `post_circuit`, with distinct sectors and random challenges."""
    size = prod(arities)

    draw = elements_of(random)
    challenged = [[random.randrange(size) for _ in range(challenges)] for _ in range(sectors)]
    leaves = [{index: draw() for index in own} for own in challenged]
    trees = sparse_trees(arities, leaves, poseidon_hashes, draw)
    comm_c, comm_r_last = [draw() for _ in range(sectors)], [tree.root for tree in trees]
    comm_r = poseidon_hashes(list(zip(comm_c, comm_r_last, strict=True)))
    return {
        "public": [value for root, own in zip(comm_r, challenged, strict=True) for value in (root, *own)],
        "comm_c": comm_c,
        "comm_r_last": comm_r_last,
        "leaf": [values[index] for values, own in zip(leaves, challenged, strict=True) for index in own],
        "siblings": [x for tree, own in zip(trees, challenged, strict=True) for index in own for x in tree.path(index)],
    }


def winning_post_inputs(sectors: int, challenges: int, arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `post_circuit` with one sector in place of all sectors, at random challenges."""
    one = post_inputs(1, sectors * challenges, arities, random)
    comm_r, *indices = one["public"]
    own = [indices[first : first + challenges] for first in range(0, len(indices), challenges)]
    one["public"] = [value for of_sector in own for value in (comm_r, *of_sector)]
    return {**one, "comm_c": one["comm_c"] * sectors, "comm_r_last": one["comm_r_last"] * sectors}


def porep_inputs(challenges: int, layers: int, arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `porep_circuit`, with distinct random challenges and random parents that are not challenged.

    The circuit does not know the graph, so parents may be any nodes. Raises UsageError when all nodes are challenged.
    """
    nodes = prod(arities)
    if challenges >= nodes:
        raise UsageError(
            f"{count_of(challenges, 'challenge leaves', 'challenges leave')} no parents among {count_of(nodes, 'node')}"
        )

    draw = elements_of(random)
    challenged = random.sample(range(nodes), challenges)

    def unchallenged() -> int:
        while (node := random.randrange(nodes)) in challenged:
            pass
        return node

    replica_id = draw()
    parents = [[unchallenged() for _ in range(ALL_PARENTS)] for _ in challenged]
    columns = {node: [draw() for _ in range(layers)] for own in parents for node in own}
    data = {node: random.getrandbits(PACKED_BITS) for node in challenged}
    for node, own in zip(challenged, parents, strict=True):
        columns[node] = [
            node_label(
                replica_id, layer, node, [columns[own[k]][labelled_layer(layer, k) - 1] for k in hashed_parents(layer)]
            )
            for layer in range(1, layers + 1)
        ]
    hashed = dict(zip(columns, poseidon_hashes(list(columns.values())), strict=True))
    encoded = {node: (columns[node][-1] + data[node]) % FIELD.modulus for node in challenged}
    tree_c, tree_r = sparse_trees(arities, [hashed, encoded], poseidon_hashes, draw)
    (tree_d,) = sparse_trees(
        [2] * (nodes.bit_length() - 1), [data], sha256_hashes, lambda: random.getrandbits(PACKED_BITS)
    )

    public = [replica_id, tree_d.root, hash_poseidon([tree_c.root, tree_r.root])]
    for node, own in zip(challenged, parents, strict=True):
        public += [node, *own, node, node, node]
    return {
        "public": public,
        "comm_c": [tree_c.root],
        "comm_r_last": [tree_r.root],
        "data_leaf": [data[node] for node in challenged],
        "data_siblings": [x for node in challenged for x in tree_d.path(node)],
        "columns": [x for own in parents for node in own for x in columns[node]],
        "column_siblings": [
            x for node, own in zip(challenged, parents, strict=True) for k in (*own, node) for x in tree_c.path(k)
        ],
        "replica_siblings": [x for node in challenged for x in tree_r.path(node)],
    }


def hash_randomness(left: int, right: int) -> int:
    """The hash by which updates draw phi, rho and challenges."""
    return filecoin_poseidon(FIELD, [left, right], RANDOMNESS_TAG)


def update_challenges(update: Update, comm_r_new: int, partition: int, partition_bits: int, count: int) -> list[int]:
    """The challenges of a partition of an update, which are drawn from the new replica's commitment."""
    size = update.bits - partition_bits
    digests, each = update.digests(count, size)
    drawn: list[int] = []
    for k in range(digests):
        digest = hash_randomness(comm_r_new, partition * digests + k) & ((1 << ELEMENT_BITS) - 1)
        drawn += [digest >> place * size & ((1 << size) - 1) for place in range(each)]
    return [partition << size | index for index in drawn[:count]]


def snap_inputs(arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `snap_circuit`, of a random partition."""
    update = Update(tuple(arities))
    return _update_inputs(update, random, update.partition_bits, poseidon=False)


def snap_poseidon_inputs(arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `snap_poseidon_circuit`."""
    return _update_inputs(Update(tuple(arities)), random, 0, poseidon=True)


def _update_inputs(update: Update, random: Random, partition_bits: int, *, poseidon: bool) -> dict[str, list[int]]:
    """The challenges depend on the root of the new replica, so its whole tree is made: of random leaves, but in a large
    sector of blocks of equal ones, as many as the encoding tells apart. The smallest h is chosen, with the fewest."""
    partition, high = random.randrange(1 << partition_bits), update.high_bits[0]
    blocks = update.nodes if high == 1 else 1 << high

    old = [random.randrange(FIELD.modulus) for _ in range(blocks)]
    data = [random.getrandbits(PACKED_BITS) for _ in range(blocks)]
    comm_c = random.randrange(FIELD.modulus)
    tree_old = BlockTree(update.arities, old, hash_poseidon)
    of_d = (update.arities, data, hash_poseidon) if poseidon else ((2,) * update.bits, data, hash_sha256)
    tree_d = BlockTree(*of_d)
    comm_r_old = hash_poseidon([comm_c, tree_old.root])
    phi = hash_randomness(tree_d.root, comm_r_old)
    rho = [hash_randomness(phi, part) for part in range(1 << high)]
    new = [(old[k] + data[k] * rho[k * len(rho) // blocks]) % FIELD.modulus for k in range(blocks)]
    tree_new = BlockTree(update.arities, new, hash_poseidon)
    comm_r_new = hash_poseidon([comm_c, tree_new.root])

    count = update.challenges << (update.partition_bits - partition_bits)
    challenges = update_challenges(update, comm_r_new, partition, partition_bits, count)
    block = update.nodes // blocks
    below = slice(None) if poseidon else slice(update.bits - update.partition_bits - update.apex_bits)
    inputs = {
        "public": [partition | 1 << partition_bits, comm_r_old, tree_d.root, comm_r_new],
        "comm_c": [comm_c],
        "root_r_old": [tree_old.root],
        "root_r_new": [tree_new.root],
        "leaf_r_old": [old[index // block] for index in challenges],
        "leaf_d_new": [data[index // block] for index in challenges],
        "siblings_r_old": [x for index in challenges for x in tree_old.path(index)],
        "siblings_r_new": [x for index in challenges for x in tree_new.path(index)],
        "siblings_d_new": [x for index in challenges for x in tree_d.path(index, below)],
    }
    if poseidon:
        return inputs
    apex = 1 << update.apex_bits
    inputs["apex_leaves"] = tree_d.nodes(below.stop, partition * apex, apex)
    if partition_bits:
        first = partition << update.bits - partition_bits
        inputs["partition_siblings"] = tree_d.path(first, slice(update.bits - partition_bits, None))
    return inputs
