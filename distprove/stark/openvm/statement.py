"""The statement of a proof, with which its transcript begins."""

from __future__ import annotations

from collections.abc import Sequence

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.proof import TraceShape
from distprove.stark.openvm.transcript import Transcript
from kernels.maths.babybear import Elements


def observe_statement(
    transcript: Transcript,
    key: OpenVmKey,
    main_root: Elements,
    traces: Sequence[TraceShape | None],
    public_values: Sequence[Elements],
) -> None:
    """Observe the key, the commitments, which traces are present and how tall they are, and all public values.

    A required trace is present anyway, and the height of a preprocessed one is its key's: neither is observed.
    """
    transcript.observe_words(key.pre_hash)
    transcript.observe_words(main_root)
    for air, trace, values in zip(key.airs, traces, public_values, strict=True):
        if not air.is_required:
            transcript.observe(int(trace is not None))
        if trace is not None:
            if air.preprocessed is not None:
                transcript.observe_words(air.preprocessed.root)
            else:
                transcript.observe(trace.log_height)
            transcript.observe_words(trace.cached_roots)
        transcript.observe_words(values)
