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


ROOM = 1 << 20


def take(blocks: LargeBlocks[Memory], size: int, stream: int = 1, room: int = ROOM) -> Loan[Memory]:
    loan = blocks.take(size, stream, room)
    assert loan is not None
    return loan


def test_a_block_comes_back_for_its_size_and_stream() -> None:
    blocks = LargeBlocks(Memory)
    loan = take(blocks, 64)
    memory = loan.memory
    assert (blocks.total, blocks.lent) == (64, 64)
    del loan
    assert (blocks.total, blocks.lent) == (64, 0)
    others = [take(blocks, 32), take(blocks, 64, stream=2)]
    assert all(other.memory is not memory for other in others)
    assert take(blocks, 64).memory is memory


def test_the_smallest_block_that_is_not_too_large_serves_and_its_slack_is_counted() -> None:
    blocks = LargeBlocks(Memory)
    sizes = (100, 72, 64, 80)
    for loan in [take(blocks, size) for size in sizes]:
        del loan
    taken = take(blocks, 66)
    assert (taken.size, blocks.lent, blocks.slack) == (72, 72, 6)
    other = take(blocks, 66)
    assert (other.size, blocks.slack) == (80, 20)
    new = take(blocks, 66)
    assert (new.size, blocks.slack) == (66, 20)
    del taken, other, new
    assert (blocks.lent, blocks.slack, blocks.total) == (0, 0, sum(sizes) + 66)


def test_little_of_the_room_is_lost_to_larger_blocks() -> None:
    blocks = LargeBlocks(Memory)
    for loan in [take(blocks, 100, room=800) for _ in range(4)]:
        del loan
    loans = [take(blocks, 80, room=800) for _ in range(4)]
    assert blocks.slack <= 800 // 16
    assert [loan.size for loan in loans] == [100, 100, 80, 80]


def test_what_does_not_fit_gives_idle_blocks_back_or_is_refused() -> None:
    blocks = LargeBlocks(Memory)
    kept, idle = take(blocks, 50, room=100), take(blocks, 40, room=100)
    del idle
    assert take(blocks, 45, room=100).size == 45
    assert blocks.total == 95
    assert blocks.take(60, 1, 100) is None
    assert kept.size == 50


def test_what_has_been_idle_longest_goes_first() -> None:
    blocks = LargeBlocks(Memory)
    loans: list[Loan[Memory] | None] = [take(blocks, size) for size in (1, 2, 4)]
    for index in (1, 2, 0):
        loans[index] = None
    left = []
    while blocks.drop_oldest():
        left.append(blocks.total)
    assert left == [5, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([8, 9, 16, 17]), st.integers(0, 1)), max_size=60))
def test_no_block_is_in_two_hands_and_the_sums_are_right(steps: list[tuple[int, int, int]]) -> None:
    before, blocks, hands = Memory.alive, LargeBlocks(Memory), dict[int, Loan[Memory]]()
    asked: dict[int, int] = {}
    for hand, size, stream in steps:
        if hands.pop(hand, None) is None:
            loan = blocks.take(size, stream, 48)
            if loan is not None:
                hands[hand], asked[hand] = loan, size
            del loan
        assert len({id(loan.memory) for loan in hands.values()}) == len(hands)
        assert blocks.lent == sum(loan.size for loan in hands.values())
        assert blocks.slack == sum(loan.size - asked[hand] for hand, loan in hands.items())
        assert blocks.total == Memory.alive - before <= 48
    hands.clear()
    blocks.drop_all()
    assert (blocks.total, Memory.alive) == (0, before)
