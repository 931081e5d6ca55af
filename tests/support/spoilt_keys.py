"""Keys of a ceremony that were tampered with, each in one way: what a verifier must refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from distprove.groth16.beacon import Beacon
from distprove.groth16.binfile import BinFileWriter
from distprove.groth16.ceremony import with_delta
from distprove.groth16.key import KeyPoints
from distprove.groth16.phase2 import DeltaKey, contribution
from distprove.groth16.zkey import Ceremony, Contribution, ZKey, write_contributions, write_header
from kernels.cpu.group import add, mul, neg
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import BLS12_381, Curve, Group
from kernels.maths.encoding import generator, point_from_ints
from tests.support.file_builders import key_points_of

VECTORS = {3: "ic", 5: "a", 6: "b1", 7: "b2", 8: "c", 9: "h"}


@dataclass(frozen=True)
class Spoilt:
    """A tampered key."""

    name: str
    says: str
    """What our verifier says of it, as a regular expression."""
    points: KeyPoints
    ceremony: Ceremony
    coefficients: bytes | None = None
    snarkjs_accepts: bool = False
    """Whether snarkjs takes it for valid: if everybody knows delta, or if a point of C is out of its group."""


def write_key(path: Path, key: ZKey, spoilt: Spoilt) -> Path:
    """Write `key` with the points, contributions and coefficients of `spoilt`."""
    circuit_hash, contributions = spoilt.ceremony
    assert circuit_hash is not None
    with BinFileWriter(path, "zkey", version=1, sections=10) as out:
        for ident in sorted(key.file.sections):
            begin, size = key.file.sections[ident]
            with out.section(ident):
                if ident == 2:
                    write_header(out, key.curve, key.n_vars, key.n_public, key.domain_size, spoilt.points)
                elif ident == 4 and spoilt.coefficients is not None:
                    out.write(spoilt.coefficients)
                elif ident == 10:
                    write_contributions(out, circuit_hash, contributions)
                elif ident in VECTORS:
                    out.write(getattr(spoilt.points, VECTORS[ident]))
                else:
                    out.write(key.data[begin : begin + size])
    return path


def spoilt_keys(key: ZKey, initial: KeyPoints, foreign: Sequence[Contribution], backend: Backend) -> Iterator[Spoilt]:
    """Tampered variants of `key`, which has two persons' contributions and a beacon's.

    `initial` has the points with delta = 1, and `foreign` is another ceremony's contributions to the same circuit.
    """
    curve, points = key.curve, key_points_of(key)
    circuit_hash, contributions = key.ceremony
    assert circuit_hash is not None
    first, second, beacon = contributions
    one = {group: generator(curve, group) for group in Group}

    def changed(name: str, group: Group, at: int | None, says: str) -> Spoilt:
        vector = np.array(getattr(points, name))
        if at is None:
            vector = add(curve, group, vector, one[group])
        else:
            vector[at] = add(curve, group, vector[at], one[group])
        title = name if at is None else f"{name}[{at}]"
        return Spoilt(f"changed {title}", says, replace(points, **{name: vector}), key.ceremony)

    for name, group, at, says in (
        ("alpha1", Group.G1, None, "alpha1 is not that of the powers"),
        ("beta1", Group.G1, None, "beta is not the same in G1 and G2"),
        ("beta2", Group.G2, None, "beta is not the same in G1 and G2"),
        ("gamma2", Group.G2, None, "gamma2 is not the generator"),
        ("delta1", Group.G1, None, "delta is not the same in G1 and G2"),
        ("delta2", Group.G2, None, "delta is not the same in G1 and G2"),
        ("ic", Group.G1, 1, "point 1 of section IC is not that"),
        ("a", Group.G1, 3, "point 3 of section A is not that"),
        ("b1", Group.G1, 2, "point 2 of section B1 is not that"),
        ("b2", Group.G2, 2, "point 2 of section B2 is not that"),
        ("c", Group.G1, 0, "points of section C are not those"),
        ("h", Group.G1, 5, "points of section H are not those"),
    ):
        yield changed(name, group, at, says)
    both = {"beta1": Group.G1, "beta2": Group.G2}
    doubled = {name: mul(curve, group, getattr(points, name), 2) for name, group in both.items()}
    yield Spoilt("another beta in both groups", "beta1 is not that", replace(points, **doubled), key.ceremony)
    scaled = with_delta(curve, points, 5, backend)
    yield Spoilt("a delta of nobody's", "delta is not that of the last contribution", scaled, key.ceremony)
    for name in ("c", "h"):
        vector = np.array(getattr(points, name))
        swapped, balanced = vector[[1, 0, *range(2, len(vector))]], np.array(vector)
        balanced[0] = add(curve, Group.G1, vector[0], one[Group.G1])
        balanced[1] = add(curve, Group.G1, vector[1], neg(curve, Group.G1, one[Group.G1]))
        for title, wrong in (("swapped", swapped), ("with the same sum", balanced)):
            says = f"points of section {name.upper()} are not those"
            yield Spoilt(f"points of {name} {title}", says, replace(points, **{name: wrong}), key.ceremony)
    yield Spoilt("C and H of delta = 1", "section C", replace(points, c=initial.c, h=initial.h), key.ceremony)
    off = np.array(points.c)
    off[0, 0] ^= np.uint64(1)
    yield Spoilt("a point off the curve", "is not on", replace(points, c=off), key.ceremony)
    if curve is BLS12_381:
        low = np.array(points.c)
        low[0] = add(curve, Group.G1, low[0], point_from_ints(curve, Group.G1, (0, 2)))  # a point of order 3
        says = "outside the subgroup"
        yield Spoilt("a point out of its group", says, replace(points, c=low), key.ceremony, snarkjs_accepts=True)
    begin, size = key.file.sections[4]
    entries = bytearray(key.data[begin : begin + size].tobytes())
    entries[-32] ^= 1  # a value's lowest bit
    says = "coefficients .section 4. are not the circuit's"
    yield Spoilt("a changed coefficient", says, points, key.ceremony, bytes(entries))

    follow = "contribution {} does not follow from the circuit and the contributions before it"

    def chain(name: str, says: str, *others: Contribution, hash_: bytes = circuit_hash) -> Spoilt:
        return Spoilt(name, says, points, (hash_, others))

    yield chain("the first contribution left out", follow.format(1), second, beacon)
    yield chain("a contribution left out", follow.format(2), first, beacon)
    yield chain("the last contribution left out", "delta is not that of the last contribution", first, second)
    yield chain("a contribution twice", follow.format(2), first, first, second, beacon)
    yield chain("contributions swapped", follow.format(1), second, first, beacon)
    yield chain("a contribution of another ceremony", follow.format(2), first, foreign[1], beacon)
    yield chain("all of another ceremony's", "delta is not that of the last contribution", *foreign)
    flipped = bytes([circuit_hash[0] ^ 1, *circuit_hash[1:]])
    yield chain("another circuit hash", follow.format(1), first, second, beacon, hash_=flipped)
    stolen = replace(second, transcript=first.transcript)
    yield chain("another transcript", follow.format(2), first, stolen, beacon)
    wrong_delta = replace(second, delta_after=add(curve, Group.G1, second.delta_after, one[Group.G1]))
    says = "contribution 2 does not multiply the delta before it"
    yield chain("another delta on the way", says, first, wrong_delta, beacon)
    wrong_proof = replace(second, g2_spx=add(curve, Group.G2, second.g2_spx, one[Group.G2]))
    says = "contribution 2 does not prove that its maker knew"
    yield chain("another proof", says, first, wrong_proof, beacon)
    for title, given in (("value", {"beacon": b"another"}), ("count", {"iterations_exponent": 11})):
        says = "contribution 3 is not that of the beacon"
        yield chain(f"a beacon of another {title}", says, first, second, replace(beacon, **given))
    bare = replace(beacon, beacon=None, iterations_exponent=None)
    yield chain("a beacon without its value", "neither a person's nor a whole beacon's", first, second, bare)
    zero = np.zeros_like(first.g1_s)
    nothing = contribution(curve, circuit_hash, (first, second), DeltaKey(0, one[Group.G1]), zero, "zero")
    yield chain("a factor of zero", "contribution 3 has a point at infinity", first, second, nothing)

    yield from _made_anew(curve, initial, circuit_hash, backend)


def _made_anew(curve: Curve, initial: KeyPoints, circuit_hash: bytes, backend: Backend) -> Iterator[Spoilt]:
    """Keys whose contributions hold together, and are bad nevertheless."""

    def made(
        name: str, says: str, *keys: tuple[DeltaKey, Beacon | None], hash_: bytes = circuit_hash, **given: bool
    ) -> Spoilt:
        points, found = initial, list[Contribution]()
        for key, beacon in keys:
            points = with_delta(curve, points, key.factor, backend)
            found.append(contribution(curve, hash_, found, key, points.delta1, "somebody", beacon))
        return Spoilt(name, says, points, (hash_, tuple(found)), **given)

    person = DeltaKey.random(curve), None
    public = Beacon(b"public", 10)
    drawn = DeltaKey.of_beacon(curve, public.draws())
    yield made("a circuit hash of nobody's", "circuit hash is not that", person, hash_=bytes(64))
    yield made("a beacon that was chosen", "contribution 2 is not that of the beacon", person, (person[0], public))
    replayed = DeltaKey(drawn.factor, _own(curve))
    yield made("a beacon's factor alone", "contribution 2 is not that of the beacon", person, (replayed, public))
    yield made("no contribution", "no contribution: everybody knows delta", snarkjs_accepts=True)
    yield made("beacons alone", "only 1 public beacon: everybody knows", (drawn, public), snarkjs_accepts=True)
    neutral = DeltaKey(1, _own(curve)), None
    yield made("a factor of one", "contribution 2 has the factor 1", person, neutral, snarkjs_accepts=True)


def _own(curve: Curve) -> HostArray:
    return DeltaKey.random(curve).s
