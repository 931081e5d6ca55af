"""The memory plan of Groth16's largest known partition: PoRep of 32 GiB, 2^27 rows over BLS12-381."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distprove.groth16.key import SECTIONS
from distprove.groth16.memory import (
    GIVEN_UP,
    RECORDED_DOMAIN,
    KeyShape,
    MemoryPlan,
    plan_memory,
)
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.errors import OutOfMemory
from kernels.maths.curves import BLS12_381, BN254
from tests.support.emulated_device import EmulatedDevice
from tests.support.least_memory import least_memory

GIB = 1 << 30
WIRES, OF_B = 130_170_221, 33_112_282
POREP = KeyShape(
    curve=BLS12_381,
    n_vars=WIRES,
    domain_size=1 << 27,
    monomial=True,
    points={"a": WIRES, "b1": OF_B, "b2": OF_B, "c": WIRES - 328, "h": (1 << 27) - 1},
    entries=(309_405_051, 130_327_340),
    picked=(OF_B,),
)


def gpu(budget: float) -> CudaBackend:
    """A device of so many GiB and an H200's multiprocessors, of which nothing is allocated."""
    return CudaBackend(EmulatedDevice(budget=int(budget * GIB), sm_count=132))


def planned(budget: float, witnesses: int = 1) -> MemoryPlan:
    return plan_memory(POREP, gpu(budget), witnesses=witnesses)


def test_a_key_that_fits_stays_on_the_device() -> None:
    assert POREP.points_bytes == pytest.approx(44.2 * GIB, rel=0.01)
    plan = planned(139)
    assert plan.streamed == set()
    assert plan.peak <= 139 * GIB
    assert plan.resident > POREP.points_bytes
    assert sum(planned(80).tables.values()) == POREP.points_bytes, "no multiples where there is little room"
    on_device = plan_memory(replace(POREP, on_device=True), gpu(139), free=95 * GIB, witnesses=1)
    assert on_device.streamed == set()


def test_a_partition_fits_24_gib() -> None:
    plan = planned(24)
    assert plan.streamed == {*GIVEN_UP}
    assert plan.stages["quotient"] == plan.peak < 24 * GIB
    assert plan.stages["quotient"] - plan.resident == pytest.approx(5 * 32 << 27, rel=0.01)
    assert "in host memory: a, b1, b2, c, h, matrices" in str(plan)


def test_less_memory_means_less_of_the_key_on_the_device() -> None:
    plans = [planned(budget) for budget in (139, 100, 80, 70, 60, 50, 40, 30, 24, 23)]
    resident = [plan.resident for plan in plans]
    assert resident == sorted(resident, reverse=True)
    assert [plan.streamed for plan in plans if len(plan.streamed) == 1] == [{"h"}], "what costs least goes first"
    for plan in plans:
        assert plan.tables.keys() == SECTIONS.keys() - plan.streamed
        assert plan.streamed <= {*GIVEN_UP}


def test_a_key_that_fits_alone_is_not_streamed_for_others() -> None:
    """What gives keys to a device makes room then."""
    with pytest.raises(OutOfMemory, match=r"^\d\d\.\d GiB of device memory short: a proof takes 8.* 70\.0 GiB of 139"):
        plan_memory(POREP, gpu(139), free=70 * GIB, witnesses=1)
    with pytest.raises(OutOfMemory, match=r"with a, b1, b2, c, h, matrices in host memory.*other keys"):
        plan_memory(POREP, gpu(24), free=20 * GIB, witnesses=1)
    with pytest.raises(OutOfMemory, match="other keys"):
        plan_memory(POREP, gpu(24), free=21 * GIB, witnesses=1)  # of which blocks that are too large may take 1.5
    assert planned(24) == plan_memory(POREP, gpu(24), free=22 * GIB, witnesses=1)


def test_the_next_witness_waits_on_the_host_where_two_do_not_fit() -> None:
    assert [planned(budget, witnesses=2).witnesses for budget in (30, 24)] == [2, 1]


def test_a_refusal_says_what_is_short() -> None:
    with pytest.raises(
        OutOfMemory, match=r"^5\.\d GiB of device memory short.*20\.\d GiB of it, in its stage quotient"
    ):
        planned(16)
    least = least_memory(POREP, gpu(24)) / GIB
    assert 22 < least < 23
    assert planned(least + 0.01).peak <= least * GIB


def test_short_proofs_are_recorded_as_a_whole_where_that_takes_little() -> None:
    points = dict.fromkeys(SECTIONS, 1 << 12)
    short = KeyShape(BN254, 1 << 12, 1 << 12, monomial=False, points=points, entries=(1 << 14,), picked=())
    plan, parts = (plan_memory(short, gpu(budget)) for budget in (139, 0.2))
    assert (plan.whole, parts.whole) == (True, False)
    assert plan.peak - plan.resident < 139 * GIB // 16
    assert plan_memory(replace(short, domain_size=RECORDED_DOMAIN), gpu(139)).whole
    assert not plan_memory(replace(short, domain_size=2 * RECORDED_DOMAIN), gpu(139)).whole
    assert not plan_memory(short, CpuBackend()).whole


def test_host_memory_is_not_planned() -> None:
    plan = plan_memory(POREP, CpuBackend())
    assert (plan.streamed, plan.peak) == (frozenset(), 0)
