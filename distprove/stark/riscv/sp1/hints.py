"""The buffers that a guest of SP1 reads, with those that it asks for in unconstrained blocks.

No proof has such a block: ENTER_UNCONSTRAINED answers that it is passed over. What a block writes to hints, or to a
hook of SP1's executor, comes back as buffers in front of the input. A prover may choose them: the guest checks them.
So a run without a proof executes the blocks, by a handler of its own (handler.c with HINTS), and lists the buffers in
the order in which the guest reads them. The hooks follow SP1 6, crates/core/executor/src/hook.rs.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence

from distprove.errors import InputError
from distprove.stark.riscv.elf import Elf
from distprove.stark.riscv.executor import MAX_CYCLES, Execution

ENTERS = 3 << 20 | 5 << 7 | 0x13
"""The instruction `li t0, 3`, by which a guest enters an unconstrained block."""
_CURVES = {
    1: (2**256 - 2**32 - 977, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141),
    2: (2**256 - 2**224 + 2**192 + 2**96 - 1, 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551),
}
"""The field and the order of the group of secp256k1 and of secp256r1 (SEC 2, 2.4)."""
_BLS12_381 = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_ED25519 = 2**255 - 19
_RSA_BYTES = (256, 384, 512)


def enters_blocks(elf: Elf) -> bool:
    """Whether the guest may have an unconstrained block: an instruction of its program puts the call's number in t0."""
    return any(bool((words == ENTERS).any()) for _, words in elf.program)


def read_buffers(guest: Elf, buffers: Sequence[bytes], what: str, max_cycles: int = MAX_CYCLES) -> list[bytes]:
    """The buffers in the order in which the guest reads them, then those that it leaves.

    `guest` is translated, with the handler of such a run. `buffers` are its input, and `what` names that in errors.
    Raises InputError for a hook that is not served or has a wrong argument, Trap, CycleLimit.
    """
    execution = Execution(guest, max_cycles=max_cycles)
    waiting, read, told = deque(buffers), list[bytes](), 0
    answer, ended = b"", False
    while not ended:
        ended = execution.run_on(answer) is not None
        records = execution.output[told:]
        told += len(records)
        for to, content in _records(records):
            waiting.extendleft(reversed(_answered(to, content, what)))
        answer = struct.pack("<I", 0)
        if waiting and not ended:
            read.append(waiting.popleft())
            answer = struct.pack("<II", 1, len(read[-1])) + read[-1] + bytes(-len(read[-1]) % 4)
    return [*read, *waiting]


def _records(output: bytes) -> list[tuple[int, bytes]]:
    """What the handler told: the number of a file and what was written to it."""
    found, at = [], 0
    while at < len(output):
        to, size = struct.unpack_from("<II", output, at)
        found.append((to, output[at + 8 : at + 8 + size]))
        at += 8 + size + -size % 4
    return found


def _answered(to: int, content: bytes, what: str) -> list[bytes]:
    if to not in _HOOKS:
        raise InputError(f"{what}: the guest writes to {to} in an unconstrained block: no hook that is served")
    try:
        return _HOOKS[to](content)
    except (ValueError, LookupError):
        raise InputError(f"{what}: the guest calls the hook {to} with what it is not for") from None


def _recover(content: bytes) -> list[bytes]:
    """Of a curve (1 secp256k1, 2 secp256r1), the parity of y in bit 7, an x and its y^2: 1, y and 1 / x modulo the
    group's order; or 0 and the root of 3 y^2 where y^2 has none."""
    _expect(len(content) == 65)
    p, order = _CURVES[content[0] & 127]
    x, square = (int.from_bytes(part, "big") for part in (content[1:33], content[33:]))
    _expect(0 < x < p and 0 < square < p and x % order != 0)
    root = square_root(square, p, 3)
    if root is None:
        return [b"\0", _big(_certain(square_root(3 * square % p, p, 3)), 32)]
    return [b"\1", _big(root if root & 1 == content[0] >> 7 else p - root, 32), _big(pow(x, -1, order), 32)]


def _decompress_edwards(content: bytes) -> list[bytes]:
    """Of y with a sign, and v = d y^2 + 1: 1 if y has a point; otherwise 0, 1 / v and the root of 2 (y^2 - 1) / v."""
    _expect(len(content) == 64)
    p = _ED25519
    y, v = int.from_bytes(content[:32], "little") & (1 << 255) - 1, int.from_bytes(content[32:], "little")
    if y >= p:
        return [b"\0"]
    _expect(0 < v < p)
    inverse = pow(v, -1, p)
    square = (y * y - 1) * inverse % p
    if square == 0 or square_root(square, p, 2) is not None:
        return [b"\1"]
    root = _certain(square_root(2 * square % p, p, 2))
    return [b"\0", inverse.to_bytes(32, "little"), root.to_bytes(32, "little")]


def _divide(content: bytes) -> list[bytes]:
    """Of a product of two numbers and a modulus of an RSA key's size: remainder and quotient."""
    size = len(content) // 3
    _expect(len(content) % 3 == 0 and size in _RSA_BYTES)
    product, modulus = (int.from_bytes(part, "little") for part in (content[: 2 * size], content[2 * size :]))
    _expect(modulus != 0)
    quotient, remainder = divmod(product, modulus)
    _expect(quotient < 1 << 8 * size)
    return [remainder.to_bytes(size, "little"), quotient.to_bytes(size, "little")]


def _root(content: bytes) -> list[bytes]:
    """Of numbers of so many bytes, an element, a modulus and a non-residue n: 1 and the root, or 0 and the root of n
    times the element."""
    size = int.from_bytes(content[:4], "big")
    _expect(len(content) == 4 + 3 * size)
    element, p, non_residue = (int.from_bytes(content[4 + k * size :][:size], "big") for k in range(3))
    return _root_of(element, p, non_residue, size)


def _root_bls12_381(content: bytes) -> list[bytes]:
    return _root_of(int.from_bytes(content[:48], "big"), _BLS12_381, 2, 48)


def _root_of(element: int, p: int, non_residue: int, size: int) -> list[bytes]:
    _expect(p > 2 and p % 2 == 1 and element < p and non_residue < p)
    if element == 0:
        return [b"\1", bytes(size)]
    root = square_root(element, p, non_residue)
    if root is not None:
        return [b"\1", _big(root, size)]
    return [b"\0", _big(_certain(square_root(non_residue * element % p, p, non_residue)), size)]


def _inverse(content: bytes) -> list[bytes]:
    """Of numbers of so many bytes, an element and a modulus: the inverse."""
    size = int.from_bytes(content[:4], "big")
    _expect(len(content) == 4 + 2 * size)
    element, p = (int.from_bytes(content[4 + k * size :][:size], "big") for k in range(2))
    return [_big(pow(element, -1, p), size)]


def _inverse_bls12_381(content: bytes) -> list[bytes]:
    return [_big(pow(int.from_bytes(content[:48], "big"), -1, _BLS12_381), 48)]


_HOOKS: dict[int, Callable[[bytes], list[bytes]]] = {
    14: lambda content: [content],  # a hint
    15: _recover,
    16: _decompress_edwards,
    17: _divide,
    18: _root_bls12_381,
    19: _inverse_bls12_381,
    20: _root,
    21: _inverse,
}
"""By the number of the file that a guest writes to: the buffers that it reads next, in that order."""


def square_root(a: int, p: int, non_residue: int) -> int | None:
    """A root of `a` modulo the odd prime `p`; None where `a` has none. `non_residue` has none.

    The algorithm of Tonelli and Shanks: Cohen, A Course in Computational Algebraic Number Theory, 1.5.1. Raises
    ValueError for a `p` that is no prime, or a residue, where that shows."""
    if pow(a, (p - 1) // 2, p) != 1:
        return None
    twos = ((p - 1) & (1 - p)).bit_length() - 1
    odd = (p - 1) >> twos
    generator, root, left = pow(non_residue, odd, p), pow(a, (odd + 1) // 2, p), pow(a, odd, p)
    while left != 1:
        order, power = 0, left
        while power != 1:
            power = power * power % p
            order += 1
            _expect(order < twos)
        step = pow(generator, 1 << (twos - order - 1), p)
        generator = step * step % p
        root, left, twos = root * step % p, left * generator % p, order
    return root


def _big(value: int, size: int) -> bytes:
    _expect(value.bit_length() <= 8 * size)
    return value.to_bytes(size, "big")


def _certain(root: int | None) -> int:
    if root is None:
        raise ValueError("neither a number nor its product with a non-residue has a root")
    return root


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError("not an argument of the hook")
