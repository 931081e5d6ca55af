"""The circuit of a node: the proofs of its children verify, and all are of one job.

The children are partitions of a job (*segments*) or other nodes; a node of segments is a *leaf*. A node states, as its
public values:

| values | |
|---|---|
| challenge | the job's challenge, the same for all segments below |
| list | the digest of its children, and so of all segments below and of the keys of the leaves |
| sum | the sum of their global buses' fractions |
| node_key | the identity of the key of nodes above leaves, the same in the whole tree |

A third kind of children are the roots of jobs' trees, each of a job of its own: a node of these is a *jobs' leaf*. Its
list has the key and all public values of each, and it states the challenge of 32 zero bytes and the sum zero.

The rules of all nodes are the same: a circuit is preprocessed columns. Keys of the same heights and parameters differ
in their roots alone, so a node takes a child's key as a value: that of nodes, which it states, or that of a leaf, which
goes into the digest. All children but the first may be absent. An absent one has the first one's proof, which verifies
and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E, Scalars
from distprove.stark.encoding import unpack
from distprove.stark.field import ZERO, P, Words, e_sum
from distprove.stark.heights import encode_heights
from distprove.stark.merkle import TreeClaim
from distprove.stark.multilinear.key import MultilinearKey, with_root
from distprove.stark.multilinear.places import segment_digest, segment_words
from distprove.stark.multilinear.proof import MultilinearProof, tree_shapes
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import verify_steps
from distprove.stark.recursion.circuit import Circuit, Wire
from distprove.stark.recursion.paths import OpenedPaths
from distprove.stark.recursion.symbols import Octets, Symbols, scalar_array
from distprove.stark.transcript import packed
from kernels.cpu.poseidon2 import DIGEST
from kernels.interface.tree_hash import TreeHash

MOST_CHILDREN = 4
"""Children of a node."""
DIGEST_BYTES = 32
"""Bytes of a job's challenge, of a key's digest and of a root."""
OCTETS = len(packed(bytes(DIGEST_BYTES)))
"""Scalars of so many bytes."""
KEY = OCTETS + DIGEST
"""Scalars of a key's identity."""
STATED = (("challenge", OCTETS), ("list", DIGEST), ("sum", 3), ("node_key", KEY))
"""The public values of a node."""
NODE = "node"
"""The name of every node in its transcript."""
NODE_CHALLENGE = bytes(DIGEST_BYTES)
"""Stands for the job's challenge in a node's own proof, which has no global buses: nothing is drawn from it alone. The
nodes of a tree over jobs state it as their challenge."""
LIST, JOBS = b"multilinear list", b"multilinear jobs"
"""The purposes of the transcripts of lists: of segments or nodes, and of the roots of jobs."""


@dataclass(frozen=True)
class Identity:
    """What tells a key of nodes from others of the same rules, heights and parameters."""

    digest: bytes
    root: bytes
    """Of the preprocessed columns."""

    @classmethod
    def of(cls, key: MultilinearKey) -> Identity:
        return cls(key.digest, key.preprocessed_root)

    def scalars(self) -> tuple[int, ...]:
        """(KEY,) numbers below p."""
        return (*packed(self.digest), *map(int, unpack(self.root, (DIGEST,), "a key's root")))


@dataclass(frozen=True)
class Child:
    """What a node's circuit has of a child."""

    shape: Shape
    name_length: int | None
    """Bytes of a segment's name; None for a node."""
    of_job: bool = False
    """Whether it is the root of a job's tree, among those of other jobs."""

    @property
    def form(self) -> Hashable:
        """What the part of the circuit that verifies the child depends on."""
        return self.shape.key.digest, self.shape.log_heights, self.name_length, self.of_job


def any_node(key: MultilinearKey) -> Child:
    """What a circuit has of a child under a key of nodes that is a value there: all of this one but its root."""
    rules = with_root(key, b"")
    return Child(Shape(rules, tuple(rules.fixed_heights)), None)


@dataclass(frozen=True)
class Proven:
    """A child's proof with what it is about."""

    name: str
    public: tuple[int, ...]
    proof: MultilinearProof
    key: Identity | None = None
    """The key of a node; None for a segment."""


@dataclass(frozen=True)
class Stated:
    """A node's public values."""

    challenge: bytes
    list: tuple[int, ...]
    sum: tuple[int, ...]
    node_key: Identity

    def scalars(self) -> tuple[int, ...]:
        return (*packed(self.challenge), *self.list, *self.sum, *self.node_key.scalars())


# -- what a node states of its children, over an arithmetic -----------------------------------------------------------


def list_words(f: Arithmetic[E], children: Scalars, purpose: bytes = LIST) -> list[Any]:
    """The digest of a node's children: for each whether it is there (1 or 0), then its words, all zero if it is not.

    `purpose` is `LIST`, or `JOBS` for the roots of jobs.
    """
    t = f.transcript(purpose, TreeHash.POSEIDON2)
    t.absorb_words(b"children", children)
    return list(f.drawn_scalars(t, b"list", DIGEST))


# -- the circuit ------------------------------------------------------------------------------------------------------


def node_circuit(children: Sequence[Child]) -> Circuit:
    """The circuit of a node with room for these children, in their order.

    It is satisfied by exactly the proofs that `verify` accepts: of segments of one job, or of roots of any jobs.
    `check_statement` is for whoever chooses the shapes.
    """
    s = Symbols()
    given = {name: s.public(name, count) for name, count in STATED}
    if purpose_of(children) == JOBS:
        for scalar in given["challenge"]:
            s.need_equal(scalar, s.zero, "a tree over jobs has no challenge of a job")
    listed: list[Wire] = []
    total, trees = s.zero, 0
    inputs = [wire for wires in given.values() for wire in wires]
    for number, child in enumerate(children):
        verify_child = partial(_verified, s, child, f"{number}.", given, trees)
        *words, terminal = s.repeated(child.form, f"{number}.", trees, inputs, verify_child)
        present = s.flag(f"{number}.present") if number else s.one
        listed += [present, *[s.mul(present, word) for word in words]]
        total = s.add(total, s.mul(present, terminal))
        trees += len(tree_shapes(child.shape))
    digest = list_words(s, scalar_array(listed), purpose_of(children))
    for own, stated in zip(digest, given["list"], strict=True):
        s.need_equal(own, stated, "the children are not those of the stated digest")
    s.need_equal(total, s.join(given["sum"]), "the global buses have another sum than is stated")
    return s.circuit()


def purpose_of(children: Sequence[Child]) -> bytes:
    """The purpose of the transcript of a list of these children, which are all roots of jobs, or none is."""
    assert len({child.of_job for child in children}) == 1, "roots of jobs, or segments or nodes"
    return JOBS if children[0].of_job else LIST


Given = Mapping[str, tuple[Wire, ...]]
"""The public values."""


def _verified(s: Symbols, child: Child, prefix: str, given: Given, first_tree: int) -> list[Wire]:
    """Verify a child: its words in the list, and then the sum of the global buses' fractions."""
    verified = _job if child.of_job else _segment if child.name_length is not None else _node
    words, terminal = verified(s, child, prefix, given, first_tree)
    return [*words, terminal]


def _segment(s: Symbols, child: Child, prefix: str, given: Given, first_tree: int) -> tuple[list[Wire], Wire]:
    """Verify a segment: its words in the list, and the sum of its global buses' fractions."""
    shape, length = child.shape, child.name_length or 0
    name = Octets(s.scalars(prefix + "name", len(packed(bytes(length)))), length)
    public = scalar_array(s.scalars(prefix + "public", shape.key.statement.public_values))
    proof = _given_proof(s, shape, prefix, Octets(given["challenge"], DIGEST_BYTES))
    fixed = shape.key.preprocessed_root
    root = s.fixed(tuple(np.frombuffer(fixed, dtype="<u8").tolist())) if fixed else None
    verify_steps(s, shape, shape.key.digest, name, public, proof, _opened(s, shape, proof, root, first_tree))
    anchor: Any = proof.anchor
    heights = encode_heights(shape.log_heights)
    words = segment_words(s, shape.key.digest, heights, name, public, proof.root, anchor)
    if "global" not in shape.leaves.scopes:
        return words, s.zero
    numerator, denominator = s.elements(proof.totals)[-2:]
    inverse = s.inverse(denominator, "a sum of the global buses' fractions has the denominator zero")
    return words, s.mul(numerator, inverse)


def _node(s: Symbols, child: Child, prefix: str, given: Given, first_tree: int) -> tuple[list[Wire], Wire]:
    """Verify a node of the same job and tree: its words in the list, and the sum that it states.

    The words are whether its key is that of nodes, the digest that it states, and its key.
    """
    own, key = s.flag(prefix + "own"), s.scalars(prefix + "key", KEY)
    for mine, stated in zip(key, given["node_key"], strict=True):
        s.need_equal(s.mul(own, s.sub(mine, stated)), s.zero, "a node's key is not the one of nodes")
    listed, terminal = s.scalars(prefix + "list", DIGEST), s.scalars(prefix + "sum", 3)
    verify_node_steps(s, child, prefix, key, [*given["challenge"], *listed, *terminal, *given["node_key"]], first_tree)
    return [own, *listed, *key], s.join(terminal)


def _job(s: Symbols, child: Child, prefix: str, given: Given, first_tree: int) -> tuple[list[Wire], Wire]:
    """Verify the root of a job: its key and all public values as its words in the list, and the sum zero."""
    key, public = s.scalars(prefix + "key", KEY), s.scalars(prefix + "public", sum(count for _, count in STATED))
    verify_node_steps(s, child, prefix, key, public, first_tree)
    return [*key, *public], s.zero


def verify_node_steps(
    s: Symbols, child: Child, prefix: str, key: Sequence[Wire], public: Sequence[Wire], first_tree: int
) -> None:
    """Verify the proof of a node under a key that is a value, with these public values."""
    proof = _given_proof(s, child.shape, prefix, NODE_CHALLENGE)
    digest, root = Octets(tuple(key[:OCTETS]), DIGEST_BYTES), s.join(key[OCTETS:])
    opened = _opened(s, child.shape, proof, root, first_tree)
    verify_steps(s, child.shape, digest, NODE.encode(), scalar_array(public), proof, opened)


def _opened(s: Symbols, shape: Shape, proof: MultilinearProof, fixed: Wire | None, first_tree: int) -> OpenedPaths:
    root: Any = proof.root
    roots: Any = proof.roots
    return OpenedPaths(s, shape, fixed, root, roots, first_tree)


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


def list_digest(children: Sequence[Sequence[int]], room: int, purpose: bytes = LIST) -> tuple[int, ...]:
    """The digest of the list of a node with `room` for children, which has these, each by its words. `purpose` is that
    of `list_words`."""
    size = 1 + len(children[0])
    words = [word for child in children for word in (1, *child)] + [0] * (size * (room - len(children)))
    return tuple(map(int, list_words(NUMBERS, np.array(words, dtype=np.uint64), purpose)))


def job_words(key: Identity, public: Sequence[int]) -> tuple[int, ...]:
    """The words of a job's root in the list of a jobs' leaf."""
    return (*key.scalars(), *public)


def node_words(stated_list: Sequence[int], key: Identity, node_key: Identity) -> tuple[int, ...]:
    """The words of a node in the list of the one above it."""
    return (int(key == node_key), *stated_list, *key.scalars())


def stated_by(children: Sequence[Child], proven: Sequence[Proven], challenge: bytes, node_key: Identity) -> Stated:
    """What a node of these proofs states. Raises InvalidProof for a sum that does not exist."""
    words: list[tuple[int, ...]] = []
    sums: list[tuple[int, int, int]] = []
    for child, own in zip(children, proven, strict=False):
        terminal = ZERO
        if child.of_job:
            assert own.key is not None, "a node"
            words.append(job_words(own.key, own.public))
        elif own.key is not None:
            stated, terminal = node_statement(own.public)
            words.append(node_words(stated, own.key, node_key))
        else:
            key, heights = child.shape.key.digest, child.shape.log_heights
            words.append(segment_digest(key, heights, own.name, own.public, own.proof.root, own.proof.anchor))
            terminal = _terminal(child.shape, own.proof)
        sums.append(terminal)
    listed = list_digest(words, len(children), purpose_of(children))
    return Stated(challenge, listed, e_sum(sums), node_key)


def node_statement(public: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """The digest of the list and the sum among a node's public values."""
    a, b, c = public[OCTETS + DIGEST :][:3]
    return tuple(public[OCTETS:][:DIGEST]), (a, b, c)


def _terminal(shape: Shape, proof: MultilinearProof) -> tuple[int, int, int]:
    try:
        return proof.terminal(shape) or ZERO
    except ZeroDivisionError:
        raise InvalidProof("a sum of the global buses' fractions has the denominator zero") from None


def in_every_place(children: Sequence[Child], proven: Sequence[Proven]) -> list[Proven]:
    """A proof for each place: the first one's where a child is absent."""
    return [*proven, *[proven[0]] * (len(children) - len(proven))]


def node_fields(children: Sequence[Child], proven: Sequence[Proven], stated: Stated) -> Mapping[str, Words]:
    """The fields of the proofs as a node's circuit takes them, but for the openings of trees. Raises InvalidProof for a
    nonce that is no scalar."""
    parts = (packed(stated.challenge), stated.list, stated.sum, stated.node_key.scalars())
    fields = {name: _words(values) for (name, _), values in zip(STATED, parts, strict=True)}
    for number, own in enumerate(in_every_place(children, proven)):
        prefix = f"{number}."
        fields |= proof_fields(own.proof, prefix)
        given: dict[str, Any] = {"present": [int(number < len(proven))]}
        if children[number].of_job:
            assert own.key is not None, "a node"
            given["key"], given["public"] = own.key.scalars(), own.public
        elif own.key is not None:
            given["list"], given["sum"] = node_statement(own.public)
            given["own"], given["key"] = [int(own.key == stated.node_key)], own.key.scalars()
        else:
            given["name"], given["public"] = packed(own.name.encode()), own.public
        fields |= {prefix + name: _words(values) for name, values in given.items()}
    return fields


def proof_fields(proof: MultilinearProof, prefix: str) -> dict[str, Words]:
    """The fields of one proof, but for the openings of its trees. Raises InvalidProof for a nonce that is no scalar."""
    if any(nonce >= P for nonce in proof.nonces):
        raise InvalidProof("a nonce that is not below p")
    given: dict[str, Any] = {name: getattr(proof, name) for name in (*_ARRAYS, "anchor", "nonces")}
    given["layers"] = [v for layer in proof.layers for v in layer.reshape(-1).tolist()]
    given["root"], given["roots"] = _digests([proof.root]), _digests(proof.roots)
    return {prefix + name: _words(values) for name, values in given.items()}


def node_trees(children: Sequence[Child], proven: Sequence[Proven]) -> list[TreeClaim]:
    """The openings of the proofs, in the order of the circuit's trees. The circuit has the roots."""
    return [
        TreeClaim(tree, b"", opening)
        for child, own in zip(children, in_every_place(children, proven), strict=True)
        for (tree, _), opening in zip(tree_shapes(child.shape), own.proof.trees, strict=True)
    ]


def _words(values: Any) -> Words:
    return np.array(values, dtype=np.uint64).reshape(-1)


def _digests(roots: Sequence[bytes]) -> Words:
    return np.frombuffer(b"".join(roots), dtype="<u8").astype(np.uint64)
