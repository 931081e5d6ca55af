"""Inputs of Filecoin's circuits without a sector: random leaves and siblings in trees that agree on their roots."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from random import Random

from distprove.circuits.filecoin.gadgets import PACKED_BITS
from distprove.circuits.filecoin.porep import ALL_PARENTS, hashed_parents, labelled_layer
from distprove.circuits.filecoin.poseidon import filecoin_poseidon
from distprove.errors import UsageError
from kernels.maths.curves import BLS12_381

FIELD = BLS12_381.fr


def hash_poseidon(children: Sequence[int]) -> int:
    return filecoin_poseidon(FIELD, children)


def hash_sha256(elements: Sequence[int]) -> int:
    """SHA-256 of elements of 32 bytes, little-endian, without its two highest bits."""
    data = b"".join(element.to_bytes(32, "little") for element in elements)
    return digest_value(data)


def digest_value(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest(), "little") & ((1 << PACKED_BITS) - 1)


class SparseTree:
    """A Merkle tree of which only what some leaves' paths need exists: siblings that nothing determines are random."""

    def __init__(
        self,
        arities: Sequence[int],
        leaves: Mapping[int, int],
        hashed: Callable[[Sequence[int]], int],
        draw: Callable[[], int],
    ) -> None:
        self._arities = tuple(arities)
        self._levels = [dict(leaves)]
        for arity in arities:
            level, above = self._levels[-1], {}
            for parent in sorted({index // arity for index in level}):
                children = range(parent * arity, (parent + 1) * arity)
                above[parent] = hashed([level[k] if k in level else level.setdefault(k, draw()) for k in children])
            self._levels.append(above)

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


def leaves_of(arities: Sequence[int]) -> int:
    """The number of leaves of a tree."""
    leaves = 1
    for arity in arities:
        leaves *= arity
    return leaves


def post_inputs(sectors: int, challenges: int, arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `post_circuit`, with distinct sectors and random challenges."""
    inputs: dict[str, list[int]] = {name: [] for name in ("public", "comm_c", "comm_r_last", "leaf", "siblings")}

    def draw() -> int:
        return random.randrange(FIELD.modulus)

    for _ in range(sectors):
        challenged = [random.randrange(leaves_of(arities)) for _ in range(challenges)]
        leaves = {index: draw() for index in challenged}
        tree, comm_c = SparseTree(arities, leaves, hash_poseidon, draw), draw()
        inputs["public"] += [hash_poseidon([comm_c, tree.root]), *challenged]
        inputs["comm_c"].append(comm_c)
        inputs["comm_r_last"].append(tree.root)
        for index in challenged:
            inputs["leaf"].append(leaves[index])
            inputs["siblings"] += tree.path(index)
    return inputs


def porep_inputs(challenges: int, layers: int, arities: Sequence[int], random: Random) -> dict[str, list[int]]:
    """Inputs of `porep_circuit`, with distinct random challenges and random parents that are not challenged.

    The circuit does not know the graph, so parents may be any nodes. Raises UsageError when all nodes are challenged.
    """
    nodes = leaves_of(arities)
    if challenges >= nodes:
        raise UsageError(f"{challenges} challenges leave no parents among {nodes} nodes")

    def draw() -> int:
        return random.randrange(FIELD.modulus)

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
            _label(
                replica_id, layer, node, [columns[own[k]][labelled_layer(layer, k) - 1] for k in hashed_parents(layer)]
            )
            for layer in range(1, layers + 1)
        ]
    tree_c = SparseTree(arities, {node: hash_poseidon(column) for node, column in columns.items()}, hash_poseidon, draw)
    tree_d = SparseTree([2] * (nodes.bit_length() - 1), data, hash_sha256, lambda: random.getrandbits(PACKED_BITS))
    encoded = {node: (columns[node][-1] + data[node]) % FIELD.modulus for node in challenged}
    tree_r = SparseTree(arities, encoded, hash_poseidon, draw)

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


def _label(replica_id: int, layer: int, node: int, parents: Sequence[int]) -> int:
    head = replica_id.to_bytes(32, "little") + layer.to_bytes(4, "big") + node.to_bytes(8, "big") + bytes(20)
    return digest_value(head + b"".join(parent.to_bytes(32, "little") for parent in parents))
