"""Memory that the driver refuses while the arena has room for it, over a CuPy in name only."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from kernels.errors import OutOfMemory
from tests.support.own_module import module_anew

MIB = 1 << 20
REFUSED, ILLEGAL = 2, 700


class DriverError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__("cudaErrorMemoryAllocation: out of memory")
        self.status = status


class PoolError(MemoryError):
    pass


class Driver:
    """A device of 1 GiB, some of which others took after the arena's budget was set."""

    def __init__(self) -> None:
        self.free, self.status = 1024 * MIB, REFUSED

    def take(self, size: int) -> Any:
        if size > self.free:
            raise DriverError(self.status)
        self.free -= size
        return Block(self, size)


class Block:
    ptr = 1

    def __init__(self, driver: Driver, size: int) -> None:
        self.driver, self.size = driver, size

    def __del__(self) -> None:
        self.driver.free += self.size


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def arena(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The text of `kernels.cuda.arena` as a module of its own."""
    space = types.SimpleNamespace
    runtime = space(memGetInfo=lambda: (driver.free, 1024 * MIB), CUDARuntimeError=DriverError)
    pool = space(set_limit=lambda size: None, used_bytes=int, total_bytes=int, free_all_blocks=lambda: None)
    cupy: Any = types.ModuleType("cupy")
    cupy.ndarray = lambda shape, dtype, memptr: memptr
    cupy.cuda = space(
        runtime=runtime,
        driver=space(CUDADriverError=type("DriversOwn", (DriverError,), {})),
        memory=space(OutOfMemoryError=PoolError),
        MemoryPool=lambda: pool,
        Memory=driver.take,
        UnownedMemory=lambda *given: given,
        MemoryPointer=lambda memory, at: memory,
        alloc_pinned_memory=driver.take,
        get_current_stream=lambda: space(ptr=0),
        device=space(get_device_id=int),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return module_anew("kernels.cuda.arena")


def test_a_block_that_the_driver_refuses_is_told_with_what_is_free_on_the_device(arena: Any, driver: Driver) -> None:
    memory = arena.Arena()
    driver.free = 96 * MIB
    with pytest.raises(OutOfMemory, match=r"128\.0 MiB of device memory needed.*96\.0 MiB of the device's 1\.0 GiB"):
        memory.empty((128 * MIB,), "u1")
    assert memory.used == 0


def test_idle_blocks_are_given_back_before_a_block_is_refused(arena: Any, driver: Driver) -> None:
    memory = arena.Arena()
    idle = memory.empty((96 * MIB,), "u1")
    del idle
    driver.free = 64 * MIB
    held = memory.empty((128 * MIB,), "u1")
    assert memory.used == 128 * MIB
    del held


def test_page_locked_memory_that_is_refused_has_the_same_type(arena: Any, driver: Driver) -> None:
    driver.free = 0
    with pytest.raises(OutOfMemory, match=r"1\.0 MiB of page-locked host memory needed"):
        arena.PinnedBuffers().take(MIB)
    with pytest.raises(OutOfMemory, match=r"memory for a module needed"), arena.beside_arena("memory for a module"):
        raise arena.cupy.cuda.driver.CUDADriverError(REFUSED)


def test_a_fault_of_the_device_stays_one(arena: Any, driver: Driver) -> None:
    memory = arena.Arena()
    driver.free, driver.status = 0, ILLEGAL
    with pytest.raises(DriverError):
        memory.empty((128 * MIB,), "u1")
