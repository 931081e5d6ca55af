"""A job that a contract reads: its wrap states the program, the exit code and the output.

Its key has places for more segments than the job may have, and parameters for all of them. So key and program's digest
do not depend on the number of segments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.stark.engine import Heights
from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.places import output_fault
from distprove.stark.options import StarkOptions
from distprove.stark.program import Program
from distprove.stark.programs import load_program
from distprove.stark.recursion.contract import PLACES, check_program
from distprove.stark.recursion.contract_proof import read_of, verify_read
from distprove.stark.recursion.node_proof import is_node, kind_in
from distprove.stark.recursion.plan import ROOT, WRAP, Kind, TreeNode, plan_tree
from distprove.stark.recursion.system import OneProofSystem, node_key_beside
from distprove.stark.recursion.tree_keys import leaf_of_contract
from distprove.stark.system import SharedFiles
from distprove.stark.wrap.contract_prover import OUTPUT, ContractProver
from distprove.stark.wrap.program_file import PROGRAM, ProgramFile
from distprove.stark.wrap.system import KEY_FILE, WrappedSystem
from distprove.system import Partition, PartitionProof
from kernels.interface.backend import Backend


class ContractSystem(WrappedSystem):
    """A job that ends in one proof, with a wrap that a contract reads."""

    read = True

    @classmethod
    def check_job(cls, options: StarkOptions) -> None:
        """As that of `StarkSystem`, and for a job without declared heights."""
        super().check_job(options)
        _require_heights(load_program(options.program, options.arguments))

    @classmethod
    def from_options(cls, options: StarkOptions) -> ContractSystem:
        """Make the system of a job. Raises as `WrappedSystem` does, and UsageError for a job that no contract reads."""
        _require_heights(load_program(options.program, options.arguments))
        system = super().from_options(options)
        assert isinstance(system, ContractSystem)
        _ = system._form  # a job that no contract reads is refused before anything is proven
        return system

    @classmethod
    def parameters(
        cls, choose: Callable[..., Any], program: Program, partitions: int, known: Heights | None, options: StarkOptions
    ) -> Any:
        """As for a job with a segment in each place, whatever the number of segments."""
        if partitions > PLACES:
            raise UsageError(
                f"a contract reads jobs of at most {PLACES} segments, and this one has {partitions}: longer segments "
                "are fewer"
            )
        heights = known or program.log_heights(partitions)
        return contract_parameters(choose, heights[0], options.queries)

    @cached_property
    def _form(self) -> ProgramFile:
        """What the program's digest follows from. Raises UsageError for a job that no contract reads."""
        output = self.output()
        fault = None if output is None else output_fault(output)
        if fault is not None:
            raise UsageError(f"program {self.program.name}: {fault}")
        form = leaf_of_contract(self._kinds[ROOT].leaves)
        try:
            check_program(self.key, form.log_heights)
        except InvalidProof as error:
            raise UsageError(str(error)) from None
        return ProgramFile(self.key.named(), form.log_heights, form.name_length)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_form"}

    @staticmethod
    def _tree_over(partitions: Mapping[str, LogHeights]) -> tuple[TreeNode, ...]:
        """The second root is made of the last node and of all segments."""
        *nodes, root = plan_tree(partitions)
        return (*nodes, TreeNode(WRAP, (*root.children, *partitions)), root)

    @cached_property
    def _node_plan(self) -> list[Partition]:
        return [self._with_output(part) if part.name == WRAP else part for part in super()._node_plan]

    def _with_output(self, part: Partition) -> Partition:
        output = self.output()
        assert output is not None, "a statement that a contract reads has one"
        digest = canonical.digest("distprove/stark read/1", part.digest, output)
        return replace(part, digest=digest, source={**part.source, OUTPUT: output})

    # -- proofs -----------------------------------------------------------------------------------------------------

    def prover(self, shared: SharedFiles, backend: Backend) -> ContractProver:
        return ContractProver(self, backend, shared.get(KEY_FILE))

    def verify(self, proof: PartitionProof) -> bool:
        if not is_node(proof) or kind_in(proof, self.key).role != WRAP:
            return super().verify(proof)
        try:
            verify_read(node_key_beside, proof, self.key)
        except InvalidProof:
            return False
        return True

    def made_of(self, partition: Partition, proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
        if partition.name != WRAP:
            return super().made_of(partition, proof, children)
        try:
            if not is_node(proof) or proof.data["kind"] != partition.source["kind"]:
                return False
            kind, (_, *segments) = Kind.from_record(partition.source["kind"], self.key, partition.name), children
            read = read_of(self.key, node_key_beside, kind, segments, partition.source[OUTPUT])
            return proof.public == read.scalars()
        except (InvalidProof, FormatError):
            return False

    def bind_whole(self, proofs: Sequence[PartitionProof]) -> tuple[list[PartitionProof], dict[str, Any]]:
        """As that of `OneProofSystem`: the wrap has no salt."""
        return OneProofSystem.bind_whole(self, proofs)

    def published(self, proofs: Sequence[PartitionProof]) -> Mapping[str, bytes]:
        """The files of the wrap, and the program's."""
        return {**super().published(proofs), PROGRAM: self._form.to_bytes()}


def _require_heights(program: Program) -> None:
    """Raise UsageError for a program whose heights are not declared: those of a run follow from its private input, and
    its public digest from them."""
    if program.name_bytes is None:
        raise UsageError(f"program {program.name}: no contract reads its jobs, whose heights are not declared")
    if program.declared_heights is None:
        raise UsageError(
            "the heights of a run may tell of its private input, and a contract's program is public: declare them "
            "(`arguments.heights`, --heights). `distprove key` of the program with --contract prints those of a run"
        )


def contract_parameters(choose: Callable[..., Any], heights: Sequence[int | None], queries: int | None) -> Any:
    """The parameters of jobs that a contract reads, whose segments have these heights. `choose` is as that of
    `StarkSystem.parameters`. Raises UsageError."""
    return replace(choose(PLACES, queries=queries, known=[tuple(heights)] * PLACES), places=PLACES)
