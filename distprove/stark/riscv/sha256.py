"""The table `sha256`: the host calls that compute SHA-256 (FIPS 180-4, 6.2.2) in memory.

18 rows are a call. Row 0 holds the state and row 17 the new one. Row r from 1 to 16 holds the words 4 r - 4 to 4 r - 1
of the message schedule, and the working variables a and e after each of their rounds. All are bits. b, c, d are earlier
a, and f, g, h earlier e, so two rows have all that four rounds take. Every sum stands once, as bits and a carry. It is
below 2^36, so the bits are those of the sum modulo 2^32.

What a schedule's word takes of the rows before the last is handed on in three groups of four sums (`past`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from distprove.stark.air import Air, CppRows, Expression, Table, total
from distprove.stark.riscv.accesses import accesses_of, calls_of_number
from distprove.stark.riscv.buses import HOST, KECCAK
from distprove.stark.riscv.calls import SHA256_CALLS
from distprove.stark.riscv.record import Record, Words64
from kernels.maths.sha256 import ROUND_CONSTANTS

ROWS_EACH = 18
"""Rows of a call."""
ROUNDS = 64
COLUMNS = {
    "is_block": 1,
    "is_extend": 1,
    "is_compress": 1,
    "step": ROWS_EACH,  # the row of a call, of these one is 1
    "key": 1,  # of the first word that the argument names
    "message": 1,  # of the first word of the message or the schedule
    "time": 1,
    "begins": 1,  # 1 where a call in use begins
    "points": 1,  # 1 where one begins that takes the address of its message from memory
    "sends": 1,  # 1 where the row's words are sent
    "at": 1,  # key of the first of the words
    "now": 1,  # their time less 2
    "value": 8,  # rows 0 and 17: the state; others: four words before the call, then after it
    "a": 4 * 32,  # bits from the lowest on, word by word
    "e": 4 * 32,
    "w": 4 * 32,
    "past": 3 * 4,
    "held": 8,  # the state before the call
    "carry": 8,  # of a and e that the row before leads to: 4 upper + lower
    "upper": 8,
    "schedule": 4,  # carries of w
}
_WORD = 1 << 32


class Sha256Air(Air):
    """18 rows are a call, in use if one of `is_block`, `is_extend`, `is_compress` is 1."""

    name = "sha256"
    main: Mapping[str, int] = COLUMNS

    def define(self, t: Table) -> None:
        row, after = t.this, t.next
        block, extend, compress = row.is_block, row.is_extend, row.is_compress
        on, rounds, made = block + extend + compress, block + compress, block + extend
        step, ends = row.step, row.step[-1]
        for flag in (block, extend, compress, row.begins, row.points, row.sends):
            t.boolean(flag)
        t.boolean(on, name="one kind of call")
        for k, flag in enumerate(step):
            t.first(flag - (k == 0), f"step {k}: first")
            t.transition(after.step[k] - step[k - 1], f"step {k}: next")
        t.last(on * (1 - ends), "a call that the table's end cuts off is idle")
        for name in ("is_block", "is_extend", "is_compress", "key", "message", "time", "held"):
            for k, cell in enumerate(row[name]):
                t.transition((1 - ends) * (after[name][k] - cell), f"one {name} for a call, {k}")
        t.always(row.begins - step[0] * on, "begins")
        t.always(row.points - step[0] * rounds, "points")
        t.always(extend * (row.key - row.message), "the schedule that is extended is the argument")

        for name in ("a", "e", "w"):
            for bit in row[name]:
                t.boolean(bit)
        self._constrain_schedule(t, made)
        self._constrain_rounds(t, rounds)
        self._constrain_words(t)

        address = 4 * row.key
        number = total([row[f"is_{name.removeprefix('sha256_')}"][0] * n for name, n in SHA256_CALLS.items()])
        call = {"call": number, "argument": address, "time": row.time, "result": address, "exit": 0}
        t.receive(HOST, call, times=row.begins, at_most=1)

    def _constrain_schedule(self, t: Table, made: Expression) -> None:
        """Words from the 16th on, where they are not memory's."""
        row, after, last = t.this, t.next, 1 - t.this.step[-1]
        w, new = words_of(row.w), words_of(after.w)
        following = [*w, *new]
        for j in range(4):
            start = following[j].value + following[j + 1].sigma(7, 18, 3)
            t.transition(after.past[j] - last * start, f"past 0, {j}")
            t.transition(after.past[4 + j] - last * row.past[j], f"past 1, {j}")
            t.transition(after.past[8 + j] - last * (row.past[4 + j] + following[j + 1].value), f"past 2, {j}")
            carry = row.schedule[j]
            t.always(carry * (carry - 1) * (carry - 2) * (carry - 3), f"carry of w {j}")
            sum_ = row.past[8 + j] + following[j + 2].sigma(17, 19, 10)
            gate = made * total(list(row.step[4:16]))
            t.transition(gate * (new[j].value + _WORD * after.schedule[j] - sum_), f"schedule {j}")

    def _constrain_rounds(self, t: Table, rounds: Expression) -> None:
        """64 rounds, and the sums with the state."""
        row, after, step = t.this, t.next, t.this.step
        for k, (carry, upper) in enumerate(zip(row.carry, row.upper, strict=True)):
            t.always(carry * (carry - 1) * (carry - 2) * (carry - 3), f"carry {k}")
            t.boolean(upper)
        carries = [low + 4 * high for low, high in zip(after.carry, after.upper, strict=True)]
        a, e = ([*words_of(row[name]), *words_of(after[name])] for name in ("a", "e"))
        gate = rounds * total(list(step[:16]))
        for j in range(4):
            constant = total([step[k] * ROUND_CONSTANTS[4 * k + j] for k in range(16)])
            first = e[j].value + e[j + 3].rotations(6, 11, 25) + chosen(e[j + 3], e[j + 2], e[j + 1])
            first = first + constant + words_of(after.w)[j].value
            second = a[j + 3].rotations(2, 13, 22) + majority(a[j + 3], a[j + 2], a[j + 1])
            t.transition(gate * (a[4 + j].value + _WORD * carries[j] - first - second), f"a {j}")
            t.transition(gate * (e[4 + j].value + _WORD * carries[4 + j] - a[j].value - first), f"e {j}")
        for k in range(8):
            before, new = (state_of(cells)[k] for cells in (row, after))
            t.always(step[0] * (row.held[k] - before), f"held {k}")
            sum_ = before + row.held[k]
            t.transition(rounds * step[16] * (new + _WORD * carries[k] - sum_), f"sum {k}")

    def _constrain_words(self, t: Table) -> None:
        """What the rows have of memory: the state at both ends, and between them the schedule's words."""
        row = t.this
        block, extend, compress, step = row.is_block, row.is_extend, row.is_compress, row.step
        rounds, ends = block + compress, step[0] + step[17]
        given, rest = total(list(step[1:5])), total(list(step[5:17]))
        inner = given + rest
        sends = rounds * ends + (rounds + extend) * given + (extend + compress) * rest
        t.always(row.sends - sends, "sends")
        places = total([step[r] * 4 * (r - 1) for r in range(1, 17)])
        t.always(row.at - ends * (row.key + 1) - inner * row.message - places, "at")
        t.always(row.now - row.time + 2 * inner * rounds, "now")
        for k, state in enumerate(state_of(row)):
            t.always(ends * rounds * (row.value[k] - state), f"word {k} of the state")
        for j, word in enumerate(words_of(row.w)):
            content = word.value + block * (word.swapped - word.value)
            t.always((given + (1 - extend) * rest) * (row.value[j] - content), f"word {j} before")
            t.always(inner * (row.value[4 + j] - content), f"word {j} after")
        for k in range(8):
            sent = {
                "time": row.now,
                "end": step[17] + (inner if k > 3 else 0),
                "key": row.at + k - (4 * inner if k > 3 else 0),
                "value": row.value[k],
            }
            t.send(KECCAK, sent, times=row.sends)
        for end in (0, 1):
            pointer = {"time": row.time, "end": end, "key": row.key, "value": 4 * row.message}
            t.send(KECCAK, pointer, times=row.points)


class Bits:
    """A word by its bits, the lowest first."""

    def __init__(self, bits: Sequence[Expression]) -> None:
        self.bits = bits

    @property
    def value(self) -> Expression:
        return number_of(self.bits)

    @property
    def swapped(self) -> Expression:
        """The word of the four bytes in the other order."""
        return number_of([self.bits[24 - 8 * (k // 8) + k % 8] for k in range(32)])

    def rotations(self, *by: int) -> Expression:
        """The exclusive or of three rotations to the right."""
        return number_of([odd(*(self.bits[(k + n) % 32] for n in by)) for k in range(32)])

    def sigma(self, first: int, second: int, shifted: int) -> Expression:
        """The exclusive or of two rotations and a shift to the right."""
        rotated = [(self.bits[(k + first) % 32], self.bits[(k + second) % 32]) for k in range(32)]
        return number_of(
            [
                odd(x, y, self.bits[k + shifted]) if k + shifted < 32 else x + y - 2 * x * y
                for k, (x, y) in enumerate(rotated)
            ]
        )


def words_of(bits: Sequence[Expression]) -> list[Bits]:
    """The words of 32 bits each."""
    return [Bits(bits[k : k + 32]) for k in range(0, len(bits), 32)]


def state_of(cells: object) -> list[Expression]:
    """The eight words of the state in a row that holds one: a to d are the latest four of a, and e to h of e."""
    return [word.value for name in ("a", "e") for word in reversed(words_of(getattr(cells, name)))]


def number_of(bits: Sequence[Expression]) -> Expression:
    return total([bit * (1 << k) for k, bit in enumerate(bits)])


def odd(x: Expression, y: Expression, z: Expression) -> Expression:
    """The exclusive or of three bits."""
    both = x + y - 2 * x * y
    return both + z - 2 * both * z


def chosen(e: Bits, f: Bits, g: Bits) -> Expression:
    """Ch: the bits of f where e has ones, and of g elsewhere."""
    return number_of([z + x * (y - z) for x, y, z in zip(e.bits, f.bits, g.bits, strict=True)])


def majority(a: Bits, b: Bits, c: Bits) -> Expression:
    """Maj: the bits that two of three have."""
    return number_of([y * z + x * (y + z - 2 * y * z) for x, y, z in zip(a.bits, b.bits, c.bits, strict=True)])


SHA256_ROWS = CppRows(
    """
    #include "hash/sha256.h"

    DP_ROW u32 sigma(u32 x, int first, int second, int shifted) {
      return dp::sha256_rotated(x, first) ^ dp::sha256_rotated(x, second) ^ x >> shifted;
    }

    DP_ROW u64 past(const u32* w, int t) {  // w[t] + sigma(w[t + 1]), of words that are 0 outside of the schedule
      const u64 here = t < 0 | t > 63 ? 0 : w[t], next = t < -1 | t > 62 ? 0 : sigma(w[t + 1], 7, 18, 3);
      return here + next;
    }

    DP_ROW void row(const Inputs& in, u64 i, Row& out) {
      constexpr u64 WORD = (u64)1 << 32;
      const u64 call = i / 18;
      const int step = (int)(i % 18);
      const bool on = call < in.count[0];
      const u64 number = on ? in.calls(0, call) : 0;
      const bool block = number == 7, extend = number == 8, rounds = on & !extend;
      const u64 key = on ? in.calls(1, call) : 0, message = on ? in.calls(2, call) : 0;
      const u64 time = on ? in.calls(3, call) : 0;
      u32 w[64], a[8], e[8], held[8];  // of a and e those of the row before, then of this one
      u64 carry[8], schedule[4];
      for (int k = 0; k < 64; ++k) {
        const u32 word = on ? (u32)in.words(k, call) : 0;
        w[k] = block ? word >> 24 | word >> 8 & 0xff00 | word << 8 & 0xff0000 | word << 24 : word;
      }
      for (int k = 0; k < 4; ++k) schedule[k] = 0;
      if (block | extend)
        for (int k = 16; k < 64; ++k) {
          const u64 sum = (u64)w[k - 16] + sigma(w[k - 15], 7, 18, 3) + w[k - 7] + sigma(w[k - 2], 17, 19, 10);
          w[k] = (u32)sum;
          if (k / 4 + 1 == step) schedule[k % 4] = sum >> 32;
        }
      for (int k = 0; k < 8; ++k) {
        held[k] = rounds ? (u32)in.state(k, call) : 0;
        carry[k] = 0;
      }
      for (int k = 0; k < 4; ++k) a[k] = a[4 + k] = held[3 - k], e[k] = e[4 + k] = held[7 - k];
      if (rounds)
        for (int r = 1; r <= step; ++r) {
          for (int k = 0; k < 4; ++k) a[k] = a[4 + k], e[k] = e[4 + k];
          for (int j = 0; j < 4; ++j) {
            u64 to_a, to_e;
            if (r < 17) {
              const u32 x = e[j + 3], y = a[j + 3];
              const u64 chosen = (x & e[j + 2]) ^ (~x & e[j + 1]);
              const u64 majority = (y & a[j + 2]) ^ (y & a[j + 1]) ^ (a[j + 2] & a[j + 1]);
              const u32 sum1 = dp::sha256_rotated(x, 6) ^ dp::sha256_rotated(x, 11) ^ dp::sha256_rotated(x, 25);
              const u32 sum0 = dp::sha256_rotated(y, 2) ^ dp::sha256_rotated(y, 13) ^ dp::sha256_rotated(y, 22);
              const u64 first = (u64)e[j] + sum1 + chosen + dp::SHA256_ROUNDS[4 * (r - 1) + j] + w[4 * (r - 1) + j];
              to_a = first + sum0 + majority;
              to_e = first + a[j];
              carry[j] = to_a >> 32, carry[4 + j] = to_e >> 32;
            } else {
              to_a = (u64)a[j] + held[3 - j];
              to_e = (u64)e[j] + held[7 - j];
              carry[3 - j] = to_a >> 32, carry[7 - j] = to_e >> 32;
            }
            a[4 + j] = (u32)to_a;
            e[4 + j] = (u32)to_e;
          }
        }
      const bool ends = step == 0 | step == 17, given = step > 0 & step < 5, inner = !ends;
      out[column::is_block] = block;
      out[column::is_extend] = extend;
      out[column::is_compress] = number == 9;
      for (int k = 0; k < 18; ++k) out[column::step + k] = k == step;
      out[column::key] = key;
      out[column::message] = message;
      out[column::time] = time;
      out[column::begins] = on & step == 0;
      out[column::points] = rounds & step == 0;
      out[column::sends] = on & (ends ? rounds : given ? true : !block);
      out[column::at] = ends ? key + 1 : message + 4 * (step - 1);
      out[column::now] = rounds & inner ? time - 2 : time;
      for (int k = 0; k < 4; ++k) {
        const int t = 4 * (step - 1) + k;
        const u32 word = inner ? w[t] : 0;
        const u32 swapped = word >> 24 | word >> 8 & 0xff00 | word << 8 & 0xff0000 | word << 24;
        const u64 content = block ? swapped : word;
        const u64 given_word = on & inner ? in.words(t, call) : 0;
        out[column::value + k] = ends ? a[7 - k] : extend & !given ? given_word : content;
        out[column::value + 4 + k] = ends ? e[7 - k] : content;
        for (int b = 0; b < 32; ++b) {
          out[column::a + 32 * k + b] = a[4 + k] >> b & 1;
          out[column::e + 32 * k + b] = e[4 + k] >> b & 1;
          out[column::w + 32 * k + b] = word >> b & 1;
        }
        out[column::past + k] = step > 0 ? past(w, 4 * (step - 2) + k) : 0;
        out[column::past + 4 + k] = step > 1 ? past(w, 4 * (step - 3) + k) : 0;
        const int late = 4 * (step - 2) + k + 1;
        out[column::past + 8 + k] =
            step > 0 ? (step > 2 ? past(w, 4 * (step - 4) + k) : 0) + (late < 0 | late > 63 ? 0 : w[late]) : 0;
        out[column::schedule + k] = schedule[k];
      }
      for (int k = 0; k < 8; ++k) {
        out[column::held + k] = held[k];
        out[column::carry + k] = carry[k] & 3;
        out[column::upper + k] = carry[k] >> 2;
      }
    }
    """,
    columns=COLUMNS,
    inputs=("words", "state", "calls", "count"),
)


def sha256_inputs(record: Record) -> dict[str, Words64]:
    """The arrays from which `SHA256_ROWS` makes the rows of a segment's calls: the words of the message or schedule as
    they are before the call, the state, and number, keys and time."""
    words, states, calls = list[Words64](), list[Words64](), list[Words64]()
    for number in SHA256_CALLS.values():
        argument, cycle = calls_of_number(record, number)
        before = accesses_of(record, number)[:, :, 1].astype(np.uint64)
        n, context = len(before), number != SHA256_CALLS["sha256_extend"]
        message, state = (before[:, :-9], before[:, -8:]) if context else (before, np.zeros((n, 8), dtype=np.uint64))
        words.append(np.pad(message, ((0, 0), (0, ROUNDS - message.shape[1]))))
        states.append(state)
        key = argument.astype(np.uint64) // np.uint64(4)
        at = before[:, -9] // np.uint64(4) if context else key
        calls.append(np.stack((np.full(n, number, dtype=np.uint64), key, at, 4 * (cycle + np.uint64(1))), axis=1))
    joined = {
        name: np.concatenate(each).T.copy() for name, each in (("words", words), ("state", states), ("calls", calls))
    }
    return {**joined, "count": np.array([joined["calls"].shape[1]], dtype=np.uint64)}
