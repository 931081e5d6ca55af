"""The verifier of a wrapped job: a Groth16 proof in place of its root's, beside the list of its partitions.

The one public value is the digest of what the root must state, and of a salt. What the root states follows from the
key of the partitions and from the list (`distprove.stark.recursion.root`), so the digest binds each partition's name,
heights, public values and commitments, the keys of leaves and nodes, and the order of all. What the job says follows
from the list as ever. The salt is beside the list, says nothing, and hides all this from those who have the wrap alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from distprove.circuits.wrap.statement import statement_digest
from distprove.errors import InvalidProof
from distprove.groth16.verifier import verify
from distprove.proof import salt_in
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.recursion.node_proof import NodeKey
from distprove.stark.recursion.plan import ROOT, WRAP
from distprove.stark.recursion.root import root_statement, verify_listed
from distprove.stark.recursion.security import Layer, node_layers
from distprove.stark.recursion.whole import (
    check_whole,
    checked_key,
    commitments_of,
    kinds_of_listed,
    sum_in,
    tree_of_listed,
)
from distprove.stark.wrap.files import Wrap
from distprove.system import PartitionProof


def verify_wrap(
    key: Any,
    node_key: NodeKey,
    partitions: Sequence[PartitionProof],
    whole: dict[str, Any],
    wrap: Wrap,
    output: bytes | None,
    tree_wires: int | None = None,
) -> None:
    """Raise InvalidProof or FormatError unless a wrap proves that these partitions are one job under `key`.

    Of `whole` the sum of the global buses and the salt count, which are stated too; the root's proof is not looked at.
    That the wrap's key is of the right circuit is for whoever trusts it. Raises as `recursion.whole.verify_whole`.
    """
    # 1. What the root must state follows from the key and the list, after the checks that a circuit leaves out.
    checked = checked_key(key)
    check_whole(whole)
    listed, salt = commitments_of(partitions), salt_in(whole, ROOT)
    keys = tree_of_listed(checked, node_key, partitions, tree_wires)
    stated = root_statement(keys, sum_in(whole["sum"]), listed, output)
    # 2. The wrap states that, and holds.
    if wrap.public != (statement_digest(stated.scalars(), salt),):
        raise InvalidProof("the wrap is not of this job: its public value is another than its partitions have")
    if not verify(wrap.key, wrap.public, wrap.proof):
        raise InvalidProof("the wrap's Groth16 proof does not verify under the key that is given")
    # 3. The partitions are one job.
    verify_listed(checked, stated, listed, output)


def wrap_layer(key: MultilinearKey, node_key: NodeKey, partitions: Sequence[PartitionProof]) -> Layer:
    """The layer of the proof that a wrap's circuit verifies. Groth16 itself has no proven bits, and adds no layer (some
    100 by what is known of BN254, docs/aggregation.md). Raises InvalidProof, FormatError, UsageError."""
    kind = kinds_of_listed(key, partitions)[ROOT].of_role(WRAP)
    (layer,) = node_layers([(node_key(key, kind), 1)])
    return replace(layer, program="wrapped node")
