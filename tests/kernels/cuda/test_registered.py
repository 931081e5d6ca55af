"""Blocks of other processes that the device is to read where they lie: which are page-locked, and for how long."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cuda.registered import RegisteredBlocks
from kernels.host.arena import LARGE, HostArena
from kernels.host.shared_arrays import MappedBlock, Receiver, share


class Locks:
    """What a driver would be asked for."""

    def __init__(self, *, able: bool = True) -> None:
        self.able = able
        self.asked: list[int] = []
        self.held: dict[int, int] = {}
        self.mapped_at_the_end: list[bool] = []
        self.blocks = RegisteredBlocks(self.register, self.unregister)

    def register(self, address: int, nbytes: int) -> bool:
        self.asked.append(address)
        if self.able:
            self.held[address] = nbytes
        return self.able

    def unregister(self, address: int) -> None:
        del self.held[address]
        self.mapped_at_the_end.append(is_mapped(address))


def is_mapped(address: int) -> bool:
    return any(int(line.split("-")[0], 16) == address for line in Path("/proc/self/maps").read_text().splitlines())


def sent(arena: HostArena, receiver: Receiver, nbytes: int = LARGE) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """An array of the arena, and what another process would see of it."""
    location, kept = share(np.full(nbytes, 7, np.uint8), arena)
    return kept, receiver.array(location)


def test_a_block_is_locked_once_and_until_nobody_sees_it() -> None:
    locks, receiver = Locks(), Receiver()
    with HostArena(shared=True) as arena:
        _kept, seen = sent(arena, receiver)
        part = seen[8:].view(np.uint64)[1:].reshape(-1, 1)
        assert locks.blocks.has(seen)
        assert locks.blocks.has(part)
        (address,) = locks.asked
        block = MappedBlock.of(seen)
        assert block is not None
        assert (address, block.nbytes) == (block.ctypes.data, locks.held[address])
        assert block.nbytes >= seen.nbytes
        del seen, block, receiver
        gc.collect()
        assert locks.held, "a part of it is still seen"
        assert is_mapped(address)
        del part
        gc.collect()
        assert not locks.held
        assert locks.mapped_at_the_end == [True], "it was unmapped before"
        assert not is_mapped(address)


def test_memory_of_this_process_is_not_locked() -> None:
    locks = Locks()
    own = np.zeros(LARGE, np.uint8)
    assert not locks.blocks.has(own)
    assert not locks.blocks.has(own[1:])
    assert MappedBlock.of(own[1:]) is None
    assert not locks.asked


def test_what_cannot_be_locked_is_not_asked_for_again() -> None:
    locks, receiver = Locks(able=False), Receiver()
    with HostArena(shared=True) as arena:
        seen = [sent(arena, receiver) for _ in range(3)]
        assert not any(locks.blocks.has(array) for _, array in seen)
    assert len(locks.asked) == 1


def test_no_more_is_locked_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.cuda.registered.LARGEST", 2 * LARGE)
    monkeypatch.setattr("kernels.cuda.registered.MOST", 2 * LARGE)
    locks, receiver = Locks(), Receiver()
    with HostArena(shared=True) as arena:
        _, large = sent(arena, receiver, 3 * LARGE)
        held = [sent(arena, receiver) for _ in range(3)]
        assert not locks.blocks.has(large)
        assert [locks.blocks.has(array) for _, array in held] == [True, True, False]
        del large, receiver
        held.pop(0)
        gc.collect()
        assert locks.blocks.has(held[1][1]), "there is room again"
    assert sum(locks.held.values()) == 2 * LARGE
