"""Filecoin's circuits are those of storage-proofs 19.1.0: every row and private wire, in their order.

Nothing of theirs was written here. The program in tests/interop/filecoin synthesises the circuits with storage-proofs
19.1.0 and bellperson 0.27.0, hashes every row, and prints the digests below. The same rule gives ours
(tests/support/row_digest.py). The names of published parameter files come with filecoin-proofs 19.1.0.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.porep import porep_circuit
from distprove.circuits.filecoin.post import post_circuit
from distprove.circuits.filecoin.snap import snap_circuit, snap_poseidon_circuit
from distprove.circuits.registry import CIRCUITS
from distprove.groth16.r1cs import R1cs
from kernels.interface.matrix import CsrMatrix
from tests.support.row_digest import row_digest

THEIRS = """
winning-post-2KiB             90750    91674 133 b1eb47ea484e559b0908b39e06475f284d7713a65c2ebdbdaed1dce33fec72b0
winning-post-32KiB           146454   147906 133 fa0ab18f3569977aee3338df694830b984d1878dde17fe91d287d2e21ada8059
winning-post-32GiB           370590   375210 133 3f6c845c92c2c10eb3b188d68c963d7bc6990e0f8677da81e3f1e3082dde845a
winning-post-64GiB           391314   396000 133 7ebd2d7148d1e1c027edf7e0f8efa70eb3a556392a37eaa8de218d45c80be56f
window-post-2KiB              21866    22128  23 3feca0c3c78f87c166be5ea9f4c9632b1fb6ab37d266926cf23bb978272319a7
window-post-32KiB             38746    39168  23 a7229bec801551c507f2b3a86540afdc2633cdb1db52f79992686647ab240155
snap-deals-poseidon-2KiB      36424    36834   5 709601ba7824b0967a4dbc3453861d4afc5e92cc0dc3e3529516d717541242b6
snap-deals-poseidon-32KiB    121734   123034   5 f88c09973c7443381e0b0d1dba290807860fa93380a797c6dc397a7b6d22353a
snap-deals-poseidon-8MiB     395250   400248   5 3eaf06c60b7cc21dca4bab3163dcc5c6318f3adcc4c3524057110234f7de16f8
snap-deals-2KiB             1705039  1703569   5 3f4d66180016b2efe3ac09dd327ec474e8293f223647027cdd2bd8885b1199bd
snap-deals-32KiB            6760091  6753564   5 20aaf8fba9c46b1a9db9ff3c02b9ac273d608074ed961292c3e2830290e31394
snap-deals-8MiB            10007503  9998039   5 abcb5083b0b93d49be20935f2c844e4183c8db6f780945d83ba27ce3e58fb50b
porep-2KiB                  2687921  2685673  40 c6d678cc00b4248c879f9a5004b6c138237fcd3a171279097db0eb0c3b3438c0
porep-8MiB                  3844929  3842449  40 f4358a13253286bd7b1ae84245761832bca31d37ee1667f34a40ac8db2023cae
porep-1-2-8.4.2             1346982  1345810  22 12ceac682fce45d20c00ea324b030ba0a9729ae8df33dc0c2b388e4b3affb7a9
porep-1-11-8.8.2            6131634  6125799  22 b829ad475807b265659a3ef2a79852548fd3a3fb553480dcd96c6c4a767b031e
snap-deals-poseidon-32GiB  22305906 22593319   5 6c5fe31900d44a1b38a2c87ebcbda1976b8f85f4501592c7eca6181dabdab26d
porep-32GiB               130278541 130169893 328 57c8cc9775f175b0cf387f289ad815a45216fe1dbe3877c770ff6dd713fddc62
"""
"""Constraints, private wires, public wires with the constant 1, and the digest. Circuits other than those of 2 KiB have
trees on top of trees, challenges from several digests, several partitions, different choices of h, or 11 layers.
PoRep's others are named by challenges, layers and arities."""
KIB_32 = (8, 8, 8, 2)
DO_NOT_SHIP: dict[str, Callable[[], CircuitBuilder]] = {
    "winning-post-32KiB": lambda: post_circuit(66, 1, KIB_32),
    "window-post-32KiB": lambda: post_circuit(2, 10, KIB_32),
    "snap-deals-poseidon-32KiB": lambda: snap_poseidon_circuit(KIB_32),
    "snap-deals-32KiB": lambda: snap_circuit(KIB_32),
    "porep-1-2-8.4.2": lambda: porep_circuit(1, 2, (8, 4, 2)),
    "porep-1-11-8.8.2": lambda: porep_circuit(1, 11, (8, 8, 2)),
}


def theirs() -> Iterator[Any]:
    for line in THEIRS.split("\n")[1:-1]:
        name, *sizes, sha256 = line.split()
        marks, constraints = [], int(sizes[0])
        if constraints > 1_000_000:
            marks += [pytest.mark.slow, pytest.mark.timeout(1500)]  # 10 to 150 s of CPU
        if constraints > 3_000_000 and "DISTPROVE_LONG" not in os.environ:
            marks.append(pytest.mark.skip(reason="a minute and more, up to ten; with DISTPROVE_LONG=1 only"))
        yield pytest.param(name, tuple(map(int, sizes)), sha256, marks=marks, id=name)


@pytest.mark.parametrize(("name", "sizes", "sha256"), list(theirs()))
def test_rows_are_those_of_storage_proofs(name: str, sizes: tuple[int, ...], sha256: str) -> None:
    make = DO_NOT_SHIP[name] if name in DO_NOT_SHIP else CIRCUITS[f"filecoin/{name}"].make
    found = row_digest(make().system())
    assert (found.constraints, found.private, found.public) == sizes
    assert found.sha256 == sha256


@pytest.fixture(scope="module")
def small() -> R1cs:
    return post_circuit(2, 1, (8, 2)).system().r1cs()


def reordered(r1cs: R1cs, wires: NDArray[np.int64], order: NDArray[np.int64]) -> R1cs:
    """The same system with its wires and its rows in another order."""

    def moved(matrix: CsrMatrix) -> CsrMatrix:
        lengths = np.diff(matrix.row_ptr)[order]
        entries = np.concatenate([np.arange(matrix.row_ptr[row], matrix.row_ptr[row + 1]) for row in order])
        return replace(
            matrix,
            row_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
            columns=wires[matrix.columns[entries]].astype(np.uint32),
            value_index=matrix.value_index[entries],
        )

    return replace(r1cs, a=moved(r1cs.a), b=moved(r1cs.b), c=moved(r1cs.c))


def test_the_digest_changes_with_the_order_of_wires_and_rows(small: R1cs) -> None:
    wires, rows = np.arange(small.n_vars), np.arange(small.n_constraints)
    assert row_digest(reordered(small, wires, rows)) == row_digest(small)
    assert row_digest(post_circuit(2, 1, (8, 2)).system()) == row_digest(small)
    wires[-2:], rows[-2:] = wires[-2:][::-1].copy(), rows[-2:][::-1].copy()
    for other in (reordered(small, wires, np.sort(rows)), reordered(small, np.sort(wires), rows)):
        assert row_digest(other).sha256 != row_digest(small).sha256


def test_the_digest_changes_with_any_entry(small: R1cs) -> None:
    digest, rng = row_digest(small), np.random.default_rng(3)
    for name in "abc":
        matrix = getattr(small, name)
        for entry in rng.choice(matrix.nnz, 3, replace=False):
            columns, values = matrix.columns.copy(), matrix.value_index.copy()
            columns[entry] = small.n_vars - 1 if columns[entry] < small.n_vars - 1 else 0
            values[entry] = (values[entry] + 1) % len(matrix.values)
            for other in (replace(matrix, columns=columns), replace(matrix, value_index=values)):
                found = row_digest(replace(small, **{name: other}))
                assert found.constraints == digest.constraints
                assert found.sha256 != digest.sha256
    assert row_digest(replace(small, a=small.b, b=small.a)).sha256 != digest.sha256


PARAMETERS = """
2KiB   winning-post 3ea05428c9d11689 window-post 0170db1f394b35d9 porep 032d3138d22506ec
8MiB   winning-post 50c7368dea9593ed window-post 5294475db5237a2e porep ecd683648512ab17
512MiB winning-post 7d739b8cf60f1b07 window-post 0cfb4f178bbb71cf porep 6babf46ce344ae49
32GiB  winning-post 559e581f022bb4e4 window-post 0377ded656c6f524 porep 82a357d2f2ca81dc
64GiB  winning-post b62098629d07946e window-post 2627e4006b67f99c porep 96f1b4a04c5c51e4
"""
"""How the digests in the names of published parameter files begin. Each is the SHA-256 of a circuit's shape."""


@pytest.mark.parametrize("line", PARAMETERS.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_shapes_are_those_of_the_published_parameters(line: str) -> None:
    size, *pairs = line.split()
    for kind, digest in zip(pairs[::2], pairs[1::2], strict=True):
        first, second, tree = CIRCUITS[f"filecoin/{kind}-{size}"].arguments
        nodes = prod(tree)
        if kind == "porep":
            shape = {"32GiB": "8-8-0", "64GiB": "8-8-2"}.get(size, "8-0-0")
            graph = f"drgraph::BucketGraph{{size: {nodes}; degree: 6; hasher: poseidon_hasher}}"
            graph = f"stacked_graph::StackedGraph{{expansion_degree: 8 base_graph: {graph} }}"
            challenges = f"LayerChallenges {{ layers: {second}, max_count: {first} }}"
            tree_name = f"merkletree-poseidon_hasher-{shape}"
            text = f"layered_drgporep::PublicParams{{ graph: {graph}, challenges: {challenges}, tree: {tree_name} }}"
        else:
            counts = f"challenge_count: {second}, sector_count: {first}"
            text = f"FallbackPoSt::PublicParams{{sector_size: {32 * nodes}, {counts}}}"
        assert hashlib.sha256(text.encode()).hexdigest().startswith(digest), kind
