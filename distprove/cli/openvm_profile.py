"""`distprove bench openvm-profile`: segments of a profile of stark-backend on one device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.backends import Measure
from distprove.cli.console import reports_errors, tell
from distprove.cli.measured import document, show
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.errors import UsageError
from kernels.host.units import count_of

if TYPE_CHECKING:
    from distprove.measure.openvm_segments import Segment

MEDIAN, ALL = "median", "all"


@reports_errors
@takes_groups
def openvm_profile(
    profile: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, a segment each: a reth block's, say.")],
    segments: Annotated[
        str,
        typer.Option(
            metavar="WHICH", help="median (by cells), all, a line's number from 0 on, or a slice of them: 0:10."
        ),
    ] = MEDIAN,
    scale_height: Annotated[int, typer.Option(min=-22, max=0, help="Heights times 2 to this: -10 fits a CPU.")] = 0,
    warm_up: Annotated[bool, typer.Option(help="Prove each segment once before the proofs that are timed.")] = True,
    verify: Annotated[bool, typer.Option(help="Verify a proof of each segment.")] = True,
    *,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Prove the segments of a profile of stark-backend as its own runner does, and time each stage.

    Keys are those of its `synthetic_runner`, under the app layer's parameters with 100 bits, and traces of zeros.
    """
    from distprove.measure import openvm_profile as bench
    from distprove.measure.openvm_segments import log_stacked, read_profile, scaled

    chosen = [scaled(each, scale_height) for each in choose(read_profile(profile), segments)]
    with measure.opened(device=measure.device) as backend:
        rows = bench.bench_segments(
            backend,
            chosen,
            log_stacked(scale_height),
            measure.repeats,
            tell,
            warm_up=warm_up,
            verified=verify,
        )
        made = document("openvm-profile", bench, backend.info(), rows)
    show({**made, "scale_height": scale_height, "summary": bench.summary(rows)}, as_json)


def choose(segments: Sequence[Segment], which: str) -> list[Segment]:
    """Return the segments that `--segments` names. Raises UsageError."""
    if which == ALL:
        return list(segments)
    if which == MEDIAN:
        return [sorted(segments, key=lambda each: each.cells)[len(segments) // 2]]
    first, colon, end = which.partition(":")
    if not first.isdecimal() or (colon and not end.isdecimal()):
        raise UsageError(f"--segments {which}: give {MEDIAN}, {ALL}, a number, or a slice such as 0:10")
    found = segments[int(first) : int(end) if colon else int(first) + 1]
    if not found:
        raise UsageError(f"--segments {which}: the profile has {count_of(len(segments), 'segment')}, from 0 on")
    return list(found)
