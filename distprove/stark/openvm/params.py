"""The system parameters of a key, as `SystemParams` of stark-backend 2.0 has them."""

from __future__ import annotations

from dataclasses import dataclass

from distprove.errors import FormatError
from kernels.host.units import count_of
from kernels.maths.babybear import TWO_ADICITY

MAX_LOG_SKIP = 8
MAX_LOG_FOLD = 8
MAX_QUERIES = 1 << 16
MAX_DEGREE = 64
MAX_POW_BITS = 27
"""Bits of a proof of work. A drawn element is 0 in up to so many low bits with its due probability: p = 15 2^27 + 1."""
MAX_STACKED_WIDTH = 1 << 24


@dataclass(frozen=True)
class Proximity:
    """The decoding regimes of WHIR's rounds, for which the numbers of queries were chosen. A verifier needs them for
    soundness figures only."""

    regime: str
    """One of "UniqueDecoding", "ListDecoding", "SplitUniqueList"."""
    multiplicity: int = 0
    """The `m` of list decoding; 0 for unique decoding."""
    list_start_round: int = 0
    """The first round in the list decoding regime, of "SplitUniqueList"."""

    def __post_init__(self) -> None:
        if self.regime not in ("UniqueDecoding", "ListDecoding", "SplitUniqueList"):
            raise FormatError(f"no decoding regime: {self.regime!r}")
        _within("the multiplicity of list decoding", self.multiplicity, 0, 1 << 16)
        _within("the first round of list decoding", self.list_start_round, 0, 64)

    def multiplicity_in(self, round_: int) -> int | None:
        """The multiplicity of a round's list decoding; None for unique decoding."""
        if self.regime == "UniqueDecoding":
            return None
        if self.regime == "SplitUniqueList" and round_ < self.list_start_round:
            return None
        return max(1, self.multiplicity)


@dataclass(frozen=True)
class WhirParams:
    """The parameters of WHIR."""

    log_fold: int
    """A round folds by 2^log_fold: `k` of stark-backend."""
    queries: tuple[int, ...]
    """Number of queries of each round."""
    mu_pow_bits: int
    """Bits of proof of work before the stacked columns are combined."""
    query_pow_bits: int
    """Bits of proof of work before the queries of each round."""
    folding_pow_bits: int
    """Bits of proof of work before each folding challenge."""
    proximity: Proximity

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.queries)

    @property
    def folds(self) -> int:
        """Number of sumcheck rounds, one for each folding challenge."""
        return self.rounds * self.log_fold


@dataclass(frozen=True)
class SystemParams:
    """The parameters that prover and verifier agree on. Raises FormatError for values that no proof can have."""

    log_skip: int
    """The univariate round is over the subgroup of 2^log_skip points: `l_skip`."""
    n_stack: int
    """Multilinear variables of a stacked column."""
    w_stack: int
    """Most stacked columns, of all commitments together."""
    log_blowup: int
    """-log2 of the rate of the first Reed-Solomon code."""
    whir: WhirParams
    max_interactions: int
    """Bound of the total number of interactions of a proof, which the key's height constraints state."""
    log_max_message_length: int
    logup_pow_bits: int
    """Bits of proof of work before the challenges of LogUp."""
    max_constraint_degree: int
    """Greatest degree of a constraint or an interaction of any AIR."""

    def __post_init__(self) -> None:
        whir = self.whir
        _within("l_skip", self.log_skip, 0, MAX_LOG_SKIP)
        _within("n_stack", self.n_stack, 0, TWO_ADICITY)
        _within("w_stack", self.w_stack, 1, MAX_STACKED_WIDTH)
        _within("log_blowup", self.log_blowup, 1, TWO_ADICITY)
        _within("the maximum constraint degree", self.max_constraint_degree, 1, MAX_DEGREE)
        _within("log2 of the longest message", self.log_max_message_length, 0, 31)
        _within("the maximum number of interactions", self.max_interactions, 0, (1 << 32) - 1)
        _within("k of WHIR", whir.log_fold, 1, MAX_LOG_FOLD)
        _within("the number of WHIR's rounds", whir.rounds, 1, TWO_ADICITY)
        for queries in whir.queries:
            _within("the number of queries", queries, 1, MAX_QUERIES)
        for bits in (self.logup_pow_bits, whir.mu_pow_bits, whir.query_pow_bits, whir.folding_pow_bits):
            _within("bits of proof of work", bits, 0, MAX_POW_BITS)
        if whir.folds > self.log_height:
            raise FormatError(f"WHIR folds {whir.folds} of {count_of(self.log_height, 'variable')}")
        if self.log_height + self.log_blowup > TWO_ADICITY:
            raise FormatError(f"a codeword of 2^{self.log_height + self.log_blowup} elements: BabyBear has no domain")

    @property
    def log_height(self) -> int:
        """log2 of the rows of a stacked column."""
        return self.log_skip + self.n_stack

    @property
    def log_final(self) -> int:
        """log2 of the coefficients of WHIR's final polynomial."""
        return self.log_height - self.whir.folds

    @property
    def round_degree(self) -> int:
        """Degree of a multilinear round of the batched constraints, in its variable."""
        return self.max_constraint_degree + 1

    def log_domain(self, round_: int) -> int:
        """log2 of the codeword's length that a WHIR round opens."""
        return self.log_height + self.log_blowup - round_

    def log_leaves(self, round_: int) -> int:
        """log2 of the leaves of the tree that a WHIR round opens: the depth of its Merkle paths."""
        return self.log_domain(round_) - self.whir.log_fold


def _within(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise FormatError(f"{what} is {value}, not from {least} to {most}")
