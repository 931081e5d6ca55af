"""Proves a node from the proofs of its children."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import MultilinearProvingKey
from distprove.stark.multilinear.shape import Shape
from distprove.stark.recursion.node import NODE, NODE_CHALLENGE, Child, Proven
from distprove.stark.recursion.program import NodeProgram, node_source
from distprove.steps import Steps


def prove_node(
    pk: MultilinearProvingKey, proven: Sequence[Proven], challenge: bytes, before: Sequence[int], steps: Steps
) -> Proven:
    """Prove the node of these children, in a job of this challenge and after partitions of the digest `before`. `pk` is
    the proving key of its `NodeProgram`.

    Raises InvalidProof where a child does not verify.
    """
    program = pk.program
    assert isinstance(program, NodeProgram), "the key of a node"
    with steps("witness"):
        inputs = program.inputs(node_source(proven, challenge, before))
    committed = commit(pk, NODE, inputs, steps)
    proof: MultilinearProof = prove(pk, committed, NODE_CHALLENGE, steps)
    return Proven(NODE, committed.commitment.public, proof)


def node_child(pk: MultilinearProvingKey) -> Child:
    """What a node above has of a node under this key."""
    return Child(Shape(pk.key, tuple(pk.key.fixed_heights)), None)
