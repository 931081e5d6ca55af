"""Checks the points of a proving key, and remembers which points it has checked.

On the CPU a check takes 60 times as long as a SHA-256 of the same bytes for BN254, and 700 times for BLS12-381. So the
user's private cache (see `kernels.host.cache`) holds a record for each key that passed. It is named by a digest of
exactly what the check reads: the points, section by section. What the check does not read, such as the matrices, which
are checked whenever they are loaded, is not part of the digest either.

The file may change while it is read, because it is mapped. So the digest that goes into a record is computed from
private copies, and the same copies are what is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from distprove.errors import InvalidKey
from distprove.groth16.combinations import coefficients, combination, same_pairing
from distprove.groth16.committed.key import CommittedKey
from distprove.groth16.key import Points, ProvingKey
from distprove.groth16.keyfile import AnyProvingKey
from distprove.groth16.params import EncodedPoints, ParamsKey, wires_of
from distprove.groth16.vectors import finite
from distprove.groth16.zkey import ZKey
from kernels.cpu.group import neg
from kernels.host import cache
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Group
from kernels.maths.encoding import generator

VERSION = 3
"""Version of the check. It must be raised whenever the check begins to refuse a key that it accepted before."""
REMEMBERED_BYTES, REMEMBERED_BESIDE_A_GPU = 1 << 18, 1 << 30
"""Smallest key that is remembered, in bytes of its file. Smaller ones take a CPU at most 0.12 s; a GPU checks so many
points at a time that a smaller one's check is no longer than its hash."""
_ROWS, _PIECES = 1 << 16, 16
"""Points that are hashed together, and how many times as many are copied and checked at a time."""
_ROWS_AT_ONCE = 1 << 24
"""Points that are checked at a time without a record. Where the file's encoding is another, as many are decoded."""
_SUFFIX = ".checked"
_RECORD = b"Every point of this key is on its curve and in its subgroup.\n"

_NEVER_INFINITE = ("header", "IC", "H")

CheckPoints = Callable[[str, Group, HostArray, int], None]
"""Checks points of one section: its name, its group, the points, and the index of the first of them in the section."""


def check_key(zkey: ProvingKey, backend: Backend) -> None:
    """Check that every point of the key is on its curve and in its subgroup, that none is infinity where no sound key
    has infinity, and that beta and delta are the same in both groups. Raises InvalidKey for the first bad point.

    `read_zkey` has already checked sizes and the header's consistency.
    """
    check = _checker(zkey, backend)
    for name, group, points in _sections(zkey):
        for first in range(0, len(points), _ROWS_AT_ONCE):
            check(name, group, points[first : first + _ROWS_AT_ONCE], first)


def check_key_once(zkey: ProvingKey, backend: Backend) -> None:
    """Check the key as `check_key` does, unless the user's cache remembers that these points have passed.

    Small keys are not remembered: their check takes no longer than a look into the cache. Nothing depends on the cache:
    where it cannot be read or written, or others could change it, the key is checked.
    """
    if zkey.data.nbytes < (REMEMBERED_BYTES if backend.name == "cpu" else REMEMBERED_BESIDE_A_GPU):
        check_key(zkey, backend)
        return
    folder = cache.user_cache_dir("checked-keys")
    with ThreadPoolExecutor(backend.threads) as threads:
        record = cache.find(folder, _digest(zkey, threads), _SUFFIX)
        if record is None:
            digest = _digest(zkey, threads, _checker(zkey, backend))
            record = cache.keep(folder, digest, _SUFFIX, lambda file: file.write(_RECORD))
    if record is not None:
        record.close()


def _digest(zkey: ProvingKey, threads: ThreadPoolExecutor, check: CheckPoints | None = None) -> str:
    """SHA-256, in hexadecimal, of the version of the check, the curve, and the digest of every `_ROWS` points, all of
    which pass `check`. Points count as the file encodes them."""
    digest = hashlib.sha256(f"distprove groth16 key check {VERSION} {zkey.curve.name}\n".encode())
    for name, group, points in _sections(zkey):
        stored = points.stored if isinstance(points, EncodedPoints) else points
        form = "encoded" if isinstance(points, EncodedPoints) else "words"
        digest.update(f"{name} {group.name} {len(points)} {form}\n".encode())
        for first in range(0, len(points), _PIECES * _ROWS):
            rows = stored[first : first + _PIECES * _ROWS]
            if check is not None:
                rows = np.array(rows, order="C")  # what is hashed is what is checked
            pieces = [rows[begin : begin + _ROWS] for begin in range(0, len(rows), _ROWS)]
            for piece in threads.map(_hashed, pieces):
                digest.update(piece)
            if check is not None:
                check(name, group, points.decoded(rows, first) if isinstance(points, EncodedPoints) else rows, first)
    return digest.hexdigest()


def _hashed(rows: HostArray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(rows).data).digest()


def _sections(zkey: ProvingKey) -> tuple[tuple[str, Group, Points], ...]:
    """All points of the key: the name of each section, its group and its points."""
    points = zkey.points
    return (
        ("header", Group.G1, np.stack([points.alpha1, points.beta1, points.delta1])),
        ("header", Group.G2, np.stack([points.beta2, points.gamma2, points.delta2])),
        ("IC", Group.G1, points.ic),
        ("A", Group.G1, points.a),
        ("B1", Group.G1, points.b1),
        ("B2", Group.G2, points.b2),
        ("L" if zkey.monomial else "C", Group.G1, points.c),
        ("H", Group.G1, points.h),
        *(
            (f"{title} of commitment {k}", Group.G1, vector)
            for k, each in enumerate(zkey.commitment_bases)
            for title, vector in (("B", each.basis), ("sigma B", each.sigma))
        ),
    )


def _checker(zkey: ProvingKey, backend: Backend) -> CheckPoints:
    def check(section: str, group: Group, points: HostArray, first: int) -> None:
        bad = backend.groups.check_points(zkey.curve, group, points)
        if bad is None:
            infinite = np.flatnonzero(~finite(points)) if section in _NEVER_INFINITE else np.empty(0, np.intp)
            if infinite.size:
                raise InvalidKey(f"{zkey.name}: damaged: point {first + infinite[0]} of section {section} is infinity")
            if section == "header" and group is Group.G2:
                _check_pairs(zkey)
            return
        where = f"{zkey.name}: point {first + bad} of section {section}"
        if backend.groups.check_points(zkey.curve, group, points[bad : bad + 1], subgroup=False) is not None:
            raise InvalidKey(f"{where} ({group.name}) is not on {zkey.curve.title}")
        raise InvalidKey(f"{where} is outside the subgroup {group.name}")

    return check


def _check_pairs(zkey: ProvingKey) -> None:
    curve, points = zkey.curve, zkey.points
    g1, g2 = _units(zkey)
    pairs = [("beta", points.beta1, points.beta2)]
    if not isinstance(zkey, ParamsKey):
        pairs.append(("delta", points.delta1, points.delta2))
    for name, one, two in pairs:
        if not same_pairing(curve, (one, g2), (g1, two)):
            raise InvalidKey(f"{zkey.name}: damaged: {name} is not the same in G1 and G2")


def _units(zkey: ProvingKey) -> tuple[HostArray, HostArray]:
    """Points that are the same multiple of the key's generators in G1 and in G2. bellperson's own set-up draws the
    generators, which are nowhere in its file, so delta takes their place there."""
    if isinstance(zkey, ParamsKey):
        return zkey.points.delta1, zkey.points.delta2
    return generator(zkey.curve, Group.G1), generator(zkey.curve, Group.G2)


def find_damage(key: AnyProvingKey, backend: Backend) -> str | None:
    """What shows that points of a key that passed its check are missing or in other places; None if nothing does.

    A wire has a point of A and B if it occurs in the matrix, one of C if it occurs in either, and B has the same
    points in both groups. This reads the whole key, so it is for a proof that does not verify.
    """
    curve, points = key.curve, key.points
    b1, b2 = points.b1[:], points.b2[:]
    if isinstance(key, ZKey):  # the other files have points for the wires that occur, and no infinity
        a, b = map(wires_of, key.matrices())
        for section, vector, wires in (("A", points.a, a), ("B1", b1, b), ("B2", b2, b)):
            odd = np.setxor1d(np.flatnonzero(finite(vector)), wires)
            if odd.size:
                return f"point {odd[0]} of section {section} is not that of wire {odd[0]} of its matrix"
        occur, first = np.union1d(a, b), key.n_public + 1
        holes = np.setdiff1d(occur[occur >= first] - first, np.flatnonzero(finite(points.c)))
        if holes.size:
            return f"point {holes[0]} of section C is infinity, and its wire occurs in A or B"
    factors, (one, two) = coefficients(curve, len(b1)), _units(key)
    sum1, sum2 = (combination(curve, g, v, factors, backend) for g, v in ((Group.G1, b1), (Group.G2, b2)))
    if not same_pairing(curve, (sum1, two), (one, sum2)):
        return "the points of B1 and of B2 are not those of the same wires"
    verifies = key.verification_key
    keys = verifies.commitment_keys if isinstance(verifies, CommittedKey) else ()
    for k, (made, each) in enumerate(zip(key.commitment_bases, keys, strict=True)):
        if not len(made.basis):
            continue
        factors = coefficients(curve, len(made.basis))
        sum1, sum2 = (combination(curve, Group.G1, v[:], factors, backend) for v in (made.basis, made.sigma))
        if not same_pairing(curve, (sum2, each.g), (neg(curve, Group.G1, sum1), each.g_sigma_neg)):
            return f"the points of commitment {k} and those times sigma are not those of the same wires"
    return None
