"""The verifier of one proof under Poseidon2 over BN254 as an R1CS over BN254, from the same code as the verifier.

The one public value is the digest of what the partition states, its public values, and of a secret salt. Of a proof
that a contract reads the public values themselves are stated, in five numbers. The key, its heights, the name and the
job's challenge are constants: a Groth16 key stands for them. So the job's commitments must
not decide the challenge, and proofs of several partitions must not have to sum to zero: keys with a global bus are
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.linear import weighted_sum
from distprove.circuits.wrap.arithmetic import WrapArithmetic
from distprove.circuits.wrap.draws import DRAWS, UncheckedRows
from distprove.circuits.wrap.opened import WrapOpened, inputs_of_trees
from distprove.circuits.wrap.statement import SALT_WORDS, read_terms, read_values, salt_words, statement_digest
from distprove.errors import InvalidProof, UsageError
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.opened import OpenedRows
from distprove.stark.multilinear.places import READ
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.shape import Shape
from distprove.stark.multilinear.verifier import check_shape, check_statement, verify_steps
from kernels.maths.curves import BN254

FIELDS = (
    *("anchor", "totals", "layers", "quotient", "leaves", "rounds"),
    *("openings", "reduction", "stacked", "folds", "samples", "final"),
)
"""Fields of a proof whose elements the circuit has as inputs of these names, three wires each."""


def verifier_circuit(shape: Shape, name: str, challenge: bytes) -> tuple[CircuitBuilder, dict[str, int]]:
    """The circuit that proofs of this shape satisfy, for a partition of this name in a job of this challenge; and its
    constraints by what they are for. Raises UsageError for keys under another hash or with a global bus, and for a name
    or heights that no proof may have, such as those of too few bits."""
    if shape.key.needs_barrier:
        raise UsageError(f"program {shape.key.program} has a global bus: its proofs hold together with others alone")
    try:
        check_shape(shape.key, name, shape)
    except InvalidProof as error:
        raise UsageError(str(error)) from None
    return unchecked_circuit(shape, name, challenge)


def unchecked_circuit(shape: Shape, name: str, challenge: bytes) -> tuple[CircuitBuilder, dict[str, int]]:
    """`verifier_circuit` for any shape, to count and to try: its public value may say nothing of the job."""
    b = CircuitBuilder(BN254)
    f = WrapArithmetic(b)
    count = shape.key.statement.public_values
    public = f.given("public", count)
    wires = [value.parts[0].value for value in public]
    if is_read(shape.key):
        for output, terms in read_terms(wires).items():
            b.output(output, weighted_sum([factor for factor, _ in terms], [wire for _, wire in terms]))
    else:
        salt = f.given("salt", SALT_WORDS)
        b.output("statement", f.sponge([*wires, *(value.parts[0].value for value in salt)]))
    proof = _given_proof(f, shape, challenge)
    opened = WrapOpened(f, shape, proof.root, proof.roots)  # type: ignore[arg-type]
    verify_steps(f, shape, shape.key.digest, name.encode(), f.scalars(public), proof, opened)
    f.counts["all"] = b.constraints
    return b, f.counts


def _given_proof(f: WrapArithmetic, shape: Shape, challenge: bytes) -> MultilinearProof:
    """A proof of wires."""

    def elements(name: str, *sizes: int) -> Any:
        return f.array(f.given_elements(name, int(np.prod(sizes)))).reshape(*sizes, 1)

    rounds, leaves = shape.rounds, shape.leaves
    lengths = [2 * layer + 4 for layer in range(leaves.first_layer, leaves.depth)]
    layers, ends = elements("layers", sum(lengths)), np.cumsum([0, *lengths])
    later = len(rounds) - 1
    roots = f.b.private_input("roots", later) if later else None
    fields: dict[str, Any] = {
        "challenge": challenge,
        "root": f.b.private_input("root"),
        "anchor": elements("anchor", 1)[0, 0],
        "totals": elements("totals", shape.totals),
        "layers": tuple(layers[begin:end] for begin, end in pairwise(ends)),
        "quotient": elements("quotient", shape.quotient_length),
        "leaves": elements("leaves", shape.leaves_length),
        "rounds": elements("rounds", shape.row_variables, shape.degree),
        "openings": elements("openings", shape.openings),
        "reduction": elements("reduction", shape.log_height, 2),
        "stacked": elements("stacked", shape.stacked),
        "folds": elements("folds", sum(r.log_fold for r in rounds), 2),
        "roots": () if roots is None else tuple(roots[i] for i in range(later)),
        "samples": elements("samples", later),
        "nonces": tuple(f.given_nonce(f"nonce {i}") for i in range(len(rounds))),
        "final": elements("final", 1 << shape.log_final),
    }
    return MultilinearProof(**fields, log_heights=shape.log_heights, trees=())


def is_read(key: MultilinearKey) -> bool:
    """Whether a contract reads what proofs under this key state."""
    return key.statement.public == READ


def stated_values(public: Sequence[int], salt: bytes | None) -> tuple[int, ...]:
    """The public values of the circuit for a proof with these public values. `salt` is None where a contract reads
    them."""
    return read_values(public) if salt is None else (statement_digest(public, salt),)


def verifier_inputs(
    shape: Shape, name: str, public: Sequence[int], proof: MultilinearProof, salt: bytes | None
) -> dict[str, object]:
    """The inputs of the circuit that a proof and a salt give; None for a proof that a contract reads. A proof that does
    not hold may give inputs too, which do not satisfy the circuit. Raises InvalidProof for one without any."""
    check_statement(shape.key, name, tuple(public), shape)
    opened, words = UncheckedRows(shape, proof), np.array(public, dtype=np.uint64)
    verify_steps(DRAWS, shape, shape.key.digest, name.encode(), words, proof, opened)
    return inputs_of(shape, public, proof, opened, salt)


def inputs_of(
    shape: Shape, public: Sequence[int], proof: MultilinearProof, opened: OpenedRows, salt: bytes | None
) -> dict[str, object]:
    """The inputs of the circuit by a proof, the rows that its verifier was given, and a salt if there is one."""
    found: dict[str, object] = {"public": [str(v) for v in public], "root": _number(proof.root)}
    found["salt"] = [] if salt is None else [str(word) for word in salt_words(salt)]
    for field in FIELDS:
        value = getattr(proof, field)
        arrays = value if field == "layers" else [np.array(value, dtype=np.uint64)]
        found[field] = [str(word) for array in arrays for word in np.asarray(array).reshape(-1).tolist()]
    found["roots"] = [_number(root) for root in proof.roots]
    found |= {f"nonce {i}": str(nonce) for i, nonce in enumerate(proof.nonces)}
    return {name: value for name, value in {**found, **inputs_of_trees(shape, opened)}.items() if value != []}


def _number(root: bytes) -> str:
    return str(int.from_bytes(root, "little"))
