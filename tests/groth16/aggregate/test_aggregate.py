"""Aggregates: what both verifiers accept, and what they refuse."""

from __future__ import annotations

import contextlib
import pickle
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from distprove.errors import CurveMismatch, DistproveError, InvalidProof, UsageError
from distprove.groth16.aggregate import prover, transcript
from distprove.groth16.aggregate.aggregator import Aggregation, aggregate_jobs, run_on
from distprove.groth16.aggregate.jobs import AggregatedJobs, Statement
from distprove.groth16.aggregate.proof import Aggregate, Final, Round, size_of
from distprove.groth16.aggregate.transcript import Challenge, Transcript
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.proof import Proof
from distprove.system import PartitionProof
from kernels.cpu.backend import CpuBackend
from kernels.cpu.group import neg
from kernels.cpu.pairing import combine_g1, pairing_product
from kernels.cpu.target_group import product_of_powers
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints
from tests.support import second_aggregate_verifier as second
from tests.support.aggregates import aggregated, job, keys_of, secret_of

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
INCLUDED = b"what is stated"


def public_values(count: int) -> list[list[int]]:
    return [[i, 7 * i + 1] for i in range(count)]


def proofs_of(curve: Curve, public: Sequence[Sequence[int]]) -> list[Groth16Proof]:
    return [secret_of(curve).prove(list(values), seed=i) for i, values in enumerate(public)]


def made_of(curve: Curve, proofs: Sequence[Groth16Proof]) -> Aggregate:
    """An aggregate of any proofs, true or not."""
    with CpuBackend() as cpu:
        return prover.aggregate(keys_of(curve), proofs, INCLUDED, cpu)


def holds(curve: Curve, public: Sequence[Sequence[int]], made: Aggregate, included: bytes = INCLUDED) -> bool:
    return verify(secret_of(curve).key, keys_of(curve).verifier, public, included, made)


def second_holds(curve: Curve, public: Sequence[Sequence[int]], data: bytes) -> bool:
    srs = keys_of(curve).verifier
    fields = second.msgpack.unpackb(srs.to_bytes())
    try:
        second.verify(curve.name, plain_key(curve), fields, public, INCLUDED, data)
    except second.Refused:
        return False
    return True


def plain_key(curve: Curve) -> second.Key:
    """The verification key as the second verifier takes it."""
    fields = secret_of(curve).key.to_dict()
    return second.Key(**{name: value for name, value in fields.items() if name != "curve"})


# -- accepted ----------------------------------------------------------------------------------------------------------


@each_curve
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_an_aggregate_is_accepted(curve: Curve, count: int) -> None:
    made = aggregated(curve, job(curve, public_values(count)))
    read = AggregatedJobs.from_bytes(made.to_bytes())
    assert read == made
    assert read.count == count
    assert len(read.aggregate) == size_of(curve, max(1, (count - 1).bit_length()))
    read.verify(secret_of(curve).key, keys_of(curve).verifier, [job(curve, public_values(count)).job_digest])


@each_curve
def test_several_jobs_in_one(curve: Curve) -> None:
    jobs = [job(curve, public_values(2), "a"), job(curve, public_values(3), "b")]
    made = aggregated(curve, *jobs)
    digests = [one.job_digest for one in jobs]
    assert [one.digest for one in made.jobs] == digests
    made.verify(secret_of(curve).key, keys_of(curve).verifier, digests[::-1])
    with pytest.raises(InvalidProof, match="other jobs"):
        made.verify(secret_of(curve).key, keys_of(curve).verifier, digests[:1])


@pytest.mark.slow
@each_curve
def test_the_second_verifier_accepts_the_file(curve: Curve) -> None:
    jobs = [job(curve, public_values(2), "a"), job(curve, public_values(1), "b")]
    made = aggregated(curve, *jobs)
    key = secret_of(curve).key.digest()
    given = plain_key(curve), key, keys_of(curve).verifier.to_bytes(), [one.job_digest for one in jobs]
    second.verify_file(made.to_bytes(), *given)
    other = made.with_statement(None)
    statement = Statement.of([job(curve, public_values(2), "a"), job(curve, [[0, 2]], "b")])
    with pytest.raises(InvalidProof, match="not that of the aggregate's jobs"):
        other.with_statement(statement).verify(secret_of(curve).key, keys_of(curve).verifier)


def test_the_statement_may_lie_elsewhere() -> None:
    made = aggregated(BN254, job(BN254, public_values(2)))
    bare = AggregatedJobs.from_bytes(made.with_statement(None).to_bytes())
    with pytest.raises(UsageError, match="without its statement"):
        bare.verify(secret_of(BN254).key, keys_of(BN254).verifier)
    assert made.statement is not None
    whole = bare.with_statement(Statement.from_bytes(made.statement.to_bytes()))
    whole.verify(secret_of(BN254).key, keys_of(BN254).verifier)
    assert whole == made


@pytest.mark.parametrize("public", [(), (1 << 249,)], ids=["no value", "one value"])
def test_what_is_written_of_many_partitions_is_read(public: tuple[int, ...]) -> None:
    """Encoding and decoding only: nothing is proven here."""
    count, key = 100_000, secret_of(BN254).key.digest()
    partitions = tuple(PartitionProof(f"p{i}", b"", public, {}) for i in range(count))
    statement = Statement.of([Proof("groth16", key, {}, partitions)])
    jobs = statement.digests(key)
    made = AggregatedJobs(BN254, key, bytes(32), False, jobs, statement, bytes(size_of(BN254, 17)))
    assert AggregatedJobs.from_bytes(made.to_bytes()) == made
    read = Statement.from_bytes(statement.to_bytes())
    assert read == statement
    assert read.jobs == (tuple((f"p{i}", public) for i in range(count)),)
    assert read.digests(key) == jobs


WITHOUT_C = {"one": (1,), "a half": (0, 1), "the other half": (2, 3), "all": (0, 1, 2, 3)}


@each_curve
@pytest.mark.parametrize("which", WITHOUT_C)
def test_proofs_whose_c_is_infinity(curve: Curve, which: str) -> None:
    """They are valid, as of circuits without private wires whose prover does not blind; commitments to C then are 1."""
    public, indices = public_values(4), WITHOUT_C[which]
    proofs = [secret_of(curve).prove(v, seed=i, without_c=i in indices) for i, v in enumerate(public)]
    made = aggregated(curve, job(curve, public, proofs=proofs))
    AggregatedJobs.from_bytes(made.to_bytes()).verify(secret_of(curve).key, keys_of(curve).verifier)
    read = Aggregate.from_bytes(curve, made.aggregate)
    assert read.to_bytes() == made.aggregate
    if which == "one":
        assert read.for_bellperson() == made.aggregate
    else:
        with pytest.raises(UsageError, match="bellperson has no bytes"):
            read.for_bellperson()
    public[0][0] += 1
    assert not holds(curve, public, read, made.included)


@pytest.mark.slow
def test_the_second_verifier_accepts_proofs_whose_c_is_infinity() -> None:
    public = public_values(2)
    made = made_of(BLS12_381, [secret_of(BLS12_381).prove(v, seed=i, without_c=True) for i, v in enumerate(public)])
    assert second_holds(BLS12_381, public, made.to_bytes())
    assert not second_holds(BLS12_381, [[5, 5], public[1]], made.to_bytes())


# -- refused: other proofs than those stated ---------------------------------------------------------------------------


def false_proof(curve: Curve) -> Groth16Proof:
    return replace(secret_of(curve).prove([1, 2], seed=9), c=generator(curve, Group.G1))


OTHERS: dict[str, Callable[[Curve, list[Groth16Proof]], list[Groth16Proof]]] = {
    "false": lambda curve, p: [p[0], false_proof(curve), *p[2:]],
    "replaced": lambda curve, p: [p[0], secret_of(curve).prove([5, 5], seed=5), *p[2:]],
    "doubled": lambda curve, p: [p[0], p[0], *p[2:]],
    "left out": lambda curve, p: [*p[1:], p[-1]],
    "moved": lambda curve, p: [p[1], p[0], *p[2:]],
}


@each_curve
@pytest.mark.parametrize("name", OTHERS)
def test_other_proofs_than_those_stated(curve: Curve, name: str) -> None:
    public = public_values(4)
    proofs = proofs_of(curve, public)
    assert holds(curve, public, made_of(curve, proofs))
    assert not holds(curve, public, made_of(curve, OTHERS[name](curve, proofs)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["false", "moved"])
def test_the_second_verifier_refuses_other_proofs(name: str) -> None:
    """All kinds fail at one check, that of the proofs' equations, and take 3 s each."""
    public = public_values(2)
    made = made_of(BLS12_381, OTHERS[name](BLS12_381, proofs_of(BLS12_381, public)))
    assert not second_holds(BLS12_381, public, made.to_bytes())


@each_curve
def test_other_public_values(curve: Curve) -> None:
    public = public_values(4)
    made = made_of(curve, proofs_of(curve, public))
    for i in range(4):
        for k in range(2):
            other = [list(values) for values in public]
            other[i][k] += 1
            assert not holds(curve, other, made)
    assert not holds(curve, public, made, b"something else is stated")
    assert not holds(curve, public[:3], made)  # the last proof is no padding
    r = curve.fr.modulus
    for bad in ([*public[:3], [r, 1]], [*public[:3], [1]], public[:2], [*public, public[-1]], []):
        with pytest.raises(InvalidProof):
            holds(curve, bad, made)


@each_curve
def test_public_values_out_of_range_are_named(curve: Curve) -> None:
    public = public_values(4)
    made, r = made_of(curve, proofs_of(curve, public)), curve.fr.modulus
    for bad in (-1, r, r + 7, 2**256 - 1, 2**256, 2**256 + 7, 7.0, "7", None):
        with pytest.raises(InvalidProof, match=f"proof 2: public value 1 is not in the scalar field of {curve.title}"):
            holds(curve, [*public[:2], [2, bad], public[3]], made)  # type: ignore[list-item]
    for lengths in ([2], [2, 15, 3], []):
        with pytest.raises(InvalidProof, match=f"proof 2: {count_of(len(lengths), 'public value')}, the key has 2"):
            holds(curve, [*public[:2], lengths, public[3]], made)
    with pytest.raises(InvalidProof, match="proof 1: 3 public values"):  # as many values in all
        holds(curve, [public[0], [1, 8, 2], [15], public[3]], made)
    assert holds(curve, [public[0], [True, 8], *public[2:]], made)  # an integer, if not of its plain type


@each_curve
def test_public_values_that_what_is_included_does_not_bind_are_forged(curve: Curve) -> None:
    """Why a verifier computes `included` from the public values that it verifies: an aggregator's binds none."""
    public = public_values(4)
    made = made_of(curve, proofs_of(curve, public))
    r, _, _ = transcript.challenges(made, INCLUDED)
    forged = [list(values) for values in public]
    forged[0][0] = (forged[0][0] + r) % curve.fr.modulus
    forged[1][0] -= 1
    assert forged != public
    assert holds(curve, forged, made)
    stated = aggregated(curve, job(curve, public))
    other = Statement.of([job(curve, forged, proofs=proofs_of(curve, public))])
    jobs = other.digests(stated.key_digest)
    for forgery in (replace(stated, statement=other), replace(stated, statement=other, jobs=jobs)):
        with pytest.raises(InvalidProof, match=r"not that of|does not verify"):
            forgery.verify(secret_of(curve).key, keys_of(curve).verifier)


@each_curve
def test_padding_is_the_last_proof_and_nothing_else(curve: Curve) -> None:
    public = public_values(3)
    proofs = proofs_of(curve, public)
    assert holds(curve, public, made_of(curve, [*proofs, proofs[-1]]))
    assert not holds(curve, public, made_of(curve, [*proofs, proofs[0]]))


def test_the_aggregator_names_what_does_not_hold() -> None:
    public = public_values(3)
    proofs = proofs_of(BN254, public)
    spoiled = job(BN254, public, proofs=[proofs[0], false_proof(BN254), proofs[2]])
    with CpuBackend() as cpu, pytest.raises(InvalidProof, match=r"cannot be aggregated: p1$"):
        aggregate_jobs([spoiled], keys_of(BN254), run_on(cpu, 1))


def test_an_aggregation_can_be_sent() -> None:
    """What a worker elsewhere makes is what is made here."""
    one, expected = job(BLS12_381, public_values(3)), aggregated(BLS12_381, job(BLS12_381, public_values(3)))

    def elsewhere(task: Aggregation) -> bytes:
        sent = pickle.loads(pickle.dumps(task))
        assert sent.srs.curve is BLS12_381
        assert sent.srs.n == 4
        with CpuBackend() as cpu:
            return sent.run(cpu, None)

    assert aggregate_jobs([one], keys_of(BLS12_381), elsewhere) == expected


def test_what_was_made_elsewhere_is_verified() -> None:
    one, good = job(BN254, public_values(2)), aggregated(BN254, job(BN254, public_values(2))).aggregate
    other = aggregated(BN254, job(BN254, [[0, 1], [2, 8]])).aggregate
    for made in (b"", good[:-1], good[:-40] + bytes(40), good[:9] + bytes([good[9] ^ 1]) + good[10:], other):
        with pytest.raises(InvalidProof, match="though every proof does"):
            aggregate_jobs([one], keys_of(BN254), lambda _, made=made: made)
    assert aggregate_jobs([one], keys_of(BN254), lambda _: good).aggregate == good


def test_damaged_keys_are_named() -> None:
    """Whatever is wrong with their points: the proofs hold, and the keys do not."""
    one, keys = job(BN254, public_values(4)), keys_of(BN254)
    with CpuBackend() as cpu:
        for row in range(4, 8):  # w, of both secrets; the verifier's part is of row 1
            for which in range(2):
                spoiled = [powers.copy() for powers in keys.g1]
                spoiled[which].reshape(len(spoiled[which]), -1)[row, 0] ^= 1
                with pytest.raises(InvalidProof, match=r"aggregation keys damaged\? \(") as told:
                    aggregate_jobs([one], replace(keys, g1=tuple(spoiled)), run_on(cpu, 1))
                assert told.value.__cause__ is not None


def test_what_cannot_be_aggregated() -> None:
    one = job(BN254, public_values(2))
    with CpuBackend() as cpu:
        for jobs, keys, kind, text in (
            ([], keys_of(BN254), UsageError, "at least one"),
            ([one, one], keys_of(BN254), UsageError, "twice"),
            ([one, job(BLS12_381, public_values(1))], keys_of(BN254), UsageError, "different keys"),
            ([one], keys_of(BLS12_381), CurveMismatch, "aggregation keys over"),
            ([job(BN254, public_values(9))], keys_of(BN254), UsageError, "to the 8 of the keys"),
            ([replace(one, system="stark")], keys_of(BN254), UsageError, "only proofs of groth16"),
        ):
            with pytest.raises(kind, match=text):
                aggregate_jobs(jobs, keys, run_on(cpu, 1))


# -- refused: other keys -----------------------------------------------------------------------------------------------


def test_keys_of_another_ceremony() -> None:
    public = public_values(2)
    made = made_of(BN254, proofs_of(BN254, public))
    other = keys_of(BN254, seed=1).verifier
    own = keys_of(BN254).verifier
    assert holds(BN254, public, made)
    for srs in (
        other,
        replace(own, alpha1=other.alpha1, alpha2=other.alpha2),
        replace(own, beta1=other.beta1, beta2=other.beta2),
        replace(own, alpha1=own.beta1, alpha2=own.beta2, beta1=own.alpha1, beta2=own.alpha2),
    ):
        assert not verify(secret_of(BN254).key, srs, public, INCLUDED, made)
    whole = aggregated(BN254, job(BN254, public))
    with pytest.raises(InvalidProof, match="other aggregation keys"):
        whole.verify(secret_of(BN254).key, other)
    with pytest.raises(InvalidProof, match="other aggregation keys"):  # the mark of insecure keys is part of them
        whole.verify(secret_of(BN254).key, replace(own, insecure=False))
    with pytest.raises(InvalidProof, match="differ on whether"):
        replace(whole, insecure=False).verify(secret_of(BN254).key, own)


# -- refused: version 1 of the transcript ------------------------------------------------------------------------------


class Version1(Transcript):
    """bellperson's first version: neither the first round's values nor the final A, B and C count."""

    def fold(self, values: Round) -> int:
        if self._number == 0:
            self._number = 1
            return self._last
        return super().fold(values)

    def opening(self, final: Final, last: Round) -> int:
        point = Challenge(self._curve, "random-z").scalar(pow(self._last, -1, self._curve.fr.modulus))
        return point.points(Group.G2, *final.v).points(Group.G1, *final.w).draw()


class Forger(Version1):
    """States the product of A and B that false public values need, and corrects it by the first round's cross term."""

    public: list[list[int]]

    def products(self, ip_ab: Words, agg_c: Words) -> None:
        curve, n = self._curve, len(self.public)
        key, r, p = secret_of(curve).key, self._r, curve.fr.modulus
        powers = [pow(r, i, p) for i in range(n)]
        factors = [
            sum(powers),
            *(sum(x * values[k] for x, values in zip(powers, self.public, strict=True)) for k in (0, 1)),
        ]
        inputs = combine_g1(curve, key.ic, scalars_from_ints(curve.fr, factors))
        alpha = combine_g1(curve, key.alpha1[None], scalars_from_ints(curve.fr, factors[:1]))
        g2 = np.stack([key.beta2, key.gamma2, key.delta2])
        needed = pairing_product(curve, np.stack([alpha, inputs, agg_c]), g2).reshape(12, -1)
        self._missing = product_of_powers(curve, np.stack([ip_ab, needed]), scalars_from_ints(curve.fr, [1, -1]))
        ip_ab[:] = needed
        super().products(ip_ab, agg_c)

    def fold(self, values: Round) -> int:
        if self._number == 0:  # the challenge is known: left^x makes up for what is missing
            both = np.stack([values.left.targets[0], self._missing])
            values.left.targets[0] = product_of_powers(
                self._curve, both, scalars_from_ints(self._curve.fr, [1, self._last])
            )
        return super().fold(values)


@each_curve
def test_transcripts_of_the_first_version(curve: Curve, monkeypatch: pytest.MonkeyPatch) -> None:
    public = public_values(4)
    with monkeypatch.context() as patch:
        patch.setattr(prover, "Transcript", Version1)
        made = made_of(curve, proofs_of(curve, public))
        assert not holds(curve, public, made)
        patch.setattr(transcript, "Transcript", Version1)
        assert holds(curve, public, made)


@each_curve
def test_a_forgery_that_the_first_version_allows(curve: Curve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs of nothing, for public values that have no witness."""
    public = [[1000, 1], [2, 3], [4, 5], [6, 7]]
    worthless = [false_proof(curve)] * 4
    with monkeypatch.context() as patch:
        patch.setattr(Forger, "public", public, raising=False)
        patch.setattr(prover, "Transcript", Forger)
        made = made_of(curve, worthless)
        assert not holds(curve, public, made)
        patch.setattr(transcript, "Transcript", Version1)
        assert holds(curve, public, made)


@pytest.mark.slow
def test_the_second_verifier_refuses_the_first_version(monkeypatch: pytest.MonkeyPatch) -> None:
    public = public_values(2)
    with monkeypatch.context() as patch:
        patch.setattr(prover, "Transcript", Version1)
        made = made_of(BLS12_381, proofs_of(BLS12_381, public))
    assert not second_holds(BLS12_381, public, made.to_bytes())


# -- refused: any field changed ----------------------------------------------------------------------------------------


def fields(made: Aggregate) -> list[tuple[str, Words]]:
    """Every element, as a view that can be written: what it is of, and its words."""
    found = [("target", made.com_ab[i]) for i in range(2)] + [("target", made.com_c[i]) for i in range(2)]
    found += [("target", made.ip_ab), ("g1", made.agg_c)]
    for values in made.rounds:
        for side in (values.left, values.right):
            found += [*(("target", side.targets[i]) for i in range(5)), ("g1", side.z_c)]
    final = made.final
    found += [("g1", final.a), ("g2", final.b), ("g1", final.c)]
    found += [("g2", row) for row in (*final.v, *made.opening_v)] + [("g1", row) for row in (*final.w, *made.opening_w)]
    return found


def change(curve: Curve, kind: str, element: Words, others: list[Words], rng: random.Random) -> Words:
    """Another member of the same group: one of the other fields, the inverse, a power, or nothing in particular."""
    p = curve.fr.modulus
    if kind == "target":
        powers = scalars_from_ints(curve.fr, rng.choice(([1, 1], [-1, 0], [2, 0], [0, 1])))
        return product_of_powers(curve, np.stack([element, rng.choice(others)]), powers)
    group = Group(kind)
    choice = rng.randrange(4)
    if choice == 0:
        return neg(curve, group, element)
    if choice == 1:
        return np.zeros_like(element)
    if choice == 2:
        return rng.choice(others)
    factor = scalars_from_ints(curve.fr, [rng.randrange(2, p)])
    with CpuBackend() as cpu:
        return np.asarray(cpu.inner_products.scaled(curve, group, element[None].copy(), factor))[0]


@each_curve
@pytest.mark.slow
def test_a_thousand_changes(curve: Curve) -> None:
    """To the aggregates of both curves: half of them to other members of the right group, half of them to bytes; none
    is accepted."""
    rng = random.Random(curve.name)
    public = public_values(4)
    data = made_of(curve, proofs_of(curve, public)).to_bytes()
    assert holds(curve, public, Aggregate.from_bytes(curve, data))
    counted = {"member": 0, "bytes": 0}
    names = len(fields(Aggregate.from_bytes(curve, data)))
    for number in range(250):
        made = Aggregate.from_bytes(curve, data)
        listed = fields(made)
        kind, element = listed[number % names]
        others = [words for other, words in listed if other == kind and words is not element]
        changed = change(curve, kind, element, others, rng)
        if np.array_equal(changed, element):
            continue
        element[:] = changed
        assert not holds(curve, public, made), (kind, number % names)
        counted["member"] += 1
    for _ in range(265):
        spoiled = bytearray(data)
        at = rng.randrange(len(data))
        spoiled[at] = rng.choice([spoiled[at] ^ 1 << rng.randrange(8), 0, 255, rng.randrange(256)])
        if bytes(spoiled) == data:
            continue
        with contextlib.suppress(DistproveError):
            assert not holds(curve, public, Aggregate.from_bytes(curve, bytes(spoiled)))
        counted["bytes"] += 1
    assert counted["member"] + counted["bytes"] >= 500, counted


@pytest.mark.slow
@pytest.mark.parametrize("index", [6, 11, 19], ids=["target", "g1", "g2"])
def test_the_second_verifier_refuses_changes(index: int) -> None:
    rng = random.Random(index)
    public = public_values(2)
    made = Aggregate.from_bytes(BLS12_381, made_of(BLS12_381, proofs_of(BLS12_381, public)).to_bytes())
    listed = fields(made)
    kind, element = listed[index]
    others = [words for other, words in listed if other == kind and words is not element]
    element[:] = change(BLS12_381, kind, element, others, rng)
    assert not second_holds(BLS12_381, public, made.to_bytes())


@each_curve
def test_lengths_are_checked_before_anything_is_read(curve: Curve) -> None:
    data = made_of(curve, proofs_of(curve, public_values(2))).to_bytes()
    at = len(data) - size_of(curve, 1) + data.index((2).to_bytes(4, "little"), 5 * 6 * curve.fq.bytes)
    for spoiled in (b"", data[:-1], data + b"\0", data[: at + 2], bytes(len(data))):
        with pytest.raises(DistproveError, match="aggregate"):
            Aggregate.from_bytes(curve, spoiled)
    for n in (0, 1, 3, 4, 1 << 21, 0xFFFFFFFF):
        with pytest.raises(DistproveError, match="proofs"):
            Aggregate.from_bytes(curve, data[:at] + n.to_bytes(4, "little") + data[at + 4 :])


def test_the_file_is_checked() -> None:
    made = aggregated(BN254, job(BN254, public_values(2)))
    top: dict[str, Any] = second.msgpack.unpackb(made.to_bytes())
    from distprove.formats import canonical

    def changed(**fields: Any) -> bytes:
        return canonical.encode({**top, **fields})

    def checked(data: bytes) -> None:
        AggregatedJobs.from_bytes(data).verify(secret_of(BN254).key, keys_of(BN254).verifier)

    checked(changed())
    stated = top["statement"]
    assert stated["names"] == "p0\np1"
    for fields in (
        {"version": 2},
        {"format": "distprove.proof"},
        {"system": "stark"},
        {"curve": "p256"},
        {"key": b"short"},
        {"keys": b"short"},
        {"insecure": 1},
        {"jobs": b""},
        {"jobs": top["jobs"][:-1]},
        {"jobs": top["jobs"] * 2},
        {"jobs": top["jobs"][:32] + struct.pack(">I", 3)},
        {"jobs": top["jobs"][:32] + bytes(4)},
        {"jobs": top["jobs"][:32] + struct.pack(">I", (1 << 20) + 1)},
        {"jobs": bytes(32) + top["jobs"][32:]},
        {"statement": "text"},
        *(
            {"statement": {**stated, **other}}
            for other in (
                {"counts": b""},
                {"counts": struct.pack(">I", 3)},
                {"counts": struct.pack(">II", 1, 1)},
                {"counts": struct.pack(">II", 2, 0)},
                {"names": "p1\np0"},
                {"names": "p0"},
                {"names": "p0\np1\n"},
                {"names": "p0\np0"},
                {"names": "p0\n../x"},
                {"names": "p0\n"},
                {"public": stated["public"][:-32]},
                {"public": stated["public"] + bytes(32)},
                {"public": bytes(32) + stated["public"][32:-1] + b"\x03"},
                {"public": b"\xff" * len(stated["public"])},
                {"values": 0},
                {"values": -2},
                {"values": 1},
                {"values": 1, "public": stated["public"][:64]},
                {"more": 1},
            )
        ),
        {"more": 1},
    ):
        with pytest.raises(DistproveError):
            checked(changed(**fields))


def test_what_is_compared_at_once_is_compared_before_a_statement_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = aggregated(BN254, job(BN254, public_values(2)))
    assert made.statement is not None

    def decoded(_: Any) -> None:
        raise AssertionError("a statement was decoded")

    key, own, other = secret_of(BN254).key, keys_of(BN254).verifier, keys_of(BN254, seed=1).verifier
    wider = replace(made.statement, values=3, encoded=bytes(3 * 2 * 32))
    longer = replace(made.statement, counts=(3,), names="p0\np1\np2", encoded=bytes(2 * 3 * 32))
    five = replace(made, jobs=(replace(made.jobs[0], count=5),), statement=replace(made.statement, counts=(5,)))
    monkeypatch.setattr(Statement, "jobs", property(decoded))
    for read, keys, jobs, text in (
        (made, other, None, "other aggregation keys"),
        (made, own, [bytes(32)], "other jobs"),
        (replace(made, key_digest=bytes(32)), own, None, "is for key"),
        (replace(made, jobs=made.jobs * 2), own, None, "twice"),
        (made.with_statement(wider), own, None, "3 public values"),
        (made.with_statement(longer), own, None, "not that of the aggregate's jobs"),
        (five, own, None, "cannot be of 5"),
    ):
        with pytest.raises(InvalidProof, match=text):
            read.verify(key, keys, jobs)
    with pytest.raises(AssertionError, match="was decoded"):
        made.verify(key, own)


def test_values_of_no_key_are_named() -> None:
    key = secret_of(BN254).key.digest()
    for public in ((1,), (1, 1 << 256), (1, -1)):
        partitions = PartitionProof("good", b"", (1, 2), {}), PartitionProof("bad", b"", public, {})
        with pytest.raises(InvalidProof, match=r"^bad: "):
            Statement.of([Proof("groth16", key, {}, partitions)])
