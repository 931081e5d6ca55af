"""Soundness figures: those that stark-backend 2.0.1 computes for its production parameters, and their limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.params import Proximity, SystemParams, WhirParams
from distprove.stark.openvm.security import query_bits, security_bits, security_rows, work_bits
from kernels.maths.babybear import P
from tests.support.openvm_golden import key_of

UNIQUE, PAIR, SINGLE = Proximity("UniqueDecoding"), Proximity("ListDecoding", 2), Proximity("ListDecoding", 1)
APP, RECURSION = (5000, 100, 30000, 1000), (1000, 50, 2000, 100)


def params(
    sizes: tuple[int, int, int, int],
    queries: tuple[int, ...],
    bits: tuple[int, int, int],
    logup: int,
    regime: Proximity,
) -> SystemParams:
    """`sizes`: l_skip, n_stack, w_stack and log_blowup. `bits`: of the work before mu, queries and folds."""
    degree = 3 if len(queries) == 4 else 4
    return SystemParams(*sizes, WhirParams(4, queries, *bits, regime), P, 7, logup, degree)


PRODUCTION = {
    "app": (params((4, 20, 2048, 1), (193, 88, 81, 81), (15, 20, 5), 18, UNIQUE), APP),
    "leaf": (params((4, 17, 2048, 2), (118, 84, 81), (13, 20, 4), 18, UNIQUE), RECURSION),
    "internal": (params((2, 17, 512, 3), (68, 30, 20), (20, 20, 18), 19, PAIR), RECURSION),
    "root": (params((2, 18, 18, 4), (61, 30, 20), (15, 15, 15), 18, SINGLE), RECURSION),
    "hook": (params((2, 18, 80, 2), (193, 42, 24), (11, 20, 12), 18, SINGLE), RECURSION),
}
"""`*_params_with_100_bits_security`, and the most constraints of an AIR, AIRs, columns and interactions of an AIR."""
FIGURES = {
    "app": "102.720483951 122.042599885 123.627562385 117.720671790 111.334953163 107.754887505 102.628243518 "
    "104.627562105 100.089831332 104.627562385",
    "leaf": "102.720483951 122.042599885 123.627562385 117.398743695 113.637458421 111.661778101 102.628261129 "
    "105.627561343 100.011720190 107.627562385",
    "internal": "100.898368042 122.042599885 123.627562385 116.898743695 110.832654504 108.839850006 102.101094370 "
    "103.102594352 100.107972711 100.983706196",
    "root": "100.135521450 122.042599885 123.627562385 117.135709289 111.069620099 109.076815600 102.183624092 "
    "100.287291077 101.316972060 100.457637384",
    "hook": "101.135521450 122.042599885 123.627562385 118.135709289 112.069620099 110.076815600 100.957457923 "
    "102.286196985 100.101289519 102.457637384",
}
"""Printed by a program that calls `SoundnessCalculator::calculate` of openvm-stark-backend 2.0.1; ordered as rows."""


def key_with(system: SystemParams, constraints: int, airs: int, columns: int, interactions: int) -> OpenVmKey:
    golden = key_of("interactions")
    (interaction, *_), air = golden.airs[0].graph.interactions, golden.airs[0]
    graph = replace(air.graph, constraints=tuple(range(constraints)), interactions=(interaction,) * interactions)
    widths = replace(air.widths, common=columns // airs)
    return replace(golden, params=system, airs=(replace(air, graph=graph, widths=widths),) * airs)


@pytest.mark.parametrize("name", PRODUCTION)
def test_figures_are_those_of_stark_backend(name: str) -> None:
    system, sizes = PRODUCTION[name]
    key = key_with(system, *sizes)
    expected = [float(figure) for figure in FIGURES[name].split()]
    assert [bits for _, bits in security_rows(key)] == pytest.approx(expected, abs=1e-7)
    assert security_bits(key) == pytest.approx(min(expected), abs=1e-7)


def test_the_numbers_of_queries_are_the_least_that_reach_the_target() -> None:
    for name, (system, _) in PRODUCTION.items():
        asked = 100 - system.whir.query_pow_bits
        for i, queries in enumerate(system.whir.queries):
            assert queries == math.ceil(asked / query_bits(system, i) - 1e-6), (name, i)


def test_work_is_worth_a_little_less_than_its_bits() -> None:
    assert work_bits(0) == 0
    assert work_bits(20) == pytest.approx(20, abs=1e-3)
    assert work_bits(20) < 20


def test_a_regime_beyond_the_theorem_has_no_security() -> None:
    """List decoding with multiplicity 1 at rate 1/2 has no positive radius."""
    system, sizes = PRODUCTION["hook"]
    assert security_bits(key_with(replace(system, log_blowup=1), *sizes)) == 0


def test_golden_keys_are_toys() -> None:
    assert 0 < security_bits(key_of("mixed")) < 10
