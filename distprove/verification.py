"""Verifies a proof file: chooses the key that it is checked under, and reports what the verification shows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from distprove.entry import OwnProgram
from distprove.errors import FormatError, InvalidProof, UntrustedKey, UsageError
from distprove.expected import GivenPublic, Stated, StatesMore
from distprove.formats.notebook import facts_html
from distprove.options import SECURITY_BITS
from distprove.proof import (
    BoundsWork,
    Proof,
    StatesCircuit,
    TakenWrap,
    TakesOutput,
    TakesWrap,
    Verifier,
    VerifiesWhole,
)
from distprove.registry import SYSTEMS, entry_of
from distprove.system import Compares, Explains, KnowsWeakness
from kernels.host.units import count_of, format_bits


@dataclass(frozen=True, repr=False)
class Verified:
    """The result of a successful verification."""

    system: str
    job_digest: bytes
    """Digest that fixes number, order, names and public values of the partitions, and for a STARK the table heights."""
    job_expected: bool
    """Whether the caller gave the job digest that it expects."""
    key_digest: bytes
    key_given: bool
    """Whether the caller gave the key. If not, it came with the proof, which says nothing about whose key it is."""
    partitions: int
    seconds: float
    own_program: str = ""
    """The program that the caller named and the key was made from, "module:Class" or one that ships; else empty."""
    proven: dict[str, Any] = field(default_factory=dict)
    """What the proof states and with how much security, for systems that can tell (`distprove.system.Explains`)."""
    weakness: str | None = None
    """Why anybody can forge proofs under the key, in words, if the key shows that."""
    circuit: str | None = None
    """The circuit that the caller named, of which the key is, and that the statement names too; None if the caller
    named none."""
    proof_type: str | None = None
    """The type of proof that the caller named, and that the statement names too; None if the caller named none."""
    unbound: str | None = None
    """A warning where the statement names the key's circuit, or one of several types of proofs of it, and the caller
    did not: that is the prover's word then. None for other proofs."""
    public_compared: int | None = None
    """Number of public values that equal those that the caller expects; None if the caller gave none."""
    stated: tuple[Stated, ...] | None = field(default=None, repr=False)
    """What each partition states; None of systems whose partitions state public values alone."""
    wrap: TakenWrap | None = None
    """The wrap that was verified in place of the one proof. The bits of `proven` are then those of the proofs inside
    the wrap. They say nothing of the wrap's own soundness, nor of how its key was made."""

    def __repr__(self) -> str:
        own = "of the program" if entry_of(self.system).remakes_key else "the proof's own"
        key = "given" if self.key_given else own
        wrap = "" if self.wrap is None else f", wrapped under key {self.wrap.key_digest.hex()[:16]}..."
        return (
            f"<Verified: {self.system}, {count_of(self.partitions, 'partition')} in {self.seconds:.2f} s, key "
            f"{self.key_digest.hex()[:16]}... ({key}), job {self.job_digest.hex()[:16]}...{wrap}>"
        )

    def _repr_html_(self) -> str:
        """The facts that a reader has to compare, and warnings."""
        facts = {
            "partitions": self.partitions,
            "key": f"{self.key_digest.hex()} ({'given' if self.key_given else 'not given: compare it'})",
            "job": f"{self.job_digest.hex()} ({'as expected' if self.job_expected else 'as the file states'})",
            **{name: value for name, value in self.proven.items() if isinstance(value, (str, int, float))},
            **dict(self.proven.get("says") or {}),
            "weak key": self.weakness,
            "unbound": self.unbound,
            "wrap": None if self.wrap is None else f"under key {self.wrap.key_digest.hex()}",
            "seconds": f"{self.seconds:.2f}",
        }
        shown = {name: value for name, value in facts.items() if value not in (None, "")}
        return facts_html(f"verified: {self.system}", shown)


def verify_proof(
    proof: Proof,
    vk: Path | None = None,
    expected_job: bytes | None = None,
    least_security: float = SECURITY_BITS,
    *,
    trust_own_key: bool = False,
    program: OwnProgram | None = None,
    output: bytes | None = None,
    exit_code: int | None = None,
    public_input: Path | bytes | None = None,
    public: GivenPublic | None = None,
    threads: int = 1,
    tree_wires: int | None = None,
    wrap: tuple[Path, Path] | None = None,
    circuit: str | None = None,
    proof_type: str | None = None,
) -> Verified:
    """Verify all partitions as one batch. `distprove.api.verify` describes the parameters and errors. `output` takes
    the place of the proof's own, and `public` are the values that the partitions must state.

    A STARK proof names its own parameters, so a proof with fewer bits than `least_security` is refused. `tree_wires`
    bounds the circuits that are made for a job that ends in one proof. `wrap` is where the job's wrap lies, which is
    verified in place of the one proof, and its verification key. `circuit` is the circuit that the key is of, and
    `proof_type` the type of proof that is expected, where the statement names them.
    """
    if (vk is not None) + trust_own_key + (program is not None) > 1:
        raise UsageError("a verification key, a program and the trust in the proof's own key exclude each other")
    begin = time.perf_counter()
    if proof.system not in SYSTEMS:
        raise FormatError(f"the proof is of system {proof.system!r}, which this distprove cannot verify")
    entry = entry_of(proof.system)
    if program is None:
        verifier = entry.verifier(proof.verification_key, vk)
    elif entry.own_verifier is None:
        raise UsageError(f"a proof of {proof.system} is verified under a key (vk), and not with a program")
    else:
        verifier = entry.own_verifier(proof.verification_key, program)
    expected = None if public is None else public.under(verifier)
    if vk is None and verifier.key_digest() != proof.key_digest:
        raise InvalidProof("the key that came with the proof is not the one that its digest names")
    if output is not None:
        if not isinstance(verifier, TakesOutput) or not verifier.has_output:
            raise UsageError("an output is given, and the statement of this proof has none")
        proof = replace(proof, output=output)
    if tree_wires is not None:
        if proof.whole is None or not isinstance(verifier, BoundsWork):
            raise UsageError("a bound on a tree's circuits is given, and this is no job that ends in one proof")
        verifier = verifier.with_tree_wires(tree_wires)
    if wrap is not None:
        if proof.whole is None or not isinstance(verifier, TakesWrap):
            raise UsageError("the key of a wrap is given, and this is no job that ends in one proof")
        verifier = verifier.with_wrap(*wrap)
    if circuit is not None or proof_type is not None:
        _require_stated(verifier, circuit, proof_type, proof.system)
    proof.verify(verifier, expected_job, threads)
    proven: dict[str, Any] = {}
    if proof.whole is not None and isinstance(verifier, VerifiesWhole):
        proven = verifier.explain_whole(proof.partitions)
    elif isinstance(verifier, Explains):
        proven = verifier.explain(proof.partitions)
    bits = proven.get("security", {}).get("bits", math.inf)
    if not bits >= least_security:  # a least_security that is no number asks for more than there is
        raise InvalidProof(
            f"the proof holds, with {format_bits(bits)} proven bits of security; {least_security:g} are asked for "
            "(--security, least_security=)"
        )
    if vk is None and not trust_own_key and not entry.remakes_key:
        raise UntrustedKey(
            "the proof holds only under the key that the file itself carries, and anyone can make such a key; name the "
            "verification key that you trust (--vk, vk=), or say that you trust this one (--trust-own-key, "
            f"trust_own_key=True): its digest is {proof.key_digest.hex()}"
        )
    if isinstance(verifier, Compares):
        verifier.compare(proof.partitions, exit_code, public_input)
    elif exit_code is not None or public_input is not None:
        raise UsageError(f"a proof of {proof.system} states neither an exit code nor a public input of a program")
    compared = None if expected is None else expected.require(proof.partitions)
    return Verified(
        system=proof.system,
        job_digest=proof.job_digest,
        job_expected=expected_job is not None,
        key_digest=proof.key_digest,
        key_given=vk is not None,
        own_program="" if program is None else program.name,
        partitions=len(proof.partitions),
        seconds=time.perf_counter() - begin,
        proven=proven,
        weakness=verifier.weakness() if isinstance(verifier, KnowsWeakness) else None,
        circuit=circuit,
        proof_type=proof_type,
        public_compared=compared,
        stated=tuple(map(verifier.stated, proof.partitions)) if isinstance(verifier, StatesMore) else None,
        unbound=_unbound(verifier, circuit, proof_type),
        wrap=verifier.wrap_taken() if isinstance(verifier, TakesWrap) else None,
    )


def _require_stated(verifier: Verifier, circuit: str | None, proof_type: str | None, system: str) -> None:
    """Raise InvalidProof unless the statement is of this circuit and type, UsageError where it names none."""
    if not isinstance(verifier, StatesCircuit):
        named = "circuit" if circuit is not None else "type of proof"
        raise UsageError(f"a {named} is named, and a proof of {system} has no statement that names one")
    if circuit is not None and (stated := verifier.stated_circuit()) != circuit:
        raise InvalidProof(f"the statement is of circuit {stated}, and the key is of {circuit}, as you say")
    if proof_type is not None and (stated := verifier.stated_type()) != proof_type:
        raise InvalidProof(f"the statement is of type {stated}, and not of {proof_type}, which is expected")


def _unbound(verifier: Verifier, circuit: str | None, proof_type: str | None) -> str | None:
    if not isinstance(verifier, StatesCircuit):
        return None
    if circuit is None:
        return (
            f"nothing says that this key is of circuit {verifier.stated_circuit()}: the statement's size is the "
            "prover's word; --circuit (circuit=) names the circuit that the key is of"
        )
    if proof_type is None and len(types := verifier.types_of_circuit()) > 1:
        return (
            f"nothing says that the proof is to be of type {verifier.stated_type()}: the circuit has {len(types)}, and "
            f"which one the statement names is the prover's word; --proof-type (proof_type=) names the expected one of "
            f"{', '.join(types)}"
        )
    return None
