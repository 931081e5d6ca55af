"""What a proof of OpenVM states: public values, heights, and commitments to cached traces, of each AIR with a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distprove.expected import Stated
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.shape import Shape
from kernels.maths.babybear import Elements

AIRS, AIR, NAME, HEIGHT, PUBLIC, CACHED = "airs", "air", "name", "log_height", "public_values", "cached_traces"
"""The names of the record, which a file of expected values has too."""


def hex_of(digest: Elements) -> str:
    """A digest as the bytes of its 8 elements, each little-endian, in hexadecimal digits."""
    return digest.astype("<u4").tobytes().hex()


def stated(shape: Shape, proof: OpenVmProof) -> Stated:
    """The statement of a proof of this shape, the AIR with the tallest trace first."""
    airs = [
        {
            AIR: trace.number,
            NAME: trace.air.name,
            HEIGHT: trace.log_height,
            PUBLIC: proof.public_values[trace.number].tolist(),
            CACHED: [hex_of(root) for root in trace.cached_roots],
        }
        for trace in shape.traces
    ]
    return Stated({AIRS: airs}, tuple(line for air in airs for line in _lines(air)))


def _lines(air: dict[str, Any]) -> Iterator[str]:
    values = ", ".join(map(str, air[PUBLIC])) or "no public value"
    yield f"AIR {air[AIR]}, {air[NAME]}, 2^{air[HEIGHT]} rows: {values}"
    yield from (f"  cached trace {root}" for root in air[CACHED])
