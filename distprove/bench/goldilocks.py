"""`distprove bench lde` and `bench merkle`: the extensions and trees of a STARK over Goldilocks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from itertools import product, starmap

import numpy as np
from numpy.typing import NDArray

from distprove.bench.ceilings import IN_CACHE, TABLE_SOURCE
from distprove.bench.measure import Timing, measure, rotation
from distprove.bench.results import Ceiling, Row
from distprove.errors import JobFailed
from distprove.stark import field
from kernels.cpu.keccak import keccak256
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import LEAF_TAG, NODE_TAG
from kernels.maths.goldilocks import GENERATOR, P, root_of_unity

FIELD = "Goldilocks"
BUTTERFLIES = {"H200": 4.96e11}
PERMUTATIONS = {"H200": 3.43e9}
RATE_LANES = 17
SPOTS = 8
"""Number of random positions at which a result is checked."""


class Lde:
    """How `distprove bench lde` describes what it times and checks."""

    TIMED = (
        "one extension, columns and result in the backend's memory; wall time, the device idle at both ends of a sample"
    )
    CHECKED = (
        "a column of few values against Lagrange's formula at random places and a polynomial of few coefficients "
        "everywhere, before timing"
    )


class Merkle:
    """How `distprove bench merkle` describes what it times and checks."""

    TIMED = "one tree, the matrix in the backend's memory; wall time, the device idle at both ends of a sample"
    CHECKED = "random leaves' rows and paths hashed up to the root on the host, before timing"


Progress = Callable[[str], None]


def bench_lde(
    backend: Backend,
    sizes: Iterable[int],
    widths: Iterable[int],
    log_blowups: Iterable[int],
    repeats: int,
    progress: Progress,
) -> list[Row]:
    """Time extensions for each size (log2 rows), width (columns) and log2 blow-up. Raises JobFailed for a wrong one."""
    ceiling, checked = butterfly_ceiling(backend), set[tuple[int, int]]()

    def row(log_n: int, log_blowup: int, width: int) -> Row:
        n, blowup = 1 << log_n, 1 << log_blowup
        if (log_n, log_blowup) not in checked:  # it is the same for any number of columns
            check_lde(backend, log_n, log_blowup)
            checked.add((log_n, log_blowup))
        progress(f"LDE 2^{log_n} x {width}, blow-up {blowup}")
        inputs = [random_words(backend, width, n) for _ in range(rotation(8 * width * n))]
        return Row(
            what="lde",
            curve=FIELD,
            log_n=log_n,
            variant=f"{width} columns, blow-up {blowup}",
            timing=_time_lde(backend, inputs, backend.empty((width, blowup, n)), repeats),
            bytes_moved=8 * width * n * (1 + blowup),
            operations=width * (1 + blowup) * n / 2 * log_n,
            ceiling=ceiling,
        )

    return list(starmap(row, product(sizes, log_blowups, widths)))


def bench_merkle(
    backend: Backend,
    sizes: Iterable[int],
    widths: Iterable[int],
    log_blowups: Iterable[int],
    repeats: int,
    progress: Progress,
) -> list[Row]:
    """Time trees over extensions with 2^size rows per coset. Raises JobFailed when a tree is wrong."""
    ceiling = permutation_ceiling(backend)

    def row(log_n: int, log_blowup: int, width: int) -> Row:
        shape, leaves = (width, 1 << log_blowup, 1 << log_n), 1 << (log_n + log_blowup)
        progress(f"Keccak tree 2^{log_n} x {width}, blow-up {shape[1]}")
        inputs = [random_words(backend, *shape) for _ in range(rotation(8 * width * leaves))]
        check_tree(backend, inputs[0])
        return Row(
            what="merkle",
            curve=FIELD,
            log_n=log_n,
            variant=f"{width} columns, blow-up {shape[1]}",
            timing=_time_commit(backend, inputs, repeats),
            bytes_moved=8 * width * leaves + 64 * leaves,
            operations=leaves * ((1 + width) // RATE_LANES + 1) + leaves - 1,
            ceiling=ceiling,
        )

    return list(starmap(row, product(sizes, log_blowups, widths)))


def _time_lde(backend: Backend, inputs: list[Array], out: Array, repeats: int) -> Timing:
    log_blowup = int(out.shape[1]).bit_length() - 1
    kernels = backend.goldilocks
    return measure(lambda i: kernels.lde(inputs[i % len(inputs)], log_blowup, out=out), backend, repeats=repeats)


def _time_commit(backend: Backend, inputs: list[Array], repeats: int) -> Timing:
    kernels = backend.goldilocks
    return measure(lambda i: kernels.commit([inputs[i % len(inputs)]]), backend, repeats=repeats)


def check_lde(backend: Backend, log_n: int, log_blowup: int) -> None:
    """Raise JobFailed unless an extension's values are those of the polynomials that interpolate its input.

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
            raise JobFailed(f"the extension of 2^{log_n} rows by {blowup} is wrong at coset {k}, row {j}")
    for k, shift in enumerate(shifts):
        if not np.array_equal(host[1, k], _sparse_polynomial(terms, powers, shift)):
            raise JobFailed(f"the extension of 2^{log_n} rows by {blowup} is wrong on coset {k}")


def _sparse_polynomial(terms: dict[int, int], powers: dict[int, NDArray[np.uint64]], shift: int) -> NDArray[np.uint64]:
    """The sum of c x^e over `terms` {e: c} at x = shift * w^j for every j; `powers` holds w^(e j)."""
    parts = [field.mul(powers[e], np.uint64(c * pow(shift, e, P) % P)) for e, c in terms.items()]
    total = parts[0]
    for part in parts[1:]:
        total = field.add(total, part)
    return total


def check_tree(backend: Backend, matrix: Array) -> None:
    """Raise JobFailed unless random leaves of the tree over `matrix` lead to its root."""
    width, blowup, n = map(int, matrix.shape)
    tree, leaves = backend.goldilocks.commit([matrix]), blowup * n
    indices = [secrets.randbelow(leaves) for _ in range(SPOTS)]
    node_tag = NODE_TAG.to_bytes(8, "little")
    head = np.array([LEAF_TAG + 256, width], dtype="<u4").tobytes()
    for index in indices:
        opening = tree.open([index])
        digest = keccak256(head + opening.rows[0].astype("<u8").tobytes())
        for depth, sibling in enumerate(opening.path):
            right = index & (leaves >> (depth + 1))
            pair = (sibling.tobytes(), digest) if right else (digest, sibling.tobytes())
            digest = keccak256(node_tag + pair[0] + pair[1])
        if digest != tree.root:
            raise JobFailed(f"leaf {index} of a tree over {matrix.shape} does not lead to its root")
    k, j = index % blowup, index // blowup
    if int(opening.rows[0][0][-1]) != int(backend.to_host(matrix[-1])[k, j]):
        raise JobFailed(f"leaf {index} of a tree over {matrix.shape} is not the matrix' row")


def butterfly_ceiling(backend: Backend) -> Ceiling | None:
    """Maximum Goldilocks butterflies (one product, one addition, one subtraction) per second; None if unknown."""
    rate = rate_of(BUTTERFLIES, backend)
    if rate is not None:
        return Ceiling("Goldilocks butterflies", rate, TABLE_SOURCE)
    if backend.info().kind != "cpu":
        return None
    # Vectors that fit a cache give the multiplier's own speed, on all threads of the backend.
    n = 4 * IN_CACHE * max(1, int(backend.info().details.get("threads", 1)))
    a, b = random_words(backend, n), random_words(backend, n)
    rate = n / min(measure(lambda _: backend.goldilocks.mul(a, b), backend, repeats=21).samples)
    return Ceiling("Goldilocks products", rate, "measured: vector product in cache")


def permutation_ceiling(backend: Backend) -> Ceiling | None:
    """Maximum Keccak-f[1600] permutations per second; None if unknown."""
    rate = rate_of(PERMUTATIONS, backend)
    return None if rate is None else Ceiling("Keccak-f[1600]", rate, TABLE_SOURCE)


def random_host_words(*shape: int) -> NDArray[np.uint64]:
    """Uniform canonical Goldilocks elements of the given shape, uint64, in host memory."""
    return np.random.default_rng(secrets.randbits(64)).integers(0, P, size=shape, dtype=np.uint64)


def random_words(backend: Backend, *shape: int) -> Array:
    """Uniform canonical Goldilocks elements of the given shape, uint64, in the backend's memory."""
    return backend.to_device(random_host_words(*shape))


def rate_of(table: dict[str, float], backend: Backend) -> float | None:
    """The rate of the backend's device in a table by device name; None if it is not there."""
    name = backend.info().name
    return next((rate for device, rate in table.items() if device in name), None)
