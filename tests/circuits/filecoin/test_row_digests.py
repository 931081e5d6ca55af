"""Filecoin's circuits have the rows of storage-proofs 19.1.0, up to an order of private wires and of rows.

Nothing of theirs was written here. The program in tests/interop/filecoin synthesises the circuits with storage-proofs
19.1.0 and bellperson 0.27.0, keeps every row, and prints the digests below. The same rule gives ours
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

from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.filecoin.porep import porep_circuit
from distprove.circuits.filecoin.post import post_circuit
from distprove.circuits.filecoin.snap import snap_circuit, snap_poseidon_circuit
from distprove.circuits.registry import CIRCUITS
from distprove.groth16.r1cs import R1cs
from kernels.interface.matrix import CsrMatrix
from tests.support.row_digest import row_digest

THEIRS = """
winning-post-2KiB                90750    91674 133 8446435fde7432ce2f80009e718a7aebb31db904c178266ac37b8babfcc24641
winning-post-32KiB              146454   147906 133 46f01217562dea001dfc15bed81e21f3b2662dedd2fee8ceb4f2d24b9cd67447
winning-post-32GiB              370590   375210 133 7fe8c707f756196f3658f6fe29652114b99f182ce7385a6becd49b7e6bb552eb
window-post-2KiB                 21866    22128  23 74c51b82c1422e94398cec198174ee0d70635ac5fda8595bafca26a2bdff1ec9
window-post-32KiB                38746    39168  23 46b680b639bed9fc0348afc75397528b05817b94077563e59c55037d091031c5
snap-deals-poseidon-2KiB         36424    36834   5 fe61bab8184bd58294d5be1342e27b8aa39ce24d8bf9e899b2d8085ef5755bcb
snap-deals-poseidon-32KiB       121734   123034   5 66d48f2139d49796a6af7c6277e3841a0e4dd65e11608be6b68bb221338738f6
snap-deals-poseidon-8MiB        395250   400248   5 82793a51b935c91017e8565bd89d2800ffcff8f33f71e9fbad261165c8464722
snap-deals-2KiB                1705039  1703569   5 7525d34a1915d31a67507d83d2111bd2eadecf6c1f64d73dfea1904f276cf092
snap-deals-32KiB               6760091  6753564   5 8fb16492b50600c5a703d3ffdb6a800cd300b1831ac1393f1033e816d7da3519
snap-deals-8MiB               10007503  9998039   5 aea66fce39f5ca7bfbd3bc15519e984b828ea9f8d48d682a3bacab9e4f211a45
porep-2KiB                     2687921  2685673  40 8e359ff4037d93a16849a511c0bcf872c730208d71723342b8838c9b4e186d97
porep-1-2-8.4.2                1346982  1345810  22 4ea7b3773ee7c16359e801f61d97c3dcb29ae9d31914098753ea6d6fe195ca87
porep-1-11-8.8.2               6131634  6125799  22 4fbdaae81d267a6161a4c475d9b9eac172172337b96becc0861ca5d4787f4d35
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
            marks.append(pytest.mark.skip(reason="a minute and 3 GiB; with DISTPROVE_LONG=1 only"))
        yield pytest.param(name, tuple(map(int, sizes)), sha256, marks=marks, id=name)


@pytest.mark.parametrize(("name", "sizes", "sha256"), list(theirs()))
def test_rows_are_those_of_storage_proofs(name: str, sizes: tuple[int, ...], sha256: str) -> None:
    make = DO_NOT_SHIP[name] if name in DO_NOT_SHIP else CIRCUITS[f"filecoin/{name}"].make
    found = row_digest(make().system().r1cs())
    assert (found.constraints, found.private, found.public) == sizes
    assert found.sha256 == sha256
    assert found.distinct == found.private + found.public, "wires that are alike could be confused"


@pytest.fixture(scope="module")
def small() -> R1cs:
    return post_circuit(2, 1, (8, 2)).system().r1cs()


def reordered(r1cs: R1cs, seed: int) -> R1cs:
    """The same system with its private wires and its rows in another order."""
    rng, public = np.random.default_rng(seed), 1 + r1cs.n_public
    wires = np.concatenate([np.arange(public), public + rng.permutation(r1cs.n_vars - public)])
    order = rng.permutation(r1cs.n_constraints)

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


def test_the_digest_has_no_order(small: R1cs) -> None:
    assert row_digest(reordered(small, 1)) == row_digest(reordered(small, 2)) == row_digest(small)


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
