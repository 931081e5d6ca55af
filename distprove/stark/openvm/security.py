"""Proven soundness of a key's proofs in bits, by the formulas of stark-backend's `SoundnessCalculator`.

A draw's error is a bound of the probability that it lets a false statement pass; bits of a proof of work before it are
added. A key does not fix the heights of the traces, so that bounds of the key stand for them. The reference for list
decoding is BCHKS25 (ECCC TR25-169), theorem 1.5 with the degrees of lemma 3.1 as printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.params import SystemParams
from kernels.maths.babybear import DEGREE, P

FIELD_BITS = DEGREE * math.log2(P)
"""Bits of the field that challenges are drawn from."""
TARGET_BITS = 100
"""The security that OpenVM's production parameters are made for."""
SUMCHECK_DEGREE = 3
"""Degree of a round of the buses' and of WHIR's sumchecks, as the theorems count it."""


def security_bits(key: OpenVmKey) -> float:
    """Return the bits of security of all proofs under a key: of its weakest draw, at least 0."""
    return max(0.0, min(bits for _, bits in security_rows(key)))


def security_rows(key: OpenVmKey) -> list[tuple[str, float]]:
    """Return a row for each kind of draw: its name, and its bits of security."""
    params = key.params
    skip, candidates = (1 << params.log_skip) - 1, _log_list(params, 0)
    constraints = max([1, *(len(air.graph.constraints) for air in key.airs)])
    columns = sum(sum(air.part_widths) for air in key.airs)
    beyond = max(3, params.n_stack - _most_bus_variables(key))
    degree = params.round_degree
    bus = math.log2(2 * max(1, params.max_interactions)) + params.log_max_message_length
    return [
        ("LogUp", FIELD_BITS - bus - candidates + work_bits(params.logup_pow_bits)),
        ("rounds of the buses", FIELD_BITS - math.log2(SUMCHECK_DEGREE)),
        ("layers of the buses", FIELD_BITS),
        ("rounds of the constraints", FIELD_BITS - math.log2(max(1, degree * skip, degree)) - candidates),
        (
            "batching of the constraints",
            FIELD_BITS - math.log2(max(beyond + skip + constraints - 1, 3 * len(key.airs) - 1)) - candidates,
        ),
        ("stacked reduction", FIELD_BITS - math.log2(max(2 * columns, 2 * skip, 2)) - candidates),
        *_whir(params),
    ]


def _most_bus_variables(key: OpenVmKey) -> int:
    """The least bound of `Shape.n_logup` that follows from a key."""
    most = max((len(air.graph.interactions) for air in key.airs), default=0)
    if not most or not key.params.max_interactions:
        return 0
    by_limit = _ceil_log2(key.params.max_interactions)
    by_airs = _ceil_log2(len(key.airs)) + _ceil_log2(most) + key.params.log_height
    return max(0, min(by_limit, by_airs) - key.params.log_skip)


def _whir(params: SystemParams) -> Iterator[tuple[str, float]]:
    """The draws of WHIR, each by its weakest round."""
    whir = params.whir
    batching = _gap_bits(params, 0, params.log_height, max(2, params.w_stack)) + work_bits(whir.mu_pow_bits)
    folds, queries, samples = [], [], list[float]()
    fold_work, query_work = work_bits(whir.folding_pow_bits), work_bits(whir.query_pow_bits)
    log_size = params.log_height
    for i, count in enumerate(whir.queries):
        for _ in range(whir.log_fold):
            log_size -= 1
            sumcheck = FIELD_BITS - math.log2(SUMCHECK_DEGREE) - _log_list(params, i) + fold_work
            folds.append(_either(sumcheck, _gap_bits(params, i, log_size, 2) + fold_work))
        log_list = _log_list(params, i + 1)
        asked = count * query_bits(params, i) + query_work
        queries.append(_either(asked, FIELD_BITS - math.log2(count + 1) - log_list))
        if i + 1 < whir.rounds:
            samples.append(FIELD_BITS - log_size + 1 - 2 * log_list)
    yield "combination of the stacked columns", batching
    yield "folds", min(folds)
    yield "queries", min(queries)
    if samples:
        yield "out-of-domain samples", min(samples)


def query_bits(params: SystemParams, round_: int) -> float:
    """Return the bits of one query of a round: -log2 of the share of leaves where a word too far from all codewords can
    agree with one. An index is an element modulo the number of leaves, so that the few lowest are likelier."""
    log_rate, multiplicity = _log_inverse_rate(params, round_), params.whir.proximity.multiplicity_in(round_)
    rate = 2.0**-log_rate
    agreement = (1 + rate) / 2 if multiplicity is None else math.sqrt(rate) * (1 + 1 / (2 * multiplicity))
    agreement = min(1.0, agreement)
    leaves = 1 << params.log_leaves(round_)
    likelier = P % leaves
    return -math.log2(min(1.0, agreement * (1 - likelier / P) + min(agreement * leaves, likelier) / P))


def work_bits(bits: int) -> float:
    """Return the bits of a proof of work: an element is 0 in its low bits a little more often than once in 2^bits."""
    return -math.log2((P // (1 << bits) + 1) / P) if bits else 0.0


def _log_inverse_rate(params: SystemParams, round_: int) -> int:
    return params.log_blowup + round_ * (params.whir.log_fold - 1)


def _log_list(params: SystemParams, round_: int) -> float:
    """log2 of the number of codewords near a word in a round's regime: 0 for unique decoding."""
    multiplicity = params.whir.proximity.multiplicity_in(round_)
    if multiplicity is None:
        return 0.0
    if not _decodes(params, round_, multiplicity):
        return math.inf
    return math.log2(multiplicity + 0.5) + _log_inverse_rate(params, round_) / 2


def _decodes(params: SystemParams, round_: int, multiplicity: int) -> bool:
    """Whether the radius 1 - sqrt(rate) (1 + 1 / 2m) of list decoding is positive."""
    return math.sqrt(2.0 ** -_log_inverse_rate(params, round_)) * (1 + 1 / (2 * multiplicity)) < 1


def _gap_bits(params: SystemParams, round_: int, log_size: int, batched: int) -> float:
    """Bits of a random combination of so many words of a round's code with 2^log_size coefficients."""
    log_rate, multiplicity = _log_inverse_rate(params, round_), params.whir.proximity.multiplicity_in(round_)
    if multiplicity is None:
        exceptions = float(log_size + log_rate)
    elif not _decodes(params, round_, multiplicity):
        return -math.inf
    else:
        # Equation 13: 2 D_X D_Y^2 D_Z + (gamma n + 1) D_Y, with the degrees of equations 7 to 9.
        n, m, rate = 2.0 ** (log_size + log_rate), multiplicity + 0.5, 2.0**-log_rate
        d_x, d_y = m * n * math.sqrt(rate), m / math.sqrt(rate)
        d_z = max(d_y, m * m / (3 * rate))
        radius = 1 - math.sqrt(rate) * (1 + 1 / (2 * multiplicity))
        exceptions = math.log2(max(1, math.ceil(2 * d_x * d_y * d_y * d_z + (radius * n + 1) * d_y)))
    return FIELD_BITS - math.log2(batched - 1) - exceptions


def _either(a: float, b: float) -> float:
    """Bits of the sum of two errors."""
    low = min(a, b)
    return low if math.isinf(low) else low - math.log2(1 + 2.0 ** -(max(a, b) - low))


def _ceil_log2(value: int) -> int:
    return (value - 1).bit_length()
