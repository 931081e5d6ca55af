"""Heights of a guest's segments that are declared, so that all runs of the guest have the same ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from distprove.errors import UsageError
from distprove.formats.visible import MAX_NAME, bounded
from distprove.stark.heights import LogHeights
from distprove.stark.params import MAX_LOG_HEIGHT
from distprove.stark.riscv.segment import LEAST_LOG_ROWS

_NUMBER = re.compile(r"[0-9]{1,2}")


def parse_declared(text: str, names: Sequence[str], fixed: Mapping[str, int], optional: Collection[str]) -> LogHeights:
    """The heights of the tables of these `names` that "cpu=10,host=6" declares, log2 of rows. `fixed` are those that
    the guest fixes; `optional` tables that are not declared are absent. Raises UsageError."""
    given: dict[str, int] = {}
    for item in text.split(","):
        name, equals, number = item.strip().partition("=")
        if not equals or not _NUMBER.fullmatch(number) or name in given:
            raise UsageError(f"heights: expected TABLE=LOG2,... with each table once, not {bounded(item, MAX_NAME)!r}")
        given[name] = int(number)
    if unknown := [name for name in given if name not in names or name in fixed]:
        raise UsageError(f"heights: {bounded(unknown[0], MAX_NAME)} is no table whose height is declared")
    for name in names:
        if name not in given and name not in fixed and name not in optional:
            raise UsageError(f"heights: table {name} is missing, which every segment has")
    if wrong := [name for name, height in given.items() if not LEAST_LOG_ROWS <= height <= MAX_LOG_HEIGHT]:
        raise UsageError(f"heights: {wrong[0]} is from {LEAST_LOG_ROWS} to {MAX_LOG_HEIGHT}")
    return tuple(fixed.get(name, given.get(name)) for name in names)


def format_declared(names: Sequence[str], log_heights: Sequence[int | None], fixed: Mapping[str, int]) -> str:
    """The text that declares these heights."""
    named = zip(names, log_heights, strict=True)
    return ",".join(f"{name}={height}" for name, height in named if height is not None and name not in fixed)


def require_within(names: Sequence[str], needed: Sequence[int | None], declared: Sequence[int | None]) -> None:
    """Raise UsageError for a run that needs more rows than are declared."""
    for name, least, height in zip(names, needed, declared, strict=True):
        if least is not None and (height is None or height < least):
            told = "no rows" if height is None else f"2^{height} rows"
            raise UsageError(f"the run needs 2^{least} rows of {name}, and {told} are declared (heights)")
