"""Segments of a profile that stark-backend's provers capture, and the AIRs that stand for those of a segment.

A profile is a file of JSON lines, one a segment, of the schema "v2". `benchmarks/synthetic` of stark-backend describes
it, and its `synthetic_runner` replays it. The AIRs here have the same expressions as the runner's, so a segment's key
has the same hash. They have as many constraints as the recorded AIR, each a product of columns of its degree, and
interactions with messages of the recorded lengths. All cells are 0, which fulfils the constraints and balances the
buses; a prover takes as long as for other cells. Like the runner, this leaves out preprocessed and cached parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from distprove.errors import FormatError
from distprove.formats.files import read_bounded
from distprove.formats.jsontext import loads_file
from distprove.stark.openvm.graph import Graph, Interaction
from distprove.stark.openvm.key import OpenVmAir, OpenVmKey, Widths
from distprove.stark.openvm.keygen import GraphBuilder, air_of, app_params, make_key
from distprove.stark.openvm.traces import AirTrace

SCHEMA = "v2"
MAX_BYTES = 1 << 28
MAX_COUNT = 1 << 20
"""Most columns, constraints or interactions of an AIR."""
LOG_STACKED = 22
"""log2 of the rows of a stacked column, and of the tallest trace: taller ones are cut, as in the runner."""
LEAST_LOG_STACKED = 14
"""The least height of stacked columns here. WHIR has one round under it."""


@dataclass(frozen=True)
class AirShape:
    """What a profile records of an AIR, but for its height."""

    name: str
    columns: int
    """Columns of the common main trace."""
    constraints: int
    degree: int
    buses: int
    """Number of different buses."""
    messages: tuple[tuple[int, int], ...]
    """Length and weight of each interaction's message."""

    @property
    def width(self) -> int:
        """Columns of the AIR that stands for it: one for multiplicities, and one for each element of a message."""
        return max(self.columns, 1, *(length + 1 for length, _ in self.messages))


@dataclass(frozen=True)
class Segment:
    """A segment: the shape of each AIR, and log2 of its trace's height."""

    number: int
    airs: tuple[tuple[AirShape, int], ...]

    @property
    def cells(self) -> int:
        """Cells of all traces."""
        return sum(shape.width << log_height for shape, log_height in self.airs)


def read_profile(path: Path) -> tuple[Segment, ...]:
    """Read a profile. Raises InputError, or FormatError for another schema or values that are not of it."""
    text = read_bounded(path, MAX_BYTES, begins=b"{", kind="a profile of stark-backend")
    lines = enumerate(text.splitlines(), 1)
    found = tuple(_segment(loads_file(line, f"{path}: line {n}"), f"{path}: line {n}") for n, line in lines if line)
    if not found:
        raise FormatError(f"{path}: no segment")
    return found


def key_of(segment: Segment, log_stacked: int) -> OpenVmKey:
    """Return the key of a segment's AIRs under the parameters of the app layer.

    A block's profile has segments of recursive proofs too, with AIRs of degree 4. The app layer of stark-backend 2.0.1
    allows degree 3, so its runner ends there. Here the keys of these segments allow degree 4, with the same
    parameters otherwise.
    """
    airs, params = [_air(shape) for shape, _ in segment.airs], app_params(log_stacked)
    degree = max(params.max_constraint_degree, *(air.max_constraint_degree for air in airs))
    return make_key(replace(params, max_constraint_degree=degree), airs)


def traces_of(segment: Segment) -> tuple[AirTrace, ...]:
    """Return a segment's traces, whose cells are 0."""
    return tuple(
        AirTrace(number, (), np.zeros((shape.width, 1 << log_height), dtype=np.uint32), ())
        for number, (shape, log_height) in enumerate(segment.airs)
    )


def scaled(segment: Segment, log_factor: int) -> Segment:
    """Return the segment with heights times 2^log_factor, at least 2 rows."""
    return Segment(segment.number, tuple((shape, max(1, height + log_factor)) for shape, height in segment.airs))


def log_stacked(log_factor: int) -> int:
    """Return log2 of the rows of a stacked column for segments whose heights are scaled."""
    return max(LEAST_LOG_STACKED, LOG_STACKED + log_factor)


@lru_cache(maxsize=1024)
def _air(shape: AirShape) -> OpenVmAir:
    """The AIR that stands for a shape; the same ones are in most segments."""
    return air_of(shape.name, Widths(None, (), shape.width), _graph(shape))


def _graph(shape: AirShape) -> Graph:
    """Constraint i is the product of the columns that the digits of i name, the lowest first, to the base of all
    columns of both rows. Interactions count column 0, by turns as it is and negated."""
    make, width = GraphBuilder(), shape.width
    constraints = []
    for number in range(shape.constraints):
        digits = [number // (2 * width) ** i % (2 * width) for i in range(shape.degree)]
        columns = (make.column(digit % width, offset=digit // width) for digit in digits)
        product = next(columns)
        for column in columns:
            product = make.mul(product, column)
        constraints.append(product)
    interactions = []
    for number, (length, weight) in enumerate(shape.messages):
        message = tuple(make.column(i) for i in range(1, length + 1))
        if number % 2:
            minus = make.constant(-1)
            count = make.mul(minus, make.column(0))
        else:
            count = make.column(0)
        interactions.append(Interaction(number % shape.buses, count, weight, message))
    return make.graph(constraints, interactions)


def _segment(line: Any, what: str) -> Segment:
    if not isinstance(line, dict) or line.get("schema") != SCHEMA:
        raise FormatError(f"{what}: no segment of the schema {SCHEMA}")
    airs = line.get("airs")
    if not isinstance(airs, list) or not airs:
        raise FormatError(f"{what}: no AIR")
    return Segment(
        _integer(line, "segment_idx", 1 << 32, what),
        tuple(_record(air, f"{what}, AIR {i}") for i, air in enumerate(airs)),
    )


def _record(air: Any, what: str) -> tuple[AirShape, int]:
    if not isinstance(air, dict) or not isinstance(air.get("air_name"), str) or not isinstance(air.get("width"), dict):
        raise FormatError(f"{what}: no name, or no width")
    lengths, weights, buses = (
        list(_integers(air, name, below, what))
        for name, below in (
            ("interaction_message_lens", 1 << 16),
            ("interaction_count_weights", 1 << 32),
            ("buses", 1 << 16),
        )
    )
    count = _integer(air, "num_interactions", MAX_COUNT, what)
    if not len(lengths) == len(weights) == len(buses) == count or 0 in lengths:
        raise FormatError(f"{what}: other than {count} buses, weights and lengths of messages, or an empty message")
    shape = AirShape(
        air["air_name"],
        _integer(air["width"], "common_main", MAX_COUNT, what),
        _integer(air, "num_constraints", MAX_COUNT, what),
        max(1, _integer(air, "max_constraint_degree", 64, what)),
        max(1, len(set(buses))),
        tuple(zip(lengths, weights, strict=True)),
    )
    if not shape.constraints and not shape.messages:
        raise FormatError(f"{what}: neither constraints nor interactions")
    return shape, min(LOG_STACKED, max(1, _integer(air, "log_height", 64, what)))


def _integer(record: Mapping[str, Any], name: str, below: int, what: str) -> int:
    value = record.get(name)
    if type(value) is not int or not 0 <= value < below:
        raise FormatError(f"{what}: {name} is no integer from 0 to {below - 1}")
    return value


def _integers(record: Mapping[str, Any], name: str, below: int, what: str) -> Iterator[int]:
    values = record.get(name)
    if not isinstance(values, list):
        raise FormatError(f"{what}: {name} is no list")
    for value in values:
        yield _integer({name: value}, name, below, what)
