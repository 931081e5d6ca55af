"""The key of the proofs that a job's wrap is of, from the job's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.host.machine import usable_threads
from distprove.options import SECURITY_BITS
from distprove.proof import Proof
from distprove.registry import SYSTEMS, entry_of
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.recursion.contract import check_program
from distprove.stark.recursion.plan import ROOT, WRAP, Form
from distprove.stark.recursion.tree_keys import WRAP_BITS, leaf_of_contract, node_key, planned_layers, verifiers_key
from distprove.stark.recursion.whole import checked_key, heights_of_listed, kinds_within, with_layers
from distprove.stark.wrap.contract_verifier import layers_of_places
from distprove.stark.wrap.verifier import wrap_layer
from kernels.host.units import format_bits

LEAST = min(SECURITY_BITS, WRAP_BITS)
"""Bits that are asked for by default: a verifier's, or as many as a wrap has at most."""


@dataclass(frozen=True)
class SecondRoot:
    """The key whose proofs a wrap's circuit verifies, and the proven bits of the tree that ends in such a proof."""

    key: MultilinearKey
    bits: float


def second_root_of(
    proof: Proof, vk: Path | None, least_security: float = LEAST, tree_wires: int | None = None
) -> SecondRoot:
    """The second root over a job's partitions. `vk` is the key of a program that does not ship. A file names its key
    and partitions, so no key of the tree is made before the work for it, and its bits, are known.

    Raises UsageError, FormatError for a proof of another system, InvalidProof for another key than the file says or
    fewer than `least_security` bits, TooMuchWork for circuits of more than `tree_wires`.
    """
    if proof.system not in SYSTEMS:
        raise FormatError(f"the proof is of system {proof.system!r}, of which this distprove makes no wrap")
    verifier = entry_of(proof.system).verifier(proof.verification_key, vk)
    if proof.whole is None or not isinstance(verifier, StarkVerifier):
        raise UsageError("only STARK jobs that end in one proof have a wrap: prove them with --one-proof")
    key = checked_key(verifier.key)
    if key.digest != proof.key_digest:
        raise InvalidProof(f"the proof is for key {proof.key_digest.hex()}, not for {key.digest.hex()}")
    kinds = kinds_within(key, proof.partitions, tree_wires)
    forms = [Form.of(name, own) for name, own in heights_of_listed(key, proof.partitions).items()]
    if key.params.places is None:
        layers = [*planned_layers(key, forms)[:-1], wrap_layer(key, verifiers_key, proof.partitions)]
    else:  # the circuit is for jobs with a segment in each place, too
        check_program(key, leaf_of_contract(kinds[ROOT].leaves).log_heights)
        layers = layers_of_places(key, verifiers_key, kinds[ROOT])
    bits = float(with_layers({}, layers)["bits"])
    if not bits >= least_security:
        raise InvalidProof(
            f"a wrap of this job has {format_bits(bits)} proven bits of security; {least_security:g} are asked for"
        )
    return SecondRoot(node_key(key, kinds[ROOT].of_role(WRAP), usable_threads()), bits)
