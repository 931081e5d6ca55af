"""Poseidon2 over BabyBear against what p3-baby-bear and p3-symmetric 0.4.3 compute, and its constants."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from kernels.maths.babybear import P
from kernels.maths.poseidon2_babybear import PERMUTATION, compress, hash_rows, permute

COUNTING = [
    *(1906786279, 1737026427, 1959749225, 700325316, 1638050605, 1021608788, 1726691001, 1761127344),
    *(1552405120, 417318995, 36799261, 1215172152, 614923223, 1300746575, 957311597, 304856115),
]
LARGEST = [
    *(1233564084, 138281517, 1431982993, 585402190, 417047365, 1462994434, 584596381, 883853858),
    *(1957702061, 1422117949, 1077349319, 355468137, 1629297269, 17043753, 1065643784, 679123220),
]


def test_constants_are_those_published() -> None:
    """HorizenLabs' poseidon2_instance_babybear.rs and p3-baby-bear have the same: ends of each list, all by hash."""
    constants = PERMUTATION.round_constants
    assert len(constants) == 8 * 16 + 13
    assert (constants[0], constants[63]) == (0x69CBB6AF, 0x1E36EA47)
    assert (constants[64], constants[76]) == (0x5A8053C0, 0x241AF16D)
    assert (constants[77], constants[140]) == (0x7290A80D, 0x608758B8)
    digest = hashlib.sha256(np.array(constants, dtype="<u4").tobytes()).hexdigest()
    assert digest == "bf14ec72b1baddd9421bbaa7e82553275d7360e3f903b433000579107a8b07a1"


def test_permutation() -> None:
    states = np.array([range(16), [P - 1] * 16], dtype=np.uint32)
    assert permute(states).tolist() == [COUNTING, LARGEST]
    assert states[0].tolist() == list(range(16)), "the argument stays as it was"


@pytest.mark.parametrize(
    ("width", "digest"),
    [
        (11, [1760316525, 1434743881, 1774634407, 1463943388, 2004882048, 1573028614, 1668754315, 418905715]),
        (16, [568621648, 260560799, 1787535874, 764831861, 341748543, 546488453, 1028837269, 1917944385]),
        (0, [0] * 8),
    ],
)
def test_hash_of_a_row(width: int, digest: list[int]) -> None:
    row = np.arange(width, dtype=np.uint32)
    assert hash_rows(np.stack((row, row[::-1], row)))[::2].tolist() == [digest, digest]


def test_compression_is_half_of_the_permutation() -> None:
    state = np.arange(16, dtype=np.uint32)
    assert compress(state[None, :8], state[None, 8:]).tolist() == [COUNTING[:8]]
