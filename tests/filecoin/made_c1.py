"""C1 outputs and WinningPoSts of sectors that nobody sealed: random data and labels at challenges, in such trees."""

from __future__ import annotations

from random import Random
from typing import Any

from distprove.circuits.filecoin.hashing import (
    FIELD,
    hash_poseidon,
    node_label,
    poseidon_hashes,
    sha256_hashes,
)
from distprove.circuits.filecoin.inputs import SparseTree, elements_of, sparse_trees
from distprove.circuits.filecoin.porep import DRG_PARENTS, hashed_parents, labelled_layer
from distprove.filecoin.challenges import seal_challenges
from distprove.filecoin.graph import StackedGraph
from distprove.filecoin.post import PostStatement
from distprove.filecoin.sectors import POST_PROOFS, Draw, SealProof, TreeShape, tree_d, tree_r


def octets(value: int) -> list[int]:
    return list(value.to_bytes(32, "little"))


def path_text(tree: SparseTree, shape: TreeShape, index: int, leaf: int) -> dict[str, Any]:
    """A path of a tree as `MerkleProof` has it."""
    pieces, left, siblings = dict[str, Any](), index, iter(tree.path(index))
    for name, arities in shape.parts:
        levels = []
        for arity in arities:
            levels.append({"hashes": [octets(next(siblings)) for _ in range(arity - 1)], "index": left % arity})
            left //= arity
        pieces[name] = {"path": levels}
    return {"data": {shape.tag: {**pieces, "root": octets(tree.root), "leaf": octets(leaf)}}}


def made_c1(proof: SealProof, random: Random) -> dict[str, Any]:
    """The output of C1, in the layout of filecoin-proofs-api, of a type whose challenges do not depend on comm_r."""
    assert proof.draw is Draw.INTERACTIVE
    draw, graph = elements_of(random), StackedGraph(proof.nodes, proof.porep_id, legacy=proof.version == (1, 0))
    replica_id, seed, ticket = draw().to_bytes(32, "little"), random.randbytes(32), random.randbytes(32)
    drawn = [seal_challenges(proof, replica_id, bytes(32), seed, k) for k in range(proof.partitions)]
    challenged = sorted({node for own in drawn for node in own})
    parents = {node: graph.parents(node) for node in challenged}
    layers, columns = range(1, proof.layers + 1), dict[int, list[int]]()
    labels: dict[int, list[list[int]]] = {}
    for node in challenged:  # parents in the same layer come before it
        for other in parents[node]:
            if other not in columns:
                columns[other] = [draw() for _ in layers]
        labels[node] = [
            [columns[parents[node][k]][labelled_layer(layer, k) - 1] for k in hashed_parents(layer)] for layer in layers
        ]
        number = int.from_bytes(replica_id, "little")
        made = [node_label(number, layer, node, labels[node][layer - 1]) for layer in layers]
        assert node not in columns, "a challenged node is an expander parent of one before it: take another seed"
        columns[node] = made
    data = {node: random.getrandbits(254) for node in challenged}
    encoded = {node: (columns[node][-1] + data[node]) % FIELD.modulus for node in challenged}
    hashed = dict(zip(columns, poseidon_hashes(list(columns.values())), strict=True))
    in_r, in_d = tree_r(proof.size), tree_d(proof.size)
    tree_c, tree_last = sparse_trees(in_r.arities, [hashed, encoded], poseidon_hashes, draw)
    (tree_data,) = sparse_trees(in_d.arities, [data], sha256_hashes, lambda: random.getrandbits(254))

    def column(node: int) -> dict[str, Any]:
        rows = {"index": node, "rows": list(map(octets, columns[node])), "_h": None}
        return {"column": rows, "inclusion_proof": path_text(tree_c, in_r, node, hashed[node])}

    def label(node: int, layer: int) -> dict[str, Any]:
        return {"parents": list(map(octets, labels[node][layer - 1])), "layer_index": layer, "node": node}

    def challenge(node: int) -> dict[str, Any]:
        own = list(map(column, parents[node]))
        return {
            "comm_d_proofs": path_text(tree_data, in_d, node, data[node]),
            "comm_r_last_proof": path_text(tree_last, in_r, node, encoded[node]),
            "replica_column_proofs": {
                "c_x": column(node),
                "drg_parents": own[:DRG_PARENTS],
                "exp_parents": own[DRG_PARENTS:],
            },
            "labeling_proofs": [label(node, layer) for layer in layers],
            "encoding_proof": label(node, layers[-1]),
        }

    return {
        "registered_proof": proof.name,
        "vanilla_proofs": {f"StackedDrg{proof.size}V1": [[challenge(node) for node in own] for own in drawn]},
        "comm_r": octets(hash_poseidon([tree_c.root, tree_last.root])),
        "comm_d": octets(tree_data.root),
        "replica_id": list(replica_id),
        "seed": list(seed),
        "ticket": list(ticket),
    }


def made_winning_post(size: str, randomness: bytes, random: Random, sector: int = 7) -> dict[str, Any]:
    """The vanilla proof of a WinningPoSt of one sector."""
    proof, shape, draw = POST_PROOFS[f"StackedDrgWinning{size}V1"], tree_r(size), elements_of(random)
    asked = PostStatement(proof, randomness, ((sector, bytes(32)),)).challenges(0)  # does not depend on comm_r
    leaves = {leaf: draw() for leaf in asked}
    (tree,) = sparse_trees(shape.arities, [leaves], poseidon_hashes, draw)
    comm_c = draw()
    return {
        "sector_id": sector,
        "comm_r": octets(hash_poseidon([comm_c, tree.root])),
        "vanilla_proof": {
            "sectors": [
                {
                    "inclusion_proofs": [path_text(tree, shape, leaf, leaves[leaf]) for leaf in asked],
                    "comm_c": octets(comm_c),
                    "comm_r_last": octets(tree.root),
                }
            ]
        },
    }
