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
from distprove.stark.wrap.kept import development_key, kept_key, require_key_folder
from distprove.stark.wrap.prover import key_facts, read_wrap_key, wrap
from distprove.steps import Steps
from distprove.system import DeviceTask, PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend


class WrappedSystem(OneProofSystem):
    """A job that ends in one proof, and has a wrap of it. Implements `Wraps` of `distprove.proof`, too."""

    wrap_key: Path | None = None
    """The Groth16 key's file; None for a development key of this machine."""

    @classmethod
    def from_options(cls, options: StarkOptions) -> WrappedSystem:
        """Make the system of a job. Raises as `OneProofSystem` does, InputError or InvalidKey for a bad key, and
        InputError where a development key cannot be kept."""
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
            require_key_folder()  # which the job needs at its end
            return {"insecure_wrap": True}
        return key_facts(read_wrap_key(self.wrap_key))

    def wrap(
        self, proofs: Sequence[PartitionProof], salt: bytes, run: Callable[[DeviceTask], Any]
    ) -> tuple[Mapping[str, bytes], Mapping[str, float]]:
        """The files of the wrap and the seconds of each step, from the proofs of the whole plan. Raises InvalidProof,
        InvalidKey, InputError."""
        (second,) = (proof for proof in proofs if proof.name == WRAP)
        steps = Steps()
        with steps("key"):
            key = node_key(self.key, self._kinds[ROOT].of_role(WRAP), usable_threads())
            path = self.wrap_key or _development_key(key, run)
        told = None if self.wrap_key is None else self._key_facts
        made = wrap(key, second, path, salt, run, told=told, threads=usable_threads(), steps=steps)
        return made.contents(), steps.seconds


def _development_key(key: MultilinearKey, run: Callable[[DeviceTask], Any]) -> Path:
    """The file of a development key in this machine's cache. `run` may make it on another host, which has a cache of
    its own: then it is made here on the CPU. Raises InputError, ResourceError."""
    if (found := kept_key(key)) is not None:
        return found
    run(KeyMaking(key))
    if (found := kept_key(key)) is not None:
        return found
    with CpuBackend(threads=usable_threads()) as cpu:
        return development_key(key, cpu)


@dataclass(frozen=True)
class KeyMaking:
    """A `DeviceTask`: makes a development key of the wrap's circuit in the cache of the machine that does it."""

    key: MultilinearKey = field(repr=False)

    @property
    def large(self) -> bool:
        return True

    def run(self, backend: Backend, host: Backend | None) -> None:
        development_key(self.key, backend)
