"""`distprove bench aggregate`: proofs aggregated, and verified as an aggregate beside a batch of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from statistics import median

import numpy as np

from distprove.bench.measure import Timing, measure
from distprove.bench.results import Row
from distprove.errors import JobFailed
from distprove.groth16 import verifier as batch
from distprove.groth16.aggregate.aggregator import processors_beside
from distprove.groth16.aggregate.proof import Aggregate
from distprove.groth16.aggregate.prover import aggregate
from distprove.groth16.aggregate.srs import Srs, VerifierSrs
from distprove.groth16.aggregate.srs_setup import insecure_srs
from distprove.groth16.aggregate.verifier import verify
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.host.machine import usable_threads
from distprove.steps import Steps
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints

TIMED = (
    "aggregate: from proofs and keys on the host to an aggregate there, and its steps by number of points, with the "
    "device waited for after each; verify: from its bytes, all public values known, and batch: the same proofs as one "
    "batch with random coefficients, on one thread and in turn"
)
CHECKED = "each aggregate and each batch verifies, and the aggregate with another public value does not"
N_PUBLIC = 3


def bench_aggregate(
    backend: Backend,
    curves: Iterable[Curve],
    sizes: Iterable[int],
    repeats: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Time aggregation and both verifications of 2^size proofs. Raises JobFailed when one of them is wrong."""
    rows: list[Row] = []
    sizes = [max(1, log_n) for log_n in sizes]
    for curve in curves:
        srs = insecure_srs(curve, 1 << max(sizes), backend)
        for log_n in sizes:
            progress(f"aggregate {curve.title} 2^{log_n}")
            key, statements = simulated_proofs(curve, 1 << log_n, backend)
            rows += _rows(backend, srs, key, statements, log_n, repeats)
    return rows


def _rows(
    backend: Backend,
    srs: Srs,
    key: VerificationKey,
    statements: list[batch.Statement],
    log_n: int,
    repeats: int,
) -> list[Row]:
    curve, verifier = srs.curve, srs.verifier
    public, proofs = [values for values, _ in statements], [proof for _, proof in statements]
    if not batch.verify_batch(key, statements):
        raise JobFailed(f"a batch of {len(proofs)} proofs does not verify")
    rows: list[Row] = []
    with processors_beside(backend, usable_threads()) as host:

        def run(steps: Steps | None = None) -> bytes:
            return aggregate(srs, proofs, b"bench", backend, host, steps=steps).to_bytes()

        data = run()
        _check(key, verifier, public, data)
        timing = measure(lambda _: run(), backend, repeats=repeats)
        settled = [Steps(settle=backend.synchronize) for _ in range(repeats)]
        for steps in settled:
            run(steps)
    seconds = {name: median(steps.seconds[name] for steps in settled) for name in settled[0].seconds}
    facts = {"proof_bytes": len(data)}
    rows.append(Row("aggregation", curve.title, log_n, timing, "aggregate", len(data), steps=seconds, facts=facts))
    alone = len(proofs) * (2 * curve.fq.bytes * 2)  # A, B and C with one coordinate of each point
    taken: dict[str, list[Steps]] = {"verify": [], "verify, 2 threads": [], "batch": []}

    def verified(variant: str, threads: int) -> bool:
        taken[variant].append(Steps())
        return _holds(key, verifier, public, data, taken[variant][-1], threads=threads)

    calls: dict[str, tuple[int, Callable[[int], bool]]] = {
        "verify": (len(data), lambda _: verified("verify", 1)),
        "verify, 2 threads": (len(data), lambda _: verified("verify, 2 threads", 2)),
        "batch": (alone, lambda _: batch.verify_batch(key, statements)),
    }
    samples: dict[str, list[float]] = {variant: [] for variant in calls}
    for _ in range(repeats):  # in turn
        for variant, (_, call) in calls.items():
            samples[variant].append(measure(call, backend, repeats=1).median)
    for variant, (size, _) in calls.items():
        timing, facts = Timing(tuple(samples[variant])), {"proof_bytes": size}
        names = taken[variant][0].seconds if taken[variant] else ()
        seconds = {name: median(steps.seconds[name] for steps in taken[variant]) for name in names}
        rows.append(Row("aggregation", curve.title, log_n, timing, variant, size, steps=seconds, facts=facts))
    return rows


def _holds(
    key: VerificationKey,
    srs: VerifierSrs,
    public: list[batch.Public],
    data: bytes,
    steps: Steps | None = None,
    *,
    threads: int = 1,
) -> bool:
    step = steps or Steps()
    with step("elements"):
        read = Aggregate.from_bytes(key.curve, data, threads=threads)
    return verify(key, srs, public, b"bench", read, threads=threads, steps=step)


def _check(key: VerificationKey, srs: VerifierSrs, public: list[batch.Public], data: bytes) -> None:
    if not _holds(key, srs, public, data):
        raise JobFailed(f"an aggregate of {len(public)} proofs does not verify")
    first = list(public[0])
    first[0] = (first[0] + 1) % key.curve.fr.modulus
    if _holds(key, srs, [first, *public[1:]], data):
        raise JobFailed(f"an aggregate of {len(public)} proofs verifies with another public value")


def simulated_proofs(curve: Curve, n: int, backend: Backend) -> tuple[VerificationKey, list[batch.Statement]]:
    """n true proofs under a key whose secrets are known here: C = (A B - alpha beta - gamma L) / delta."""
    p = curve.fr.modulus

    def points(group: Group, values: list[int]) -> HostArray:
        scalars = backend.to_device(scalars_from_ints(curve.fr, values))
        return backend.to_host(backend.groups.fixed_base(curve, group, generator(curve, group), scalars))

    def drawn(count: int) -> list[int]:
        return [1 + secrets.randbelow(p - 1) for _ in range(count)]

    alpha, beta, gamma, delta = drawn(4)
    ic, a, b = drawn(N_PUBLIC + 1), drawn(n), drawn(n)
    g1, g2 = points(Group.G1, [alpha, *ic]), points(Group.G2, [beta, gamma, delta])
    key = VerificationKey(curve, g1[0], g2[0], g2[1], g2[2], g1[1:])
    public = [tuple(drawn(N_PUBLIC)) for _ in range(n)]
    inverse = pow(delta, -1, p)
    inputs = [ic[0] + sum(x * v for x, v in zip(ic[1:], values, strict=True)) for values in public]
    c = [(x * y - alpha * beta - gamma * i) * inverse for x, y, i in zip(a, b, inputs, strict=True)]
    rows = zip(points(Group.G1, a), points(Group.G2, b), points(Group.G1, c), strict=True)
    proofs = [Groth16Proof(curve, *(np.ascontiguousarray(point) for point in row)) for row in rows]
    return key, list(zip(public, proofs, strict=True))
