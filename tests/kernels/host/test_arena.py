"""The host arena: what it hands out is zero where it should be, comes back with the last view, and stays in bounds."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import BackendError, OutOfMemory
from kernels.host.arena import COARSE, LARGE, ArenaUse, HostArena, block_size

MIB = 1 << 20


@pytest.fixture
def arena() -> Iterator[HostArena]:
    with HostArena(keep=16 * MIB) as made:
        yield made


def spoiled(arena: HostArena, nbytes: int) -> None:
    """An array that was written all over, and is gone."""
    arena.empty((nbytes,), np.uint8)[:] = 0xA5


def test_memory_is_used_again_and_nothing_of_it_is_seen(arena: HostArena) -> None:
    spoiled(arena, 3 * MIB)
    for make in (arena.zeros, arena.empty, arena.zeros):
        again = make((3 * MIB,), np.uint8)
        assert not again.any()
        again[:] = 0x5A
        del again
    assert arena.use().mapped == block_size(3 * MIB)


def test_what_came_back_is_cleared_without_being_asked_for(arena: HostArena) -> None:
    secret = arena.empty((2 * MIB,), np.uint8)
    address = secret.ctypes.data
    secret[:] = 0xA5
    keeping = arena._shelves  # the block must not be handed out, which would clear it as well
    del secret
    arena.settle()
    (block,) = keeping._clear
    assert block.address == address
    assert not np.frombuffer(block.memory, np.uint8).any()


def test_the_last_view_gives_the_memory_back(arena: HostArena) -> None:
    whole = arena.empty((MIB // 8, 4))
    words = whole.view(np.uint8).reshape(-1)
    rows = whole[5:9]
    part = rows.reshape(-1)[2:]
    del whole, words, rows
    assert arena.use().kept == 0
    part[:] = 7
    del part
    arena.settle()
    assert arena.use().kept == arena.use().mapped > 0


def test_large_arrays_begin_where_a_huge_page_does(arena: HostArena) -> None:
    for nbytes in (8 * MIB, 9 * MIB, 20 * MIB):
        assert arena.empty((nbytes,), np.uint8).ctypes.data % (2 * MIB) == 0


def test_small_arrays_are_left_to_malloc(arena: HostArena) -> None:
    small = arena.zeros((LARGE // 8 - 1,))
    assert not small.any()
    assert arena.empty((3, 0)).shape == (3, 0)
    assert arena.use().mapped == 0


@given(st.integers(LARGE, 1 << 45))
def test_arrays_of_about_one_size_share_blocks(nbytes: int) -> None:
    size = block_size(nbytes)
    assert nbytes <= size < 2 * nbytes
    assert size % 4096 == 0
    assert block_size(size) == size
    if nbytes > COARSE:  # the system refuses more than it has, used or not
        assert 8 * size < 9 * nbytes


def test_more_than_the_bound_is_unmapped_one_at_a_time_under_the_lock() -> None:
    inside, most, threads = 0, 0, set()

    @contextmanager
    def lock() -> Iterator[None]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threads.add(threading.current_thread().name)
        yield
        inside -= 1

    with HostArena(keep=5 * MIB, reclaim_lock=lock) as arena:
        held = [arena.empty((2 * MIB,), np.uint8) for _ in range(6)]
        held.clear()
        arena.settle()
        assert arena.use() == ArenaUse(mapped=4 * MIB, kept=4 * MIB)
        spoiled(arena, 7 * MIB)  # larger than the bound itself
        arena.settle()
        assert arena.use().kept <= 5 * MIB
    assert arena.use().mapped == 0
    assert most == 1
    assert threads == {"host-arena"}


def test_an_array_outlives_its_arena() -> None:
    with HostArena() as arena:
        kept = arena.zeros((2 * MIB,), np.uint8)
    kept[:] = 1
    assert int(kept.sum()) == 2 * MIB
    with pytest.raises(BackendError, match="closed"):
        arena.empty((2 * MIB,), np.uint8)


def test_what_the_system_has_not_is_refused() -> None:
    with HostArena() as arena, pytest.raises(OutOfMemory, match="of host memory needed"):
        arena.empty((1 << 46,), np.uint64)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=40))
def test_arrays_in_use_never_share_memory(steps: list[tuple[int, int, bool]]) -> None:
    """Slots are filled, refilled and emptied in any order; each keeps the mark it was given, and zeros are zero."""
    with HostArena(keep=6 * MIB) as arena:
        slots: dict[int, tuple[np.ndarray, int]] = {}
        for mark, (slot, size, fill) in enumerate(steps, start=1):
            slots.pop(slot, None)
            if fill:
                array = arena.zeros((MIB + size * 300_000,), np.uint8)
                assert not array[:: 1 << 10].any()
                array[:: 1 << 10] = mark
                slots[slot] = (array, mark)
            for array, value in slots.values():
                assert (array[:: 1 << 10] == value).all()


def test_many_threads(arena: HostArena) -> None:
    failed: list[int] = []

    def churn(mark: int) -> None:
        for _ in range(60):
            array = arena.zeros((MIB + mark * 1000,), np.uint8)
            if array.any():
                failed.append(mark)
            array[:] = mark
            if not (array == mark).all():
                failed.append(mark)

    threads = [threading.Thread(target=churn, args=(mark,)) for mark in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert arena.use().mapped <= (2 * 3 + 1) * 2 * MIB  # each thread's last array and its next; one is being cleared


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc/self/maps on this system")
def test_mappings_and_resident_memory_stay_flat(arena: HostArena) -> None:
    def measured() -> tuple[int, int]:
        gc.collect()
        arena.settle()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return len(Path("/proc/self/maps").read_text().splitlines()), pages * 4096

    def proofs(count: int) -> None:
        for _ in range(count):
            held = [arena.empty((size * MIB,), np.uint8) for size in (1, 2, 3, 5)]
            for array in held:
                array[:] = 1

    proofs(3)
    maps, resident = measured()
    proofs(100)
    after = measured()
    assert after[0] <= maps + 4
    assert after[1] <= resident + 8 * MIB
