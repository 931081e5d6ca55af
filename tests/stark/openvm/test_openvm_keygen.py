"""Keys that are made here equal those of stark-backend's key generation, and files are written as the judge does."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from distprove.stark.openvm.key_file import key_from_bytes, key_to_bytes
from distprove.stark.openvm.keygen import GraphBuilder, air_of, app_params, make_key
from distprove.stark.openvm.params import Proximity
from distprove.stark.openvm.security import TARGET_BITS, security_bits
from distprove.stark.openvm.traces import read_traces, traces_to_bytes
from tests.support.openvm_golden import GOLDEN, NAMES, key_of, key_path


@pytest.mark.parametrize("name", NAMES)
def test_files_are_written_as_the_judge_writes_them(name: str) -> None:
    key, traces = key_of(name), GOLDEN / name / "traces.bin"
    assert key_to_bytes(key) == key_path(name).read_bytes()
    assert traces_to_bytes(read_traces(traces, key)) == traces.read_bytes()


@pytest.mark.parametrize(
    "proximity", [Proximity("UniqueDecoding"), Proximity("ListDecoding", 2), Proximity("SplitUniqueList", 3, 1)]
)
def test_every_decoding_regime_is_written(proximity: Proximity) -> None:
    key = key_of("fibonacci")
    whir = replace(key.params.whir, proximity=proximity)
    changed = make_key(replace(key.params, whir=whir), key.airs)
    assert key_from_bytes(key_to_bytes(changed)).params == changed.params


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_from_graphs_is_as_in_their_keys(name: str) -> None:
    """Degrees, next rows, unused variables and the bounds of heights, which their key generation found."""
    key, made = key_of(name), 0
    for air in key.airs:
        if air.preprocessed is None:
            same = replace(air_of(air.name, air.widths, air.graph), public_values=air.public_values)
            same = replace(same, is_required=air.is_required)
            assert same.unused_variables.tolist() == air.unused_variables.tolist()
            assert (same.needs_next, same.max_constraint_degree) == (air.needs_next, air.max_constraint_degree)
            made += 1
    assert made or name == "preprocessed"
    again = make_key(key.params, key.airs)
    assert again.height_constraints == key.height_constraints
    assert again.pre_hash.tolist() == key.pre_hash.tolist()


def test_an_air_of_columns_that_nothing_reads() -> None:
    """In the order of columns and rows; the judge's AIRs read every column."""
    make = GraphBuilder()
    square = make.mul(make.column(1), make.column(1, offset=1))
    assert make.mul(make.column(1), make.column(1, offset=1)) == square, "equal nodes are one"
    graph = make.graph([square, square], [])
    assert graph.constraints == (square,)
    air = air_of("some", replace(key_of("fibonacci").airs[0].widths, common=3), graph)
    assert air.max_constraint_degree == 2
    assert air.unused_variables.tolist() == [[1, 0, 0, 0], [1, 0, 0, 1], [1, 2, 0, 0], [1, 2, 0, 1]]


def test_parameters_of_the_app_layer() -> None:
    """Numbers of queries that openvm-stark-sdk computes, and the security that it aims at."""
    params = app_params(22)
    assert params.whir.queries == (193, 88, 81)
    assert (params.log_height, params.log_final) == (22, 10)
    assert security_bits(make_key(params, key_of("fibonacci").airs)) >= TARGET_BITS
    header = key_to_bytes(make_key(params, key_of("fibonacci").airs))
    size = int(struct.unpack_from("<Q", header, 8)[0])
    assert json.loads(header[16 : 16 + size])["params"]["whir"]["proximity"] == "UniqueDecoding"
