"""The circuit of a leaf: one partition's proof verifies, of one shape. And what such a proof gives to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.field import P, Words
from distprove.stark.merkle import TreeClaim
from distprove.stark.multilinear.proof import MultilinearProof, tree_shapes
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify_steps
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.paths import OpenedPaths
from distprove.stark.recursion.symbols import Octets, Symbols
from distprove.stark.transcript import packed

CHALLENGE_BYTES = 32


_ARRAYS = ("totals", "quotient", "leaves", "rounds", "openings", "reduction", "stacked", "folds", "samples", "final")
"""Fields of a proof that are one array of elements."""


def leaf_circuit(shape: Shape, name_length: int) -> Circuit:
    """The circuit that is satisfied by exactly the proofs that `verify` accepts of this shape, for partitions whose
    names have so many bytes.

    Its public values are the job's challenge, name, public values, root, anchor and totals: all that ties a partition
    to its job. The key and the heights are constants. `check_statement` is for whoever chooses the shape.
    """
    s = Symbols()
    challenge = Octets(s.public("challenge", len(packed(bytes(CHALLENGE_BYTES)))), CHALLENGE_BYTES)
    name = Octets(s.public("name", len(packed(bytes(name_length)))), name_length)
    public = _scalars(s.public("public", shape.key.statement.public_values))
    root = s.public_root("root")
    anchor = s.join(s.public("anchor", 3))
    words = s.public("totals", 3 * shape.totals)
    totals = s.array([s.join(words[i : i + 3]) for i in range(0, len(words), 3)])

    def elements(field: str, *sizes: int) -> Any:
        count = int(np.prod(sizes))
        return s.array([s.element(field) for _ in range(count)]).reshape(*sizes, 1)

    rounds, leaves = shape.rounds, shape.leaves
    lengths = [2 * layer + 4 for layer in range(leaves.first_layer, leaves.depth)]
    later = [s.root("roots") for _ in rounds[1:]]
    given: dict[str, Any] = {
        "challenge": challenge,
        "root": root,
        "anchor": anchor,
        "totals": totals,
        "layers": tuple(elements("layers", length) for length in lengths),
        "quotient": elements("quotient", shape.quotient_length),
        "leaves": elements("leaves", shape.leaves_length),
        "rounds": elements("rounds", shape.row_variables, shape.degree),
        "openings": elements("openings", shape.openings),
        "reduction": elements("reduction", shape.log_height, 2),
        "stacked": elements("stacked", shape.stacked),
        "folds": elements("folds", sum(r.log_fold for r in rounds), 2),
        "roots": tuple(later),
        "samples": elements("samples", len(rounds) - 1),
        "nonces": s.scalars("nonces", len(rounds)),
        "final": elements("final", 1 << shape.log_final),
    }
    proof = MultilinearProof(**given, log_heights=shape.log_heights, trees=())
    verify_steps(s, shape, name, public, proof, OpenedPaths(s, shape, root, later))
    return s.circuit()


def leaf_fields(name: str, public: Sequence[int], proof: MultilinearProof) -> Mapping[str, Words]:
    """The fields of a proof as the circuit of its shape takes them, but for the openings of trees. Raises InvalidProof
    for a nonce that is no scalar."""
    if any(nonce >= P for nonce in proof.nonces):
        raise InvalidProof("a nonce that is not below p")

    def words(values: Any) -> Words:
        return np.array(values, dtype=np.uint64).reshape(-1)

    def digests(roots: Sequence[bytes]) -> Words:
        return np.frombuffer(b"".join(roots), dtype="<u8").astype(np.uint64)

    fields: dict[str, Words] = {
        "challenge": words(packed(proof.challenge)),
        "name": words(packed(name.encode())),
        "public": words(public),
        "root": digests([proof.root]),
        "layers": words([v for layer in proof.layers for v in layer.reshape(-1).tolist()]),
        "roots": digests(proof.roots),
        "nonces": words(proof.nonces),
        "anchor": words(proof.anchor),
    }
    for field in _ARRAYS:
        fields[field] = words(getattr(proof, field))
    return fields


def leaf_trees(shape: Shape, proof: MultilinearProof) -> list[TreeClaim]:
    """The openings of a proof, in the order of the circuit's trees. The circuit has the roots."""
    return [TreeClaim(tree, b"", opening) for (tree, _), opening in zip(tree_shapes(shape), proof.trees, strict=True)]


def _scalars(wires: Sequence[Any]) -> Any:
    out = np.empty(len(wires), dtype=object)
    out[:] = wires
    return out
