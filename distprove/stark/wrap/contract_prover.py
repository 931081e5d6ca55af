"""Proves the partitions of a job that a contract reads: its second root is made of the job's segments, too."""

from __future__ import annotations

from distprove.errors import FormatError
from distprove.stark.multilinear.air import Rules
from distprove.stark.multilinear.places import READ
from distprove.stark.recursion.contract_proof import read_of, record_of, segments_in
from distprove.stark.recursion.node import Proven
from distprove.stark.recursion.node_proof import proven_of
from distprove.stark.recursion.plan import WRAP, Kind
from distprove.stark.recursion.program import node_rules
from distprove.stark.recursion.system import node_key_beside
from distprove.stark.wrap.prover import WrappedProver
from distprove.steps import Steps
from distprove.system import MemoryUse, Partition

OUTPUT = "output"
"""The field of the second root's source that has the job's output."""


class ContractProver(WrappedProver):
    """Proves partitions, nodes, what a contract reads, and the wrap of it, on one backend."""

    def _node_rules(self) -> list[Rules]:
        return [*super()._node_rules(), *node_rules(READ)]

    def _prove_node(self, kind: Kind, partition: Partition, steps: Steps) -> tuple[Proven, MemoryUse]:
        if partition.name != WRAP:
            return super()._prove_node(kind, partition, steps)
        output = partition.source[OUTPUT]
        if not isinstance(output, bytes):
            raise FormatError(f"{partition.name}: without the job's output")
        key, (below, *segments) = self._key.key, partition.children
        with steps("key"):
            keys = self._keys(kind)
            record = record_of(key, node_key_beside, kind)
            read = read_of(key, node_key_beside, kind, segments, output)
            listed, last = segments_in(key, segments), proven_of(below, keys.below.shape.key)
        return self._prove_beside(
            keys, lambda: keys.wrap, lambda held: keys.prove_read(record, listed, read, last, steps, held=held), steps
        )
