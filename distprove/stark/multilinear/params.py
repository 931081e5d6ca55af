"""The parameters of a multilinear proof, and the rounds of WHIR, which follow from them and the stack's height."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from distprove.errors import FormatError, UsageError
from distprove.stark.params import MAX_GRINDING_BITS, MAX_LOG_HEIGHT
from kernels.interface.tree_hash import TreeHash

LOG_FOLD = 4
"""A round of WHIR folds by 2^LOG_FOLD."""
LOG_FINAL_IN_CIRCUITS = 4
"""`Parameters.log_final` of proofs that a circuit verifies: it evaluates the final polynomial for each query."""
MAX_LOG_BLOWUP = 6
MAX_LOG_SKIP = 6
MAX_LOG_COLUMNS = 6
MAX_ROUNDS = 8
MAX_QUERIES = 1024
MAX_PLACES = 64

_LIMITS = {
    "log_blowup": (1, MAX_LOG_BLOWUP),
    "log_skip": (0, MAX_LOG_SKIP),
    "log_columns": (0, MAX_LOG_COLUMNS),
    "log_shrink": (1, LOG_FOLD - 1),
    "log_final": (0, 10),
    "grinding_bits": (0, MAX_GRINDING_BITS),
    "security_bits": (0, 192),
}


@dataclass(frozen=True)
class Parameters:
    """The parameters that prover and verifier agree on, beside the program. They are part of the verifying key."""

    log_blowup: int
    log_skip: int
    """The univariate round is over 2^log_skip rows; no table is shorter."""
    queries: tuple[int, ...]
    """Number of queries of each round of WHIR; a proof uses as many as its stack needs."""
    grinding_bits: int
    """Bits of proof of work before the queries of each round."""
    security_bits: int
    """Bits of proven security that the verifier requires of a proof."""
    log_columns: int = 2
    """A stack has at most 2^log_columns columns, unless its tallest table needs a greater height."""
    log_shrink: int = 1
    """WHIR's domain shrinks by 2^log_shrink a round."""
    log_final: int = 8
    """WHIR stops at no more than 2^log_final coefficients."""
    tree_hash: TreeHash = TreeHash.KECCAK
    """The hash of trees, transcript and proof of work."""
    places: int | None = None
    """Segments for which a job that a contract can read has places; None for other jobs (`multilinear.places`)."""

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            _check(name, getattr(self, name), least, most)
        if not isinstance(self.queries, tuple) or not 1 <= len(self.queries) <= MAX_ROUNDS:
            raise UsageError(f"queries must be numbers for 1 to {MAX_ROUNDS} rounds")
        for number in self.queries:
            _check("queries", number, 1, MAX_QUERIES)
        if self.places is not None:
            _check("places", self.places, 1, MAX_PLACES)
            if self.tree_hash is not TreeHash.POSEIDON2:
                raise UsageError(f"a job that a contract can read has hash {TreeHash.POSEIDON2.value}")

    @property
    def blowup(self) -> int:
        return 1 << self.log_blowup

    def to_record(self) -> dict[str, Any]:
        record = {name: value for name, value in asdict(self).items() if name not in ("tree_hash", "places")}
        readable = {} if self.places is None else {"places": self.places}
        return {**record, "queries": list(self.queries), "hash": self.tree_hash.value, **readable}

    @classmethod
    def from_record(cls, record: Any) -> Parameters:
        """Read parameters from what `to_record` wrote. Raises FormatError."""
        names = {f.name for f in fields(cls)} - {"tree_hash", "places"} | {"hash"}
        if not isinstance(record, dict) or record.keys() - {"places"} != names or record.get("places", 1) is None:
            raise FormatError("not a set of the multilinear engine's parameters")
        if not isinstance(record["queries"], list) or record["hash"] not in [each.value for each in TreeHash]:
            raise FormatError("queries are a list, and a tree's hash is one that is known")
        try:
            given = {name: value for name, value in record.items() if name != "hash"}
            return cls(**{**given, "queries": tuple(record["queries"])}, tree_hash=TreeHash(record["hash"]))
        except UsageError as error:
            raise FormatError(str(error)) from None


def _check(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} must be an integer from {least} to {most}, not {value!r}")


@dataclass(frozen=True)
class Round:
    """One round of WHIR: it folds a polynomial of `log_size` variables by 2^log_fold."""

    log_size: int
    log_fold: int
    log_domain: int
    """log2 of the number of points of the word that is folded."""
    queries: int

    @property
    def log_leaves(self) -> int:
        """log2 of the number of leaves of the word's tree, and of the points that queries are drawn from."""
        return self.log_domain - self.log_fold

    @property
    def log_folded(self) -> int:
        return self.log_size - self.log_fold


def whir_rounds(params: Parameters, log_height: int) -> list[Round] | None:
    """The rounds for stacked columns of 2^log_height; None if the parameters have too few queries for them."""
    rounds: list[Round] = []
    size, domain = log_height, log_height + params.log_blowup
    while not rounds or size > params.log_final:
        if len(rounds) == len(params.queries):
            return None
        fold = min(LOG_FOLD, size)
        rounds.append(Round(size, fold, domain, params.queries[len(rounds)]))
        size, domain = size - fold, domain - params.log_shrink
    return rounds


def check_log_height(log_height: int, params: Parameters) -> bool:
    """Whether a table of 2^log_height rows can be proven."""
    return params.log_skip <= log_height <= MAX_LOG_HEIGHT
