"""Checks of extensions and trees over Goldilocks that are too large to be computed a second time: they are held against
closed forms and against paths."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from distprove.stark import field
from kernels.cpu.keccak import keccak256
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import LEAF_TAG, NODE_TAG
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity

SPOTS = 8
"""Number of random positions at which a result is checked."""


def random_words(backend: Backend, *shape: int) -> Array:
    """Uniform canonical Goldilocks elements of the given shape, uint64, in the backend's memory."""
    rng = np.random.default_rng(secrets.randbits(64))
    return backend.to_device(rng.integers(0, P, size=shape, dtype=np.uint64))


def check_lde(backend: Backend, log_n: int, log_blowup: int) -> None:
    """Raise AssertionError unless an extension's values are those of the polynomials that interpolate its input.

    One column is zero but for a few values and is compared at random positions; the other column is a polynomial with a
    few coefficients and is compared everywhere.
    """
    n, blowup = 1 << log_n, 1 << log_blowup
    w, w_fine = root_of_unity(log_n), root_of_unity(log_n + log_blowup)
    shifts = [GENERATOR * pow(w_fine, k, P) % P for k in range(blowup)]
    support, terms = ({secrets.randbelow(n): secrets.randbelow(P) for _ in range(2)} for _ in range(2))
    powers = {e: field.powers(pow(w, e, P), n) for e in terms}
    columns = np.zeros((2, n), dtype=np.uint64)
    columns[0, list(support)] = np.array(list(support.values()), dtype=np.uint64)
    columns[1] = _sparse_polynomial(terms, powers, 1)
    host = backend.to_host(backend.goldilocks.lde(backend.to_device(columns), log_blowup))
    for _ in range(SPOTS):
        k, j = secrets.randbelow(blowup), secrets.randbelow(n)
        x = shifts[k] * pow(w, j, P) % P
        vanishing = (pow(x, n, P) - 1) * pow(n, -1, P) % P
        want = sum(v * vanishing * pow(w, m, P) * pow(x - pow(w, m, P), -1, P) for m, v in support.items()) % P
        if int(host[0, k, j]) != want:
            raise AssertionError(f"the extension of 2^{log_n} rows by {blowup} is wrong at coset {k}, row {j}")
    for k, shift in enumerate(shifts):
        if not np.array_equal(host[1, k], _sparse_polynomial(terms, powers, shift)):
            raise AssertionError(f"the extension of 2^{log_n} rows by {blowup} is wrong on coset {k}")


def _sparse_polynomial(terms: dict[int, int], powers: dict[int, NDArray[np.uint64]], shift: int) -> NDArray[np.uint64]:
    """The sum of c x^e over `terms` {e: c} at x = shift * w^j for every j; `powers` holds w^(e j)."""
    parts = [field.mul(powers[e], np.uint64(c * pow(shift, e, P) % P)) for e, c in terms.items()]
    total = parts[0]
    for part in parts[1:]:
        total = field.add(total, part)
    return total


def check_tree(backend: Backend, matrix: Array) -> None:
    """Raise AssertionError unless random leaves of the tree over `matrix` lead to its root."""
    width, blowup, n = map(int, matrix.shape)
    kernels, leaves = backend.goldilocks, blowup * n
    tree = kernels.commit([matrix])
    indices = [secrets.randbelow(leaves) for _ in range(SPOTS)]
    node_tag = NODE_TAG.to_bytes(8, "little")
    head = np.array([LEAF_TAG + 256, width], dtype="<u4").tobytes()
    for index in indices:
        (opening,) = kernels.open([tree], [index])
        digest = keccak256(head + opening.rows[0].astype("<u8").tobytes())
        for depth, sibling in enumerate(opening.path):
            right = index & (leaves >> (depth + 1))
            pair = (sibling.tobytes(), digest) if right else (digest, sibling.tobytes())
            digest = keccak256(node_tag + pair[0] + pair[1])
        if digest != tree.root:
            raise AssertionError(f"leaf {index} of a tree over {matrix.shape} does not lead to its root")
    k, j = index % blowup, index // blowup
    if int(opening.rows[0][0][-1]) != int(backend.to_host(matrix[-1])[k, j]):
        raise AssertionError(f"leaf {index} of a tree over {matrix.shape} is not the matrix' row")
