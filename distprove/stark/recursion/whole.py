"""The one proof of a job: the root of its tree, and what the partitions are listed with beside it.

Layout, as `distprove.proof` has it: a partition's data are {anchor, heights, root}, those fields of its own proof; the
one proof is {proof, sum}: the root's proof, and the sum of the global buses' fractions. That of a job with a wrap is
{proof, salt, sum}. The salt goes into the wrap's public value alone (`distprove.stark.wrap.verifier`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from distprove.errors import FormatError, InvalidProof
from distprove.proof import SALT, check_fields, salt_in
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import pack, unpack
from distprove.stark.field import Ext, element
from distprove.stark.heights import LogHeights, decode_heights
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import FIELDS
from distprove.stark.multilinear.shape import heights_fit
from distprove.stark.recursion.node import Identity, node_statement
from distprove.stark.recursion.node_proof import NodeKey, identity_in
from distprove.stark.recursion.plan import INNER, MOST_LEAVES, ROOT, Form, Kind, kinds_of, leaves_of, plan_tree
from distprove.stark.recursion.root import TreeVerifyingKeys, root_statement, verify_listed, verify_root
from distprove.stark.recursion.security import Layer, bits_of, tree_layers
from distprove.stark.recursion.tables import USED_BITS
from distprove.stark.recursion.work import check_work
from distprove.system import PartitionProof
from kernels.interface.tree_hash import TreeHash

_LISTED: dict[str, type] = {"heights": bytes, "root": bytes, "anchor": bytes}
WHOLE: dict[str, type] = {"proof": dict, "sum": bytes}
"""The fields of the one proof, beside the salt of a job with a wrap."""


def listed(partition: PartitionProof) -> PartitionProof:
    """A proven partition as it stands beside the one proof."""
    data = {name: partition.data[name] for name in _LISTED}
    return PartitionProof(partition.name, partition.digest, partition.public, data)


def whole_of(root: PartitionProof) -> dict[str, Any]:
    """The one proof of a job, from that of its tree's root."""
    _, total = node_statement(root.public)
    return {"proof": root.data["proof"], "sum": pack(np.array(total, dtype=np.uint64))}


def check_whole(whole: dict[str, Any]) -> None:
    """Raise FormatError unless this has the fields of the one proof of a job, which may have a wrap."""
    check_fields(whole, WHOLE | ({SALT: bytes} if SALT in whole else {}), ROOT)
    if SALT in whole:
        salt_in(whole, ROOT)


def heights_of_listed(key: MultilinearKey, partitions: Sequence[PartitionProof]) -> dict[str, LogHeights]:
    """The heights of listed partitions, by name. Raises FormatError."""
    found = {}
    for partition in partitions:
        check_fields(partition.data, _LISTED, partition.name)
        found[partition.name] = decode_heights(partition.data["heights"])
        if not heights_fit(key, found[partition.name]):
            raise FormatError(f"{partition.name}: not the heights of a partition under this key")
    return found


def verify_whole(
    key: Any,
    node_key: NodeKey,
    partitions: Sequence[PartitionProof],
    whole: dict[str, Any],
    output: bytes | None,
    tree_wires: int | None = None,
    *,
    verified: PartitionProof | None = None,
) -> None:
    """Raise InvalidProof or FormatError unless `whole` proves that these partitions are one job under `key`.

    The keys of the tree follow from `key` and the list, so that no proof chooses any. Raises OutputMissing without an
    output that the job has, and TooMuchWork before any key is made if they need circuits of more than `tree_wires`.
    `verified` is the root as a partition, if `verify_node` has accepted it in this process. It is then compared with
    what the list asks for, and not verified again.
    """
    # 1. The form of all that is given, before keys are made.
    checked = checked_key(key)
    check_whole(whole)
    if SALT in whole and not whole["proof"]:
        raise InvalidProof(
            "the file has a list of partitions and no proof but its wrap: name the wrap's key (--wrap-vk)"
        )
    check_fields(whole["proof"], FIELDS, ROOT)
    heights_of_listed(checked, partitions)
    total, listed = sum_in(whole["sum"]), commitments_of(partitions)
    # 2. The keys, and the proof under them.
    keys = tree_of_listed(checked, node_key, partitions, tree_wires)
    if verified is None:
        verify_root(keys, whole["proof"], total, listed, output)
        return
    stated = root_statement(keys, total, listed, output)
    if verified.data["proof"] != whole["proof"] or identity_in(verified) != Identity.of(keys.root):
        raise InvalidProof("the root's proof is another one than was verified, or under another key")
    if tuple(verified.public) != stated.scalars():
        raise InvalidProof("the root states other values than the list of partitions asks for")
    verify_listed(checked, stated, listed, output)


def tree_of_listed(
    key: Any, node_key: NodeKey, partitions: Sequence[PartitionProof], tree_wires: int | None = None
) -> TreeVerifyingKeys:
    """The keys of the tree over listed partitions of any key. Raises InvalidProof, FormatError, and TooMuchWork before
    any key is made if they need circuits of more than `tree_wires`."""
    checked = checked_key(key)
    kinds = kinds_within(checked, partitions, tree_wires)
    leaves = tuple(Identity.of(node_key(checked, kind)) for kind in kinds.values() if kind.is_leaf)
    root = kinds[ROOT]
    node = Identity.of(node_key(checked, root.of_role(INNER)))
    return TreeVerifyingKeys(checked, leaves, node, node_key(checked, root))


def kinds_within(key: MultilinearKey, partitions: Sequence[PartitionProof], tree_wires: int | None) -> dict[str, Kind]:
    """`kinds_of_listed`, of a tree whose keys need circuits of at most `tree_wires`. Raises TooMuchWork for others."""
    kinds = kinds_of_listed(key, partitions)
    check_work(key, kinds[ROOT].leaves, tree_wires)
    return kinds


def checked_key(key: Any) -> MultilinearKey:
    """The key, of any engine, if jobs under it can end in one proof. Raises InvalidProof."""
    if not isinstance(key, MultilinearKey) or key.params.tree_hash is not TreeHash.POSEIDON2:
        raise InvalidProof("a job ends in one proof under the multilinear engine and Poseidon2 alone")
    if key.params.grinding_bits > USED_BITS:
        raise InvalidProof(f"the key asks for more than {USED_BITS} bits of work, which no circuit verifies")
    return key


def commitments_of(partitions: Sequence[PartitionProof]) -> list[Commitment]:
    """What the root's verifier has of listed partitions."""
    return [
        Commitment(p.name, decode_heights(p.data["heights"]), p.public, p.data["root"], p.data["anchor"])
        for p in partitions
    ]


def sum_in(data: bytes) -> Ext:
    """The sum of the global buses as a file has it. Raises FormatError."""
    return element(unpack(data, (3,), ROOT))


def layers_of(key: MultilinearKey, node_key: NodeKey, partitions: Sequence[PartitionProof]) -> list[Layer]:
    """The layers of the tree over listed partitions, with their bits."""
    kinds = kinds_of_listed(key, partitions)
    heights = list(heights_of_listed(key, partitions).values())
    return tree_layers(key, heights, [(node_key(key, kind), count) for kind, count in Counter(kinds.values()).items()])


def with_layers(record: dict[str, Any], layers: Sequence[Layer]) -> dict[str, Any]:
    """A record of the partitions' security with the layers of their tree, the weakest of which gives the bits."""
    return {**record, "bits": bits_of(layers), "layers": [layer.to_record() for layer in layers]}


def kinds_of_listed(key: MultilinearKey, partitions: Sequence[PartitionProof]) -> dict[str, Kind]:
    """The kind of each node of the tree over listed partitions, by its name. Raises InvalidProof, FormatError."""
    heights = heights_of_listed(key, partitions)
    if len(heights) != len(partitions):
        raise InvalidProof("two partitions have the same name")
    if len(set(leaves_of([Form.of(name, own) for name, own in heights.items()]))) > MOST_LEAVES:
        raise InvalidProof(f"partitions of more than {MOST_LEAVES} different fours of heights and lengths of names")
    return kinds_of(plan_tree(heights), heights)
