"""`distprove bench ntt`: number-theoretic transforms over the scalar fields, in place, in the backend's memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any

from distprove.errors import JobFailed
from distprove.measure.ceilings import butterfly_ceiling, random_elements
from distprove.measure.results import Row
from distprove.measure.timing import Timing, measure, rotation
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Field
from kernels.maths.encoding import field_from_ints, field_to_ints

TIMED = "one transform in place, data in the backend's memory; wall time, the device idle at both ends of a sample"
CHECKED = "a geometric series against its closed form at random positions, and a round trip, before timing"

VARIANTS: dict[str, dict[str, Any]] = {
    "natural order": {},
    "to bit-reversed": {"bit_reversed_output": True},
}


def bench_ntt(
    backend: Backend,
    curves: Iterable[Curve],
    sizes: Iterable[int],
    repeats: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Time transforms for every curve, size (log2) and variant. Raises JobFailed when a transform is wrong."""
    sizes = list(sizes)
    rows = []
    for curve in curves:
        ceiling = butterfly_ceiling(backend, curve)
        for log_n in sizes:
            n, field = 1 << log_n, curve.fr
            progress(f"NTT {curve.title} 2^{log_n}")
            check(backend, field, log_n)
            inputs = [random_elements(backend, field, n) for _ in range(rotation(n * field.bytes))]
            for variant, options in VARIANTS.items():
                timing = _time(backend, field, inputs, options, repeats)
                rows.append(
                    Row(
                        what="ntt",
                        curve=curve.title,
                        log_n=log_n,
                        variant=variant,
                        timing=timing,
                        bytes_moved=2 * n * field.bytes,
                        operations=n / 2 * log_n,
                        ceiling=ceiling,
                    )
                )
    return rows


def _time(backend: Backend, field: Field, inputs: list[Array], options: dict[str, Any], repeats: int) -> Timing:
    return measure(lambda i: backend.vectors.ntt(field, inputs[i % len(inputs)], **options), backend, repeats=repeats)


def check(backend: Backend, field: Field, log_n: int) -> None:
    """Transform 1, g, g^2, ..., compare some outputs with (g^n - 1) / (g w^k - 1), and go back. Raises JobFailed."""
    n, p = 1 << log_n, field.modulus
    g = 2 + secrets.randbelow(p - 2)
    ones = backend.to_device(field_from_ints(field, [1]).repeat(n, axis=0))
    series = backend.vectors.scale_powers(field, ones, g)
    before = backend.vectors.scale_powers(field, series, 1)
    after = backend.vectors.ntt(field, series)
    w = field.root_of_unity(log_n)
    for k in {0, n - 1, *(secrets.randbelow(n) for _ in range(6))}:
        ratio = g * pow(w, k, p) % p
        expected = (pow(g, n, p) - 1) * pow(ratio - 1, -1, p) % p if ratio != 1 else n % p
        if field_to_ints(field, backend.to_host(after[k : k + 1]))[0] != expected:
            raise JobFailed(f"the NTT of size 2^{log_n} over {field.name} is wrong at position {k}")
    if not backend.vectors.equal(backend.vectors.ntt(field, after, inverse=True), before):
        raise JobFailed(f"the inverse NTT of size 2^{log_n} over {field.name} does not undo the forward one")
