"""Ways to spoil a valid file: its bytes, and its structure, with the lengths around a change made right again."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from distprove.errors import DistproveError
from distprove.formats import canonical
from tests.support.records import at, places, with_value

Mutate = Callable[[random.Random, Sequence[bytes]], bytes]
"""Makes an input from valid ones."""

CONTROLS = "\x1b[2J\x1b]0;x\x07\u202e[bold]verified[/]\n\x9b"
NUMBERS = [0, 1, 2, 7, 8, 32, 48, 0xFF, 2**16, 2**28, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
VALUES: list[Any] = [
    *(None, True, False, -1, -(2**63), *NUMBERS, 0.5, -1.0, 1e308),
    *("", "0", "a", "x" * 300, "../../etc/passwd", CONTROLS, "\ud800", "\0", "9" * 5000, "-1", "0x10"),
    *(b"", bytes(1), bytes(32), bytes(31), b"\xff" * 32, b"\xff" * 64, bytes(8), b"\xff" * 8),
    *([], {}, [[]], [{}], {"": None}, {"a": {"a": []}}, [0] * 40, [None, "a", 1.5]),
]
"""What may stand in a record that is not expected there."""
FLOATS = [float("nan"), float("inf"), -float("inf")]


def other_value(rng: random.Random, value: Any) -> Any:
    """A value near to the one that is there, or one that has nothing to do with it."""
    if rng.random() < 0.35:
        return copy.deepcopy(rng.choice(VALUES))
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, value * 2, value ^ (1 << rng.randrange(64)), float(value)])
    if isinstance(value, float):
        return rng.choice([-value, value * 1e300, value + 1, *FLOATS])
    if isinstance(value, bytes):
        return other_bytes(rng, [value])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value[::-1], value * 50, value + CONTROLS, f"-{value}"])
    if isinstance(value, list):
        shuffled = rng.sample(value, len(value))
        return rng.choice([value[:-1], value[1:], value + value[-1:], value * 30, shuffled])
    if isinstance(value, dict):
        key = rng.choice([*value, "more"])
        less = {k: v for k, v in value.items() if k != key}
        return rng.choice([less, {**less, "x": value.get(key)}, {**value, key + CONTROLS: 1}, list(value.items())])
    return None


def other_record(rng: random.Random, record: Any) -> Any:
    """One to three places changed, or two exchanged."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        known = list(places(record))
        place = rng.choice(known)
        taken = at(record, rng.choice(known)) if rng.random() < 0.15 else other_value(rng, at(record, place))
        record = with_value(record, place, taken)
    return record


def other_bytes(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Flips, cuts, insertions, repetitions, numbers that lie, and parts of other files."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 2, 4, 8, rng.randrange(1, 64)])
        way = rng.randrange(7)
        if way == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            data[at : at + length] = rng.randbytes(length)
        elif way == 2:
            number = rng.choice(NUMBERS)
            data[at : at + length] = number.to_bytes(9, rng.choice(["little", "big"]))[:length]
        elif way == 3:
            del data[at : at + length]
        elif way == 4:
            data[at:at] = data[at : at + length] * rng.choice([1, 1, 50])
        elif way == 5:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) + 1)
            data[at : at + length] = other[start : start + length]
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def of_records(load: Callable[[bytes], Any], dump: Callable[[Any], bytes]) -> Mutate:
    """Changes the record in a file. `dump` may raise for a record that cannot be written; then bytes are changed."""

    def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
        record = other_record(rng, load(rng.choice(seeds)))
        try:
            return dump(record)
        except (TypeError, ValueError, OverflowError, AttributeError, KeyError, RecursionError, DistproveError):
            return other_bytes(rng, seeds)

    return mutate


def dump_msgpack(record: Any) -> bytes:
    """In canonical form where there is one; with floats and keys that are no strings, where there is not."""
    try:
        return canonical.encode(record)
    except (TypeError, ValueError):
        packed: bytes = msgpack.packb(record, use_bin_type=True)
        return packed


def load_msgpack(data: bytes) -> Any:
    return canonical.decode(data, "seed")


def dump_json(record: Any) -> bytes:
    """With numbers that are too long and strings that are no text as they come."""
    return json.dumps(record, default=lambda value: value.hex()).encode()


msgpack_records = of_records(load_msgpack, dump_msgpack)
json_records = of_records(json.loads, dump_json)


def json_lines(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Changes one event of a journal."""
    lines = rng.choice(seeds).splitlines(keepends=True)
    line = rng.randrange(len(lines))
    lines[line] = json_records(rng, [lines[line]]) + rng.choice([b"\n", b"\n", b""])
    return b"".join(lines)


def json_text(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """JSON that no encoder writes: long numbers, deep nesting, keys twice, values that are not JSON's."""
    data = rng.choice(seeds)
    colons = [i for i, byte in enumerate(data) if byte in b":,["] or [0]
    at = rng.choice(colons) + 1
    odd = [b"9" * 5000, b"-" + b"9" * 400 + b".5", b"1e400", b"NaN", b"-Infinity", b"[" * 200, b'{"a":' * 200, b"//"]
    odd += [b'{"a":1,"a":2}', b'"\\ud800"', b'"\\u0000"', b"1e-9999", b"0e5000", b'"\xff"', b"[[[[[[[[]]]]]]]]", b"1.0"]
    return data[:at] + rng.choice(odd) + rng.choice([b"", b","]) + data[at:]


def toml_lines(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Another value for one key of a job file, a line twice, or a key moved into another table."""
    lines = rng.choice(seeds).decode().splitlines()
    for _ in range(rng.choice([1, 1, 2])):
        line = rng.randrange(len(lines))
        key = lines[line].partition("=")[0].strip() or "x"
        values = ["9" * 5000, "-1", "0", "1e400", "nan", "true", '"x"', '"' + "n" * 300 + '"', "[]", "{}", "[1, [2]]"]
        values += ['{ a = "b" }', '["*"]', '["**/*"]', '["/"]', '"\\u0000"', '""', '"\\u001B[2J"', "1979-05-27", "0x10"]
        values += [
            "9223372036854775807",
            '"48GiB"',
            '["' + "a/" * 3000 + '"]',
            '"[' + "a" * 50 + '"',
            "[" * 3000,
            '"2^9"',
        ]
        way = rng.randrange(5)
        if way <= 2:
            lines[line] = f"{key} = {rng.choice(values)}"
        elif way == 3:
            lines.insert(line, rng.choice([*lines, "[executor]", "[[inputs]]", "[arguments]", f"[{key}]"]))
        else:
            del lines[line]
            lines = lines or [""]
    return "\n".join(lines).encode()


def sections(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Changes the content of a section of a .zkey, .wtns, .r1cs or .ptau file, or its sections; lengths are right."""
    data = rng.choice(seeds)
    parts = []
    at = 12
    while at + 12 <= len(data):
        ident, size = struct.unpack_from("<IQ", data, at)
        parts.append((ident, data[at + 12 : at + 12 + size]))
        at += 12 + size
    way = rng.randrange(8)
    chosen = rng.randrange(len(parts))
    ident, content = parts[chosen]
    if way == 0:
        del parts[chosen]
    elif way == 1:
        parts.insert(rng.randrange(len(parts) + 1), (rng.choice([ident, ident + 1, 99]), content))
    elif way == 2:
        rng.shuffle(parts)
    elif way == 3 and len(content) >= 4:  # a count or a size near the beginning
        place = 4 * rng.randrange(min(len(content) // 4, 24))
        number = rng.choice(NUMBERS) & 0xFFFFFFFF
        parts[chosen] = (ident, content[:place] + struct.pack("<I", number) + content[place + 4 :])
    else:
        parts[chosen] = (ident, other_bytes(rng, [content or b"\0"]))
    body = b"".join(struct.pack("<IQ", ident, len(content)) + content for ident, content in parts)
    return data[:8] + struct.pack("<I", len(parts)) + body


def elf_fields(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A guest's ELF file with other numbers in its headers, those of sections included."""
    data = bytearray(rng.choice(seeds))
    sections, count = int.from_bytes(data[32:36], "little"), int.from_bytes(data[48:50], "little")
    places = [*range(16, 52, 2), *range(52, 52 + 32 * data[44], 4), *range(sections, sections + 40 * count, 4)]
    for _ in range(rng.randint(1, 4)):
        at, size = rng.choice(places), rng.choice((1, 2, 4))
        old = int.from_bytes(data[at : at + 4], "little")
        near = old + rng.choice((-4, -1, 1, 4, 0x1000))
        new = rng.choice((0, 1, near, 0x7FFFFFFF, 0xFFFFFFFF, len(data), rng.getrandbits(32))) % (1 << 8 * size)
        data[at : at + size] = new.to_bytes(size, "little")
    return bytes(data)


def wasm_sections(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Changes the content of a section of a WebAssembly module; lengths are right."""
    data = rng.choice(seeds)
    parts = []
    at = 8
    while at < len(data):
        ident, (size, at) = data[at], _leb(data, at + 1)
        parts.append((ident, data[at : at + size]))
        at += size
    chosen = rng.randrange(len(parts))
    ident, content = parts[chosen]
    if rng.random() < 0.2:
        parts.insert(chosen, parts[rng.randrange(len(parts))])
    elif rng.random() < 0.3:  # how many there are of something, as the first number of a section
        _, after = _leb(content or b"\0", 0)
        parts[chosen] = (ident, _to_leb(rng.choice(NUMBERS[:12])) + content[after:])
    else:
        parts[chosen] = (ident, other_bytes(rng, [content or b"\0"]))
    return data[:8] + b"".join(bytes([ident]) + _to_leb(len(content)) + content for ident, content in parts)


def _leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _to_leb(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
