"""The key of the proofs that a job's wrap is of, from the job's file."""

from __future__ import annotations

from pathlib import Path

from distprove.errors import UsageError
from distprove.host.machine import usable_threads
from distprove.proof import Proof
from distprove.registry import entry_of
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.recursion.plan import ROOT, WRAP
from distprove.stark.recursion.tree_keys import node_key
from distprove.stark.recursion.whole import checked_key, kinds_of_listed


def key_of_wrap(proof: Proof, vk: Path | None) -> MultilinearKey:
    """The key of a second root over a job's partitions. `vk` is the key of a program that does not ship. Raises
    UsageError, InvalidProof, FormatError."""
    verifier = entry_of(proof.system).verifier(proof.verification_key, vk)
    if proof.whole is None or not isinstance(verifier, StarkVerifier):
        raise UsageError("only STARK jobs that end in one proof have a wrap: prove them with --one-proof")
    key = checked_key(verifier.key)
    return node_key(key, kinds_of_listed(key, proof.partitions)[ROOT].of_role(WRAP), usable_threads())
