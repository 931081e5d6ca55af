"""A job whose one proof is wrapped in a Groth16 proof: its tree has a second root, which a circuit over BN254
verifies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from distprove.host.machine import usable_threads
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.options import StarkOptions
from distprove.stark.recursion.plan import ROOT, WRAP, TreeNode, plan_tree
from distprove.stark.recursion.system import OneProofSystem
from distprove.stark.recursion.tree_keys import node_key
from distprove.stark.wrap.kept import development_key
from distprove.stark.wrap.prover import read_wrap_key, wrap
from distprove.steps import Steps
from distprove.system import DeviceTask, PartitionProof
from kernels.interface.backend import Backend


class WrappedSystem(OneProofSystem):
    """A job that ends in one proof, and has a wrap of it. Implements `Wraps` of `distprove.proof`, too."""

    wrap_key: Path | None = None
    """The Groth16 key's file; None for a development key of this machine."""

    @classmethod
    def from_options(cls, options: StarkOptions) -> WrappedSystem:
        """Make the system of a job. Raises as `OneProofSystem` does, and InputError or InvalidKey for a bad key."""
        system = super().from_options(options)
        assert isinstance(system, WrappedSystem)
        system.wrap_key = options.wrap_key
        _ = system._key_facts  # an unusable key is told before anything starts
        return system

    @staticmethod
    def _tree_over(names: Sequence[str]) -> tuple[TreeNode, ...]:
        *nodes, root = plan_tree(names)
        return (*nodes, TreeNode(WRAP, root.children), root)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self._key_facts}

    @cached_property
    def _key_facts(self) -> dict[str, Any]:
        """What a report has of the Groth16 key."""
        if self.wrap_key is None:
            return {"insecure_wrap": True}
        key = read_wrap_key(self.wrap_key)
        weak = key.insecure or key.verification_key.weakness is not None
        return {"insecure_wrap": weak, "wrap_key": key.verification_key.digest().hex()}

    def wrap(
        self, proofs: Sequence[PartitionProof], run: Callable[[DeviceTask], Any]
    ) -> tuple[Mapping[str, bytes], Mapping[str, float]]:
        """The files of the wrap and the seconds of each step, from the proofs of the whole plan. Raises InvalidProof,
        InvalidKey, InputError."""
        (second,) = (proof for proof in proofs if proof.name == WRAP)
        steps = Steps()
        with steps("key"):
            key = node_key(self.key, self._kinds[ROOT].of_role(WRAP), usable_threads())
            path = self.wrap_key or run(KeyMaking(key))
        return wrap(key, second, path, run, threads=usable_threads(), steps=steps).contents(), steps.seconds


@dataclass(frozen=True)
class KeyMaking:
    """A `DeviceTask`: a development key of the wrap's circuit, in this machine's cache. It comes to the file's path."""

    key: MultilinearKey = field(repr=False)

    @property
    def large(self) -> bool:
        return True

    def run(self, backend: Backend, host: Backend | None) -> Path:
        return development_key(self.key, backend)
