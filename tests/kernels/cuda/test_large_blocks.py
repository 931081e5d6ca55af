"""Large blocks of device memory: whole, by size and stream, never in two hands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernels.cuda.large_blocks import LargeBlocks, Loan


class Memory:
    """Stands for a block of the driver's."""

    alive = 0

    def __init__(self, size: int) -> None:
        self.size = size
        Memory.alive += size

    def __del__(self) -> None:
        Memory.alive -= self.size


def test_a_block_comes_back_for_its_size_and_stream_alone() -> None:
    blocks = LargeBlocks(Memory)
    loan: Loan[Memory] | None = blocks.make(64, stream=1)
    assert loan is not None
    memory = loan.memory
    assert (blocks.total, blocks.lent, blocks.reuse(64, 1)) == (64, 64, None)
    del loan
    assert (blocks.total, blocks.lent) == (64, 0)
    assert blocks.reuse(32, 1) is None
    assert blocks.reuse(64, 2) is None
    again = blocks.reuse(64, 1)
    assert again is not None
    assert again.memory is memory


def test_what_has_been_idle_longest_goes_first() -> None:
    blocks = LargeBlocks(Memory)
    loans = [blocks.make(size, 0) for size in (1, 2, 4)]
    for index in (1, 2, 0):
        loans[index] = None  # type: ignore[call-overload]
    left = []
    while blocks.drop_oldest():
        left.append(blocks.total)
    assert left == [5, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([8, 16]), st.integers(0, 1)), max_size=60))
def test_no_block_is_in_two_hands_and_the_sums_are_right(steps: list[tuple[int, int, int]]) -> None:
    before, blocks, hands = Memory.alive, LargeBlocks(Memory), dict[int, Loan[Memory]]()
    for hand, size, stream in steps:
        if hands.pop(hand, None) is None:
            hands[hand] = blocks.reuse(size, stream) or blocks.make(size, stream)
        assert len({id(loan.memory) for loan in hands.values()}) == len(hands)
        assert blocks.lent == sum(loan.size for loan in hands.values())
        assert blocks.total == Memory.alive - before
    hands.clear()
    blocks.drop_all()
    assert (blocks.total, Memory.alive) == (0, before)
