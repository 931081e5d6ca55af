"""The circuit of a node: the proofs of its children verify, and follow one another in one job.

A child is a partition of a job (a *segment*) or another node. A node states, as its public values:

| values | |
|---|---|
| challenge | the job's challenge, the same for all segments below |
| before, after | the digest of the job's list of partitions before the first of them, and after the last |
| sum | the sum of their global buses' fractions |

The digest of a list goes on by one partition with `chained`. Keys and heights are constants of the circuit: a node has
one key for each tuple of its children's shapes. Nothing in it depends on the children's other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Scalars
from distprove.stark.field import ZERO, P, Words, e_sum
from distprove.stark.merkle import TreeClaim
from distprove.stark.multilinear.challenges import absorb_statement
from distprove.stark.multilinear.proof import MultilinearProof, tree_shapes
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify_steps
from distprove.stark.recursion.circuit import Circuit, Wire
from distprove.stark.recursion.paths import OpenedPaths
from distprove.stark.recursion.symbols import Octets, Symbols, scalar_array
from distprove.stark.transcript import packed
from kernels.cpu.poseidon2 import DIGEST
from kernels.interface.tree_hash import TreeHash

CHALLENGE_BYTES = 32
CHALLENGE = len(packed(bytes(CHALLENGE_BYTES)))
"""Scalars of a job's challenge."""
STATED = (("challenge", CHALLENGE), ("before", DIGEST), ("after", DIGEST), ("sum", 3))
"""The public values of a node."""
START = (0,) * DIGEST
"""The digest of an empty list of partitions."""
NODE = "node"
"""The name of every node in its transcript."""
NODE_CHALLENGE = bytes(CHALLENGE_BYTES)
"""Stands for the job's challenge in a node's own proof, which has no global buses: nothing is drawn from it alone."""


@dataclass(frozen=True)
class Child:
    """What a node's circuit has of a child."""

    shape: Shape
    name_length: int | None
    """Bytes of a segment's name; None for a node."""


@dataclass(frozen=True)
class Proven:
    """A child's proof with what it is about."""

    name: str
    public: tuple[int, ...]
    proof: MultilinearProof


@dataclass(frozen=True)
class Stated:
    """A node's public values."""

    challenge: bytes
    before: tuple[int, ...]
    after: tuple[int, ...]
    sum: tuple[int, ...]

    def scalars(self) -> tuple[int, ...]:
        return (*packed(self.challenge), *self.before, *self.after, *self.sum)


def chained(
    f: Arithmetic[E], shape: Shape, before: Scalars, name: Any, public: Scalars, root: Any, anchor: E
) -> Scalars:
    """The digest of a list of partitions with one more. It binds the key, and what goes into the job's challenge."""
    t = f.transcript(b"multilinear chain", TreeHash.POSEIDON2)
    t.absorb(b"key", shape.key.digest)
    t.absorb_words(b"before", before)
    absorb_statement(t, shape, name, public, root)
    t.absorb_words(b"anchor", f.array([anchor]))
    return f.drawn_scalars(t, b"after", DIGEST)


def node_circuit(children: Sequence[Child]) -> Circuit:
    """The circuit of a node with these children, in their order.

    It is satisfied by exactly the proofs that `verify` accepts, of segments of one job that follow one another.
    `check_statement` is for whoever chooses the shapes.
    """
    s = Symbols()
    given = {name: s.public(name, count) for name, count in STATED}
    challenge = Octets(given["challenge"], CHALLENGE_BYTES)
    chain, total, trees = scalar_array(given["before"]), s.zero, 0
    for number, child in enumerate(children):
        verified = _segment if child.name_length is not None else _node
        chain, terminal = verified(s, child, f"{number}.", challenge, chain, trees)
        total = s.add(total, terminal)
        trees += len(tree_shapes(child.shape))
    for own, stated in zip(chain, given["after"], strict=True):
        s.need_equal(own, stated, "the partitions are not those of the stated digest")
    s.need_equal(total, s.join(given["sum"]), "the global buses have another sum than is stated")
    return s.circuit()


def _segment(
    s: Symbols, child: Child, prefix: str, challenge: Octets, before: Scalars, first_tree: int
) -> tuple[Scalars, Wire]:
    """Verify a segment: the digest after it, and the sum of its global buses' fractions."""
    shape, length = child.shape, child.name_length or 0
    name = Octets(s.scalars(prefix + "name", len(packed(bytes(length)))), length)
    public = scalar_array(s.scalars(prefix + "public", shape.key.statement.public_values))
    proof = _given_proof(s, shape, prefix, challenge)
    verify_steps(s, shape, name, public, proof, _opened(s, shape, proof, first_tree))
    anchor: Any = proof.anchor
    after = chained(s, shape, before, name, public, proof.root, anchor)
    if "global" not in shape.leaves.scopes:
        return after, s.zero
    numerator, denominator = s.elements(proof.totals)[-2:]
    inverse = s.inverse(denominator, "a sum of the global buses' fractions has the denominator zero")
    return after, s.mul(numerator, inverse)


def _node(
    s: Symbols, child: Child, prefix: str, challenge: Octets, before: Scalars, first_tree: int
) -> tuple[Scalars, Wire]:
    """Verify a node, of the same job and from the digest on that it is given: what it states in turn."""
    after, terminal = s.scalars(prefix + "after", DIGEST), s.scalars(prefix + "sum", 3)
    public = scalar_array([*challenge.scalars, *before, *after, *terminal])
    proof = _given_proof(s, child.shape, prefix, NODE_CHALLENGE)
    verify_steps(s, child.shape, NODE.encode(), public, proof, _opened(s, child.shape, proof, first_tree))
    return scalar_array(after), s.join(terminal)


def _opened(s: Symbols, shape: Shape, proof: MultilinearProof, first_tree: int) -> OpenedPaths:
    root: Any = proof.root
    roots: Any = proof.roots
    return OpenedPaths(s, shape, root, roots, first_tree)


_ARRAYS = ("totals", "quotient", "leaves", "rounds", "openings", "reduction", "stacked", "folds", "samples", "final")
"""Fields of a proof that are one array of elements."""


def _given_proof(s: Symbols, shape: Shape, prefix: str, challenge: Any) -> MultilinearProof:
    """A proof of symbols, which a prover gives."""

    def elements(field: str, *sizes: int) -> Any:
        given = [s.element(prefix + field) for _ in range(int(np.prod(sizes)))]
        return s.array(given).reshape(*sizes, 1)

    rounds, leaves = shape.rounds, shape.leaves
    lengths = [2 * layer + 4 for layer in range(leaves.first_layer, leaves.depth)]
    fields: dict[str, Any] = {
        "challenge": challenge,
        "root": s.root(prefix + "root"),
        "anchor": s.element(prefix + "anchor"),
        "totals": elements("totals", shape.totals),
        "layers": tuple(elements("layers", length) for length in lengths),
        "quotient": elements("quotient", shape.quotient_length),
        "leaves": elements("leaves", shape.leaves_length),
        "rounds": elements("rounds", shape.row_variables, shape.degree),
        "openings": elements("openings", shape.openings),
        "reduction": elements("reduction", shape.log_height, 2),
        "stacked": elements("stacked", shape.stacked),
        "folds": elements("folds", sum(r.log_fold for r in rounds), 2),
        "roots": tuple(s.root(prefix + "roots") for _ in rounds[1:]),
        "samples": elements("samples", len(rounds) - 1),
        "nonces": s.scalars(prefix + "nonces", len(rounds)),
        "final": elements("final", 1 << shape.log_final),
    }
    return MultilinearProof(**fields, log_heights=shape.log_heights, trees=())


# -- what proofs give to a circuit ------------------------------------------------------------------------------------


def stated_by(children: Sequence[Child], proven: Sequence[Proven], challenge: bytes, before: Sequence[int]) -> Stated:
    """What a node of these proofs states. Raises InvalidProof for a sum that does not exist."""
    chain, sums = tuple(before), []
    for child, own in zip(children, proven, strict=True):
        if child.name_length is None:
            chain, terminal = node_end(own.public)
        else:
            chain = after_segment(child.shape, chain, own.name, own.public, own.proof.root, own.proof.anchor)
            terminal = _terminal(child.shape, own.proof)
        sums.append(terminal)
    return Stated(challenge, tuple(before), chain, e_sum(sums))


def after_segment(
    shape: Shape, before: Sequence[int], name: str, public: Sequence[int], root: bytes, anchor: tuple[int, int, int]
) -> tuple[int, ...]:
    """`chained` of numbers."""
    words = np.array(before, dtype=np.uint64), np.array(public, dtype=np.uint64)
    return tuple(chained(NUMBERS, shape, words[0], name.encode(), words[1], root, anchor).tolist())


def node_end(public: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """The digest and the sum that a node's public values end with."""
    a, b, c = public[-3:]
    return tuple(public[-3 - DIGEST : -3]), (a, b, c)


def _terminal(shape: Shape, proof: MultilinearProof) -> tuple[int, int, int]:
    try:
        return proof.terminal(shape) or ZERO
    except ZeroDivisionError:
        raise InvalidProof("a sum of the global buses' fractions has the denominator zero") from None


def node_fields(children: Sequence[Child], proven: Sequence[Proven], stated: Stated) -> Mapping[str, Words]:
    """The fields of the proofs as a node's circuit takes them, but for the openings of trees. Raises InvalidProof for a
    nonce that is no scalar."""
    parts = (packed(stated.challenge), stated.before, stated.after, stated.sum)
    fields = {name: _words(values) for (name, _), values in zip(STATED, parts, strict=True)}
    for number, (child, own) in enumerate(zip(children, proven, strict=True)):
        proof, prefix = own.proof, f"{number}."
        if any(nonce >= P for nonce in proof.nonces):
            raise InvalidProof("a nonce that is not below p")
        given: dict[str, Any] = {name: getattr(proof, name) for name in (*_ARRAYS, "anchor", "nonces")}
        given["layers"] = [v for layer in proof.layers for v in layer.reshape(-1).tolist()]
        given["root"], given["roots"] = _digests([proof.root]), _digests(proof.roots)
        if child.name_length is None:
            given["after"], given["sum"] = node_end(own.public)
        else:
            given["name"], given["public"] = packed(own.name.encode()), own.public
        fields |= {prefix + name: _words(values) for name, values in given.items()}
    return fields


def node_trees(children: Sequence[Child], proven: Sequence[Proven]) -> list[TreeClaim]:
    """The openings of the proofs, in the order of the circuit's trees. The circuit has the roots."""
    return [
        TreeClaim(tree, b"", opening)
        for child, own in zip(children, proven, strict=True)
        for (tree, _), opening in zip(tree_shapes(child.shape), own.proof.trees, strict=True)
    ]


def _words(values: Any) -> Words:
    return np.array(values, dtype=np.uint64).reshape(-1)


def _digests(roots: Sequence[bytes]) -> Words:
    return np.frombuffer(b"".join(roots), dtype="<u8").astype(np.uint64)
