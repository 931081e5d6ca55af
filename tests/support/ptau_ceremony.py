"""Powers-of-tau ceremonies made here, with contributions, and files of them that were tampered with."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from distprove.groth16 import blake2b
from distprove.groth16.beacon import Beacon
from distprove.groth16.binfile import BinFile
from distprove.groth16.draws import Draws
from distprove.groth16.points import chunks_to_bytes, chunks_to_compressed
from distprove.groth16.ptau import Powers, read_ptau
from distprove.groth16.ptau_contributions import (
    Heads,
    PtauContribution,
    PublicKey,
    Secret,
    drawn_keys,
    first_challenge,
    keys_bytes,
    read_contributions,
)
from distprove.groth16.zkey import BEACON, PERSON
from kernels.cpu.group import add, mul
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator
from tests.support.file_builders import container
from tests.support.known_tau import write_known_tau


class Ones(Draws):
    """Draws whose scalars are one."""

    def scalar(self, curve: Curve) -> int:
        return 1


@dataclass(frozen=True)
class Maker:
    """A contributor: a person, or a beacon."""

    name: str | None = None
    beacon: Beacon | None = None
    draws: type[Draws] = Draws


PERSONS = (Maker("first"), Maker())
ENDED = (*PERSONS, Maker("block", Beacon(b"block", 10)))


def saved_state(data: bytes) -> bytes:
    """The state of snarkjs' BLAKE2b after `data`: the last block, which may be full, stays in the buffer."""
    chain = [*blake2b._IV]
    chain[0] ^= 0x01010040  # a digest of 64 bytes without a key
    blocks = max(0, -(-len(data) // 128) - 1)
    for number in range(blocks):
        chain = blake2b._compressed(chain, data[128 * number : 128 * number + 128], 128 * (number + 1), last=False)
    rest = data[128 * blocks :]
    return (rest.ljust(128, b"\0") + struct.pack("<8QQQ", *chain, 128 * blocks, len(rest))).ljust(216, b"\0")


def make_ptau(path: Path, curve: Curve, power: int, makers: Sequence[Maker], backend: Backend) -> Path:
    """A prepared file of a ceremony with these contributions. Challenges between two of them are drawn: nobody can
    compare them with the points of that time."""
    secrets, challenge = dict.fromkeys(Secret, 1), first_challenge(curve, power)
    made = list[PtauContribution]()
    before = challenge
    for maker in makers:
        before = challenge
        draws = maker.draws(os.urandom(32)) if maker.beacon is None else maker.beacon.draws()
        factors, keys = drawn_keys(curve, challenge, draws)
        secrets = {secret: secrets[secret] * factors[secret] % curve.fr.modulus for secret in Secret}
        challenge = os.urandom(64)
        exponent, value = (maker.beacon.exponent, maker.beacon.value) if maker.beacon else (None, None)
        kind = BEACON if maker.beacon else PERSON
        heads = heads_of(curve, secrets)
        made.append(PtauContribution(heads, keys, bytes(216), challenge, kind, maker.name, exponent, value))
    tau, alpha, beta = (secrets[secret] for secret in Secret)
    write_known_tau(path, curve, power, backend, tau=tau, alpha=alpha, beta=beta)
    if made:
        made[-1] = hashed(path, made[-1], before, backend)
    return with_section(path, path, 7, contributions_bytes(made))


def heads_of(curve: Curve, secrets: dict[Secret, int]) -> Heads:
    tau, alpha, beta = (secrets[secret] for secret in Secret)
    one, two = (generator(curve, group) for group in Group)
    g1, g2 = Group.G1, Group.G2
    return Heads(
        mul(curve, g1, one, tau),
        mul(curve, g2, two, tau),
        mul(curve, g1, one, alpha),
        mul(curve, g1, one, beta),
        mul(curve, g2, two, beta),
    )


def hashed(path: Path, last: PtauContribution, challenge: bytes, backend: Backend) -> PtauContribution:
    """The last contribution with the hashes of the file's sections, after `challenge`."""
    ptau = read_ptau(path)
    vectors = [*((which.group, ptau.powers(which)) for which in Powers), (Group.G2, ptau.beta_g2)]
    compressed, whole = (
        b"".join(b"".join(encode(ptau.curve, group, points, backend)) for group, points in vectors)
        for encode in (chunks_to_compressed, chunks_to_bytes)
    )
    response = hashlib.blake2b(challenge + compressed + keys_bytes(ptau.curve, last.keys)).digest()
    return replace(
        last, state=saved_state(challenge + compressed), next_challenge=hashlib.blake2b(response + whole).digest()
    )


def contributions_bytes(contributions: Sequence[PtauContribution]) -> bytes:
    """The content of section 7, byte by byte."""
    out = struct.pack("<I", len(contributions))
    for one in contributions:
        heads, keys = one.heads, one.keys.values()
        points = [heads.tau1, heads.tau2, heads.alpha1, heads.beta1, heads.beta2]
        points += [point for key in keys for point in (key.g1_s, key.g1_sx)]
        points += [key.g2_spx for key in keys]
        fields = b"" if one.name is None else bytes([1, len(one.name)]) + one.name.encode()
        if one.beacon is not None and one.iterations_exponent is not None:
            fields += bytes([2, one.iterations_exponent, 3, len(one.beacon)]) + one.beacon
        out += b"".join(point.tobytes() for point in points) + one.state + one.next_challenge
        out += struct.pack("<II", one.kind, len(fields)) + fields
    return out


def with_section(source: Path, out: Path, ident: int, content: bytes) -> Path:
    """Write `source` to `out` with another content of one section."""
    data = source.read_bytes()
    file = BinFile.read(data, "ptau", (1,))
    parts = [(i, content if i == ident else data[at : at + size]) for i, (at, size) in file.sections.items()]
    out.write_bytes(container(b"ptau", 1, parts))
    return out


@dataclass(frozen=True)
class SpoiltPtau:
    """A tampered file: one section has another content."""

    name: str
    says: str
    """What our verifier says of it, as a regular expression."""
    section: int
    content: bytes = field(repr=False)
    snarkjs_accepts: bool = False


def spoilt_files(path: Path, foreign: Path, backend: Backend) -> Iterator[SpoiltPtau]:
    """Tampered variants of a prepared file of `ENDED`; `foreign` is one of another ceremony of the same size."""
    ptau, other = read_ptau(path), read_ptau(foreign)
    curve, n = ptau.curve, 1 << ptau.power
    one = {group: generator(curve, group) for group in Group}

    def content(ident: int) -> bytes:
        return ptau.file.data[slice(*_span(ptau.file, ident))].tobytes()

    def points(ident: int) -> np.ndarray:
        group = Group.G2 if ident in (3, 6, 13) else Group.G1
        return np.frombuffer(content(ident), dtype="<u8").reshape(-1, curve.point_limbs(group)).copy()

    def changed(ident: int, at: int, says: str) -> SpoiltPtau:
        group = Group.G2 if ident in (3, 6, 13) else Group.G1
        vector = points(ident)
        vector[at] = add(curve, group, vector[at], one[group])
        return SpoiltPtau(f"point {at} of section {ident}", says, ident, vector.tobytes())

    for which, ident in ((which.name, int(which)) for which in Powers):
        yield changed(ident, 0, f"{which} does not begin with")
        yield changed(ident, 3, f"points of {which} are not the powers")
        yield changed(ident, len(points(ident)) - 1, f"points of {which} are not the powers")
        for log_n in (0, 2, ptau.power):
            says = rf"Lagrange basis of {which} for 2\^{log_n} points"
            yield changed(10 + ident, (1 << log_n) - 1, says)
        foreign_content = other.file.data[slice(*_span(other.file, 10 + ident))].tobytes()
        says = rf"Lagrange basis of {which} for 2\^[01] points"
        yield SpoiltPtau(f"bases {ident} of another ceremony", says, 10 + ident, foreign_content)
    yield changed(12, 4 * n - 2, rf"Lagrange basis of TAU_G1 for 2\^{ptau.power + 1} points")
    largest, root = points(12), curve.fr.root_of_unity(ptau.power + 1)
    for i in range(2 * n):  # what cancels for all polynomials but those of the greatest degree
        added = mul(curve, Group.G1, one[Group.G1], pow(root, i, curve.fr.modulus))
        largest[2 * n - 1 + i] = add(curve, Group.G1, largest[2 * n - 1 + i], added)
    says = rf"Lagrange basis of TAU_G1 for 2\^{ptau.power + 1} points"
    yield SpoiltPtau("a multiple of the greatest power", says, 12, largest.tobytes(), snarkjs_accepts=True)
    yield changed(6, 0, "beta G2 is not that")
    swapped = points(4)[[0, 2, 1, *range(3, n)]]
    yield SpoiltPtau("powers swapped", "points of ALPHA_TAU_G1", 4, swapped.tobytes())
    off = points(5)
    off[1, 0] ^= np.uint64(1)
    yield SpoiltPtau("a point off the curve", "point 1 of BETA_TAU_G1 is not in G1", 5, off.tobytes())
    header = content(1)
    larger = header[:-4] + struct.pack("<I", ptau.power + 1)
    says = "contribution 1 does not prove that its maker knew the factor of tau"
    yield SpoiltPtau("as if cut from a larger one", says, 1, larger)

    yield from _spoilt_contributions(path, read_contributions(other), backend)


def _span(file: BinFile, ident: int) -> tuple[int, int]:
    begin, size = file.sections[ident]
    return begin, begin + size


def _spoilt_contributions(path: Path, foreign: Sequence[PtauContribution], backend: Backend) -> Iterator[SpoiltPtau]:
    curve = read_ptau(path).curve
    first, second, beacon = read_contributions(read_ptau(path))
    g1, g2 = (generator(curve, group) for group in Group)

    def chain(name: str, says: str, *contributions: PtauContribution, snarkjs_accepts: bool = False) -> SpoiltPtau:
        return SpoiltPtau(name, says, 7, contributions_bytes(contributions), snarkjs_accepts)

    unproven = r"contribution {} does not prove that its maker knew the factor of tau"
    yield chain("the first contribution left out", unproven.format(1), second, beacon)
    yield chain("a contribution left out", "contribution 2 is not that of the beacon", first, beacon)
    yield chain("the last contribution left out", "does not begin with 1 and tau", first, second)
    yield chain("a contribution twice", unproven.format(2), first, first, second, beacon)
    yield chain("contributions swapped", unproven.format(1), second, first, beacon)
    yield chain("a contribution of another ceremony", unproven.format(2), first, foreign[1], beacon)
    for at, name in enumerate(("tau1", "tau2", "alpha1", "beta1", "beta2")):
        group, base = (Group.G2, g2) if name.endswith("2") else (Group.G1, g1)
        heads = replace(second.heads, **{name: add(curve, group, getattr(second.heads, name), base)})
        says = f"contribution 2 does not multiply the {name[:-1]}"
        yield chain(f"another {name} ({at})", says, first, replace(second, heads=heads), beacon)
    for secret in Secret:
        key = second.keys[secret]
        keys = {**second.keys, secret: PublicKey(key.g1_s, key.g1_sx, add(curve, Group.G2, key.g2_spx, g2))}
        says = f"contribution 2 does not prove that its maker knew the factor of {secret.name.lower()}"
        yield chain(f"another proof for {secret.name}", says, first, replace(second, keys=keys), beacon)
    none = PublicKey(np.zeros_like(g1), np.zeros_like(g1), np.zeros_like(g2))
    zero = replace(second, keys=dict.fromkeys(Secret, none))
    yield chain("factors of zero", "contribution 2 has a point at infinity", first, zero, beacon)
    for title, given in (("value", {"beacon": b"another"}), ("count", {"iterations_exponent": 11})):
        says = "contribution 3 is not that of the beacon"
        yield chain(f"a beacon of another {title}", says, first, second, replace(beacon, **given))
    claimed = replace(second, kind=BEACON, beacon=b"public", iterations_exponent=10)
    yield chain("a beacon that was chosen", "contribution 2 is not that of the beacon", first, claimed, beacon)
    flipped = replace(beacon, next_challenge=bytes([beacon.next_challenge[0] ^ 1, *beacon.next_challenge[1:]]))
    yield chain("another next challenge", "next challenge is not the hash", first, second, flipped)
    flipped = replace(beacon, state=bytes([beacon.state[0] ^ 1, *beacon.state[1:]]))
    yield chain("another state of the hash", "response hash of the last", first, second, flipped)
    damaged = replace(beacon, state=bytes([*beacon.state[:200], 255, *beacon.state[201:]]))
    yield chain("a damaged state", "contribution 3 has a damaged hash", first, second, damaged)
    # The hashes of a response to another challenge, which holds together.
    lie = hashed(path, beacon, bytes(64), backend)
    yield chain(
        "a response to another challenge", "response hash of the last", first, second, lie, snarkjs_accepts=True
    )
