"""Leaves of a tree over codewords from the coefficients (`cuda/src/codeword_leaves.cu`), without the codewords."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.device import Device
from kernels.cuda.goldilocks.root_powers import powers
from kernels.interface.arrays import Array
from kernels.interface.steps import Words
from kernels.maths.distinct import distinct_with_places
from kernels.maths.goldilocks import P, root_of_unity
from kernels.source import KernelSource

LEAVES = KernelSource("codeword_leaves")
LOG_RESIDUES, NEIGHBOURS = 10, 8
"""log2 of the points of a short transform, and how many a block makes. Must equal those in codeword_leaves.cu."""
LOG_LEAF, LEAF_THREADS = 4, 256
MOST_LEAVES = 1 << 9
"""Most leaves for which this is done: of more the kept outputs would be as many as codewords."""


def takes(log_n: int, log_blowup: int, log_arity: int, count: int) -> bool:
    """Whether the kernels take codewords of this size, and leaves of this arity and number."""
    fits = log_n - LOG_RESIDUES >= LEAF_THREADS.bit_length() - 1
    return fits and log_arity == LOG_LEAF and log_blowup <= 2 and 0 < count <= MOST_LEAVES


def leaves_of(device: Device, coefficients: Array, log_blowup: int, indices: NDArray[np.int64]) -> Words:
    """The leaves at distinct `indices`, (k, 2^LOG_LEAF w) on the host, for coefficients (w, n)."""
    width, n = map(int, coefficients.shape)
    log_rest, log_domain = n.bit_length() - 1 - LOG_RESIDUES, n.bit_length() - 1 + log_blowup
    cosets = 1 << log_blowup
    numbers, places = distinct_with_places(indices % (cosets << LOG_RESIDUES))
    order = np.lexsort((numbers // cosets, numbers % cosets))  # coset by coset
    row_of = np.empty(len(order), dtype=np.int64)
    row_of[order] = np.arange(len(order))
    own = numbers[order]
    root, twist = root_of_unity(log_domain), root_of_unity(LOG_RESIDUES + log_blowup)
    given = np.array([(row_of[p], pow(root, q, P)) for p, q in zip(places, indices.tolist(), strict=True)], np.uint64)
    upload = device.upload
    roots = upload(powers(root_of_unity(LOG_RESIDUES), 1 << LOG_RESIDUES))
    residues, out = device.empty((width, len(own), 1 << log_rest)), device.empty((len(indices), 1 << LOG_LEAF, width))
    kernel = device.kernel(LEAVES, "codeword_residues")
    threads, shared = (NEIGHBOURS << LOG_RESIDUES) // 16, 8 * NEIGHBOURS << LOG_RESIDUES
    for coset in range(cosets):
        begin, end = np.searchsorted(own % cosets, (coset, coset + 1)).tolist()
        if begin == end:
            continue
        kept = upload((own[begin:end] // cosets).astype(np.uint64))
        twists = upload(powers(pow(twist, coset, P), 1 << LOG_RESIDUES)) if coset else None
        sizes = np.uint32(log_rest), np.uint64(len(own)), np.uint64(begin)
        read = coefficients, residues, *sizes, kept, np.uint32(end - begin), twists, roots
        kernel.launch(((1 << log_rest) // NEIGHBOURS, width), threads, read, shared=shared)
    turns = upload(powers(root_of_unity(LOG_LEAF), 1 << LOG_LEAF))
    last = residues, out, np.uint32(log_rest), np.uint64(len(own)), upload(given.reshape(-1)), turns
    device.kernel(LEAVES, "codeword_leaves").launch((len(indices), width), LEAF_THREADS, last)
    return device.download(out).reshape(len(indices), -1)
