"""The parameters of a proof, and the schedule of FRI, which follows from them and the tables' heights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from distprove.errors import FormatError, UsageError
from kernels.interface.tree_hash import TreeHash
from kernels.maths.goldilocks import TWO_ADICITY

MAX_LOG_HEIGHT = 28
"""Maximum log2 of a table's rows. With blow-up 8 an extension's indices stay below 2^32."""
MAX_BLOWUP = 8
ENGINES = ("fri", "multilinear")
"""The proof systems for tables, by name: the first is the default."""
BLOWUPS = {"speed": 2, "size": 4}
"""The blow-up for each preference: what makes proofs fastest, or small for at most twice that time."""
MAX_LOG_ARITY = 3
MAX_GRINDING_BITS = 40


@dataclass(frozen=True)
class Parameters:
    """The parameters that prover and verifier agree on, beside the program. They are part of the verifying key."""

    log_blowup: int
    queries: int
    grinding_bits: int
    """Bits of proof of work before the queries are drawn."""
    security_bits: int
    """Bits of proven security that the verifier requires of a proof."""
    log_arity: int = 3
    """FRI folds by 2^log_arity, or by less to stop at a table's height."""
    log_final: int = 5
    """FRI stops at 2^log_final coefficients, or at the height of the lowest table."""
    tree_hash: TreeHash = TreeHash.KECCAK
    """The hash of trees, transcript and proof of work."""

    def __post_init__(self) -> None:
        limits = {
            "log_blowup": (1, MAX_BLOWUP.bit_length() - 1),
            "queries": (1, 1024),
            "grinding_bits": (0, MAX_GRINDING_BITS),
            "security_bits": (0, 192),
            "log_arity": (1, MAX_LOG_ARITY),
            "log_final": (0, 10),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise UsageError(f"{name} must be an integer from {least} to {most}, not {value!r}")

    @property
    def blowup(self) -> int:
        return 1 << self.log_blowup

    def to_record(self) -> dict[str, Any]:
        """Return plain data. The field `hash` stands only where the hash is not Keccak-256."""
        record = {name: value for name, value in asdict(self).items() if name != "tree_hash"}
        return record if self.tree_hash is TreeHash.KECCAK else {**record, "hash": self.tree_hash.value}

    @classmethod
    def from_record(cls, record: Any) -> Parameters:
        """Read parameters from what `to_record` wrote. Raises FormatError."""
        numbers = {f.name for f in fields(cls)} - {"tree_hash"}
        if not isinstance(record, dict) or record.keys() - {"hash"} != numbers:
            raise FormatError("not a set of STARK parameters")
        if record.get("hash", TreeHash.POSEIDON2.value) != TreeHash.POSEIDON2.value:
            raise FormatError("a hash that is named is poseidon2")
        tree_hash = TreeHash.POSEIDON2 if "hash" in record else TreeHash.KECCAK
        try:
            return cls(**{name: record[name] for name in numbers}, tree_hash=tree_hash)
        except UsageError as error:
            raise FormatError(str(error)) from None


@dataclass(frozen=True)
class FoldStep:
    """A step of FRI that folds 2^log_height rows by 2^log_arity. `mixes` says if tables of the height reached enter."""

    log_height: int
    log_arity: int
    mixes: bool

    @property
    def log_reached(self) -> int:
        return self.log_height - self.log_arity


def fri_schedule(params: Parameters, log_heights: Iterable[int]) -> tuple[list[FoldStep], int]:
    """The FRI steps from the tallest table down, and log2 of the number of coefficients of the final polynomial.

    The schedule follows from parameters and heights alone; a proof cannot change it. Folds stop at each height that has
    tables, because these enter there.
    """
    heights = sorted(set(log_heights), reverse=True)
    final = min(params.log_final, heights[-1])
    steps, current = [], heights[0]
    for target in (*heights[1:], final) if heights[-1] != final else heights[1:]:
        while current > target:
            arity = min(params.log_arity, current - target)
            current -= arity
            steps.append(FoldStep(current + arity, arity, current == target and target in heights))
    return steps, final


def check_log_height(log_height: int, params: Parameters) -> bool:
    """Whether a table of 2^log_height rows can be proven."""
    return 0 <= log_height <= min(MAX_LOG_HEIGHT, TWO_ADICITY - params.log_blowup)
