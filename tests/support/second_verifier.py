"""A second verifier, written from docs/stark-protocol.md alone: plain integers, a plain Keccak, nothing of the project.

Section numbers are the document's. Slow on purpose: one query, one row, one instruction at a time. `verify_job` raises
Refused, and nothing else, for a job that does not hold under a key that the caller trusts.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
from Crypto.Hash import keccak

from tests.support import plain_poseidon2 as poseidon2
from tests.support import plain_poseidon2_bn254 as bn254

P = 2**64 - 2**32 + 1
Element = tuple[int, int, int]
ZERO, ONE = (0, 0, 0), (1, 0, 0)
Events = list[list[Any]]


class Refused(Exception):
    """The proof is invalid."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def H(data: bytes) -> bytes:
    return keccak.new(data=data, digest_bits=256).digest()


# -- 1. Encoding ------------------------------------------------------------------------------------------------------


def C(record: Any) -> bytes:
    return msgpack.packb(_sorted(record), use_bin_type=True)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(v) for v in value] if isinstance(value, (list, tuple)) else value


MOST_VALUES = 2**22


def decode(data: bytes) -> Any:
    try:
        record = msgpack.unpackb(data, raw=False)
    except ValueError:  # every refusal of the library, that of a string that is not UTF-8 included
        raise Refused("no MessagePack") from None
    need(_values(record, 0) <= MOST_VALUES + len(data) // 4, "too many values")
    need(C(record) == data, "not canonical")
    return record


def _values(value: Any, containers: int) -> int:
    """How many values this one holds, itself included. It stands within so many containers."""
    need(containers <= 16, "nested too deep")
    if isinstance(value, dict):
        need(all(isinstance(key, str) for key in value), "a key that is no string")
        return 1 + len(value) + sum(_values(v, containers + 1) for v in value.values())
    if isinstance(value, list):
        return 1 + sum(_values(v, containers + 1) for v in value)
    need(value is None or type(value) in (bool, int, str, bytes), "a value of another kind")
    return 1


def fields(record: Any, kinds: dict[str, Any]) -> Any:
    need(isinstance(record, dict) and record.keys() == kinds.keys(), "other fields")
    need(all(kind is Any or type(record[name]) is kind for name, kind in kinds.items()), "a field of another type")
    return record


def listed(value: Any, count: int) -> list[Any]:
    need(isinstance(value, list) and len(value) == count, "a list of another length")
    return value


def some(value: Any) -> list[Any]:
    """A list of as many entries as one of a table may have."""
    need(isinstance(value, list) and len(value) <= MOST_VALUES, "a list that is too long")
    return value


def octets(data: Any, count: int) -> bytes:
    need(isinstance(data, bytes) and len(data) == count, "bytes of another number")
    return data


def key_root(data: Any, needed: bool, elements: bool, over_bn254: bool = False) -> None:
    """A root in a key: 32 bytes, of four numbers below p, or one below r, if its hash is over these, or none."""
    octets(data, 32 if needed else 0)
    need(not (needed and over_bn254) or int.from_bytes(data, "little") < bn254.R, "a root that is no digest")
    need(not (needed and elements) or all(word < P for word in struct.unpack("<4Q", data)), "a root that is no digest")


def integer(value: Any, least: int, most: int) -> int:
    need(type(value) is int and least <= value <= most, "an integer out of range")
    return int(value)


def named(value: Any) -> str:
    """A table's, a bus's, a constraint's or a public value's name."""
    need(isinstance(value, str) and 1 <= len(value) <= 120, "not a name")
    return str(value)


# -- 2. Field ---------------------------------------------------------------------------------------------------------


def w(m: int) -> int:
    return pow(7, (P - 1) >> m, P)


def add(a: Element, b: Element) -> Element:
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def sub(a: Element, b: Element) -> Element:
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def mul(a: Element, b: Element) -> Element:
    product = [0] * 5
    for i in range(3):
        for j in range(3):
            product[i + j] += a[i] * b[j]
    c0, c1, c2, c3, c4 = product
    return (c0 + c3) % P, (c1 + c3 + c4) % P, (c2 + c4) % P


def power(a: Element, exponent: int) -> Element:
    result = ONE
    while exponent:
        if exponent & 1:
            result = mul(result, a)
        a, exponent = mul(a, a), exponent >> 1
    return result


def inverse(a: Element) -> Element:
    """By Fermat: a^(p^3 - 2)."""
    need(a != ZERO, "division by zero")
    return power(a, P**3 - 2)


def base(value: int) -> Element:
    return value % P, 0, 0


def total(values: Iterator[Element] | Sequence[Element]) -> Element:
    result = ZERO
    for value in values:
        result = add(result, value)
    return result


def element(numbers: Sequence[int]) -> Element:
    a, b, c = numbers
    return a, b, c


def numbers(data: Any, count: int) -> list[int]:
    """`count` elements of F_p."""
    need(isinstance(data, bytes) and len(data) == 8 * count, "elements of another number")
    found = list(struct.unpack(f"<{count}Q", data))
    need(all(v < P for v in found), "an element that is not canonical")
    return found


def elements(data: Any, count: int) -> list[Element]:
    flat = numbers(data, 3 * count)
    return [element(flat[3 * i : 3 * i + 3]) for i in range(count)]


# -- 4. Merkle trees --------------------------------------------------------------------------------------------------


Rows = dict[int, list[int]]
"""Opened rows of a matrix, by index."""


class Tree:
    """What a tree holds: (log leaves, width) of each matrix."""

    def __init__(
        self,
        matrices: list[tuple[int, int]],
        b: int = 0,
        poseidon2: bool = False,
        binary: bool = False,
        over_bn254: bool = False,
    ) -> None:
        self.matrices = matrices
        self.L = max(log for log, _ in matrices)
        self.poseidon2, self.binary, self.bn254 = poseidon2, binary or not poseidon2, over_bn254
        self.stops = {2**b, 1, *(2**log for log, _ in matrices)}

    def above(self, s: int) -> int:
        """The size of the level above that of s > 1 nodes."""
        binary = self.binary or s == 2 or s // 2 in self.stops
        return s // 2 if binary else s // 4

    @property
    def siblings(self) -> int:
        """The most nodes of a path that one query asks for."""
        s, count = 2**self.L, 0
        while s > 1:
            count += s // self.above(s) - 1
            s = self.above(s)
        return count

    def node(self, tag: int, children: list[bytes]) -> bytes:
        if self.bn254:
            numbers = [int.from_bytes(child, "little") for child in children]
            need(all(x < bn254.R for x in numbers), "a digest that is not canonical")
            return bn254.node(numbers, tag).to_bytes(32, "little")
        if not self.poseidon2:
            return H(struct.pack("<Q", tag) + b"".join(children))
        digests = [list(struct.unpack("<4Q", child)) for child in children]
        need(all(x < P for digest in digests for x in digest), "a digest that is not canonical")
        return struct.pack("<4Q", *poseidon2.node(digests, tag))

    def leaf(self, log: int, index: int, rows: list[Rows]) -> bytes:
        here = [(width, row[index]) for (own, width), row in zip(self.matrices, rows, strict=True) if own == log]
        words = [1 + 256 * len(here), *(width for width, _ in here)]
        words += [0] * (len(words) % 2)
        message = struct.pack(f"<{len(words)}I", *words)
        message += b"".join(struct.pack(f"<{len(row)}Q", *row) for _, row in here)
        whole = struct.unpack(f"<{len(message) // 8}Q", message)
        if self.bn254:
            return bn254.sponge(whole).to_bytes(32, "little")
        return struct.pack("<4Q", *poseidon2.sponge(whole)) if self.poseidon2 else H(message)

    def opened(self, root: bytes, queries: list[int], rows: list[list[list[int]]], path: list[bytes]) -> list[Rows]:
        """The rows of each matrix by index, when they and the path open the tree at the queries. Raises Refused."""
        by_index = []
        for (log, _), given in zip(self.matrices, rows, strict=True):
            indices = sorted({i % 2**log for i in queries})
            need(len(given) == len(indices), "not a row for each index")
            by_index.append(dict(zip(indices, given, strict=True)))
        s, rest = 2**self.L, list(path)
        nodes = {i: self.leaf(self.L, i, by_index) for i in {i % s for i in queries}}
        while s > 1:
            below, s = s, self.above(s)
            for i in sorted({i % s + t for i in nodes for t in range(0, below, s)} - nodes.keys()):
                need(len(rest) > 0, "a node is missing")
                nodes[i] = rest.pop(0)
            nodes = {i: self.node(2, [nodes[t] for t in range(i, below, s)]) for i in nodes if i < s}
            log = s.bit_length() - 1
            if log in (own for own, _ in self.matrices):
                nodes = {i: self.node(3, [nodes[i], self.leaf(log, i, by_index)]) for i in nodes}
        need(nodes == {0: root} and not rest, "an opening does not match its commitment")
        return by_index


# -- 5. Transcript ----------------------------------------------------------------------------------------------------


class Transcript:
    def __init__(self, purpose: bytes) -> None:
        self.events: Events = []
        self.state = H(b"distprove stark transcript 2")
        self.absorb("purpose", purpose)

    def absorb(self, label: str, data: bytes) -> None:
        self.state = H(
            b"\x10" + self.state + bytes([len(label)]) + label.encode() + struct.pack("<Q", len(data)) + data
        )
        self.events.append([label, H(data)])

    def absorb_words(self, label: str, data: bytes) -> None:
        """Elements of F_p, 8 bytes each: values, or the words of a root."""
        self.absorb(label, data)

    def absorb_root(self, label: str, root: bytes) -> None:
        self.absorb_words(label, root)

    def absorb_elements(self, label: str, values: Sequence[Element]) -> None:
        self.absorb_words(label, b"".join(struct.pack("<3Q", *v) for v in values))

    def words(self, label: str) -> Iterator[int]:
        self.state = state = H(b"\x11" + self.state + bytes([len(label)]) + label.encode())
        counter = 0
        while True:
            yield from struct.unpack("<4Q", H(b"\x12" + state + struct.pack("<Q", counter)))
            counter += 1

    def extension(self, label: str) -> Element:
        words = (word for word in self.words(label) if word < P)
        drawn = next(words), next(words), next(words)
        self.events.append([label, list(drawn)])
        return drawn

    def indices(self, label: str, q: int, k: int) -> list[int]:
        words = self.words(label)
        drawn = [next(words) % 2**k for _ in range(q)]
        self.events.append([label, drawn])
        return drawn

    def seed(self) -> bytes:
        self.state = H(b"\x11" + self.state + bytes([5]) + b"grind")
        self.events.append(["grind", self.state])
        return self.state

    @staticmethod
    def works(seed: bytes, nonce: int, bits: int) -> bool:
        work = H(struct.pack("<Q", 4) + seed + struct.pack("<Q", nonce))
        return "".join(f"{byte:08b}" for byte in work).startswith("0" * bits)


class Sponge(Transcript):
    width: int
    rate: int
    permute: Callable[[Sequence[int]], list[int]]

    def __init__(self, purpose: bytes) -> None:
        self.elements, self.at = [0] * self.width, 0
        self.events = []
        self.absorb("purpose", b"distprove stark transcript 2 " + purpose)
        self.events = [["purpose", H(purpose)]]

    def message(self, kind: int, label: str, items: Sequence[int], length: int) -> None:
        raise AssertionError("each sponge has messages of its own")

    def push(self, *elements: int) -> None:
        for x in elements:
            self.elements[self.at] = x
            self.at += 1
            if self.at == self.rate:
                self.elements, self.at = self.permute(self.elements), 0

    def words(self, label: str) -> Iterator[int]:
        self.message(0x11, label, [], 0)
        if self.at:
            self.elements, self.at = self.permute(self.elements), 0
        while True:
            yield from self.elements[: self.rate]
            self.elements = self.permute(self.elements)


class Poseidon2Transcript(Sponge):
    width, rate, permute = 16, 12, staticmethod(poseidon2.permute)

    def message(self, kind: int, label: str, items: Sequence[int], length: int) -> None:
        name = label.encode()
        packed = [int.from_bytes(name[i : i + 7], "little") for i in range(0, len(name), 7)]
        self.push(kind + 2**8 * len(name) + 2**16 * length, *packed, *items)

    def absorb(self, label: str, data: bytes) -> None:
        self.message(
            0x13, label, [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)], len(data)
        )
        self.events.append([label, H(data)])

    def absorb_words(self, label: str, data: bytes) -> None:
        words = struct.unpack(f"<{len(data) // 8}Q", data)
        need(all(x < P for x in words), "an element that is not canonical")
        self.message(0x10, label, words, len(words))
        self.events.append([label, H(data)])

    def seed(self) -> bytes:
        words = self.words("grind")
        drawn = struct.pack("<4Q", *(next(words) for _ in range(4)))
        self.events.append(["grind", drawn])
        return drawn

    @staticmethod
    def works(seed: bytes, nonce: int, bits: int) -> bool:
        return nonce < P and poseidon2.works(struct.unpack("<4Q", seed), nonce, bits, 4)


class Bn254Transcript(Sponge):
    """Of docs/multilinear-protocol.md, section 2."""

    width, rate, permute = 3, 2, staticmethod(bn254.permute)

    def message(self, kind: int, label: str, items: Sequence[int], length: int) -> None:
        name = label.encode()
        self.push(kind + 2**8 * len(name) + 2**16 * length + 2**64 * int.from_bytes(name, "little"), *items)

    def _pieces(self, data: bytes) -> list[int]:
        return [int.from_bytes(data[i : i + 24], "little") for i in range(0, len(data), 24)]

    def absorb(self, label: str, data: bytes) -> None:
        self.message(0x13, label, self._pieces(data), len(data))
        self.events.append([label, H(data)])

    def absorb_words(self, label: str, data: bytes) -> None:
        self.message(0x10, label, self._pieces(data), len(data) // 8)
        self.events.append([label, H(data)])

    def absorb_root(self, label: str, root: bytes) -> None:
        number = int.from_bytes(root, "little")
        need(number < bn254.R, "a digest that is not canonical")
        self.message(0x14, label, [number] if root else [], len(root) // 32)
        self.events.append([label, H(root)])

    def extension(self, label: str) -> Element:
        a, b, c = next(found for found in map(bn254.digits, self.words(label)) if found is not None)
        self.events.append([label, [a, b, c]])
        return a, b, c

    def indices(self, label: str, q: int, k: int) -> list[int]:
        elements, drawn = self.words(label), []
        while len(drawn) < q:
            y = next(elements)
            drawn += [(y >> 32 * i) % 2**k for i in range(3)]
        self.events.append([label, drawn[:q]])
        return drawn[:q]

    def seed(self) -> bytes:
        drawn = next(self.words("grind")).to_bytes(32, "little")
        self.events.append(["grind", drawn])
        return drawn

    @staticmethod
    def works(seed: bytes, nonce: int, bits: int) -> bool:
        return bn254.works(int.from_bytes(seed, "little"), nonce, bits, 4)


# -- 6. Verifying key -------------------------------------------------------------------------------------------------


LIMITS = {
    "log_blowup": (1, 3),
    "queries": (1, 1024),
    "grinding_bits": (0, 40),
    "security_bits": (0, 192),
    "log_arity": (1, 3),
    "log_final": (0, 10),
}


class Program:
    """A program over `matrices` inputs, whose scalars are so many."""

    def __init__(self, record: Any, matrices: int, scalars: int) -> None:
        fields(record, {"code": bytes, "constants": list, "outputs": bytes, "widths": list})
        self.widths = [integer(width, 0, 2**17) for width in listed(record["widths"], matrices)]
        self.constants = [integer(c, 0, P - 1) for c in some(record["constants"])]
        need(len(record["code"]) % 16 == 0 and len(record["code"]) <= 16 * 2**22, "instructions in parts")
        self.code = list(struct.iter_unpack("<4i", record["code"]))
        self.is_extension: list[bool] = []
        for i, (op, a, b, c) in enumerate(self.code):
            need(0 <= op <= 6, "no such op")
            if op == 0:
                need(0 <= a < matrices and 0 <= b < self.widths[a] and c in (0, 1), "no such column")
                need(a < 3 or c == 0, "selectors of the next row")
            elif op < 4:
                need(0 <= a < (len(self.constants) if op == 1 else scalars), "no such constant or scalar")
                need(b == c == 0, "an operand that the op does not use")
            else:
                need(0 <= a < i and 0 <= b < i, "not an earlier value")
                need(c == 0, "an operand that the op does not use")
            self.is_extension.append(op == 2 or (op > 3 and (self.is_extension[a] or self.is_extension[b])))
        need(len(record["outputs"]) % 4 == 0 and len(record["outputs"]) <= 4 * MOST_VALUES, "an output in parts")
        self.outputs = [v for (v,) in struct.iter_unpack("<i", record["outputs"])]
        need(all(0 <= v < len(self.code) for v in self.outputs), "an output that is no value")


def uses_of(record: Any) -> list[list[Any]]:
    """The uses of buses of a table: bus, width, scope, number, whether it sends, bound."""
    uses = [listed(use, 6) for use in some(record["uses"])]
    for bus, width, scope, number, sends, at_most in uses:
        need(isinstance(named(bus), str) and scope in ("local", "global") and type(sends) is bool, "not a use")
        integer(width, 1, 256)
        integer(number, 1, 65535)
        need(at_most is None or integer(at_most, 1, P - 1) > 0, "a bound")
    return uses


class Table:
    def __init__(self, record: Any) -> None:
        kinds = {"name": str, "public": int, "constraints": dict, "names": list, "interactions": Any}
        fields(record, kinds | {"groups": list, "uses": list})
        self.record = record
        named(record["name"])
        self.public = integer(record["public"], 0, 4096)
        self.uses = uses_of(record)
        groups = [listed(group, 2) for group in some(record["groups"])]
        need(all(scope in ("local", "global") for scope, _ in groups), "a group of no scope")
        need(sum(integer(size, 1, 256) for _, size in groups) == len(self.uses), "groups of other sizes")
        scopes = [scope for scope, size in groups for _ in range(size)]
        need(scopes == [use[2] for use in self.uses] == sorted(scopes, reverse=True), "groups of other scopes")

        used = [scope for scope in ("local", "global") if self.width(scope)]
        challenges = self.public + sum(1 + self.width(scope) for scope in used)
        names = [named(name) for name in some(record["names"])]
        need(len(names) > 0, "no constraints")
        scalars = challenges + len(used) + (2 if used else 0) + len(names)
        program = Program(record["constraints"], 4, scalars)
        self.constants, self.widths, self.code = program.constants, program.widths, program.code
        self.outputs = program.outputs
        need(len(self.outputs) == len(names), "constraints without a name each")
        need(self.widths[1] > 0 and self.widths[2:] == [3 * (len(groups) + len(used)), 3], "other widths")
        if self.uses:
            sums = Program(record["interactions"], 2, challenges + 1)
            need(sums.widths == self.widths[:2], "interactions over other columns")
            need(len(sums.outputs) == 2 * len(groups), "interactions without two outputs a group")
            need(all(sums.is_extension[v] for v in sums.outputs), "interactions in the base field")
        else:
            need(record["interactions"] is None, "interactions on no bus")
        self.columns = sum(self.widths[:3])
        first = (0, self.widths[0], self.widths[0] + self.widths[1])
        self.read_next = sorted({first[a] + b for op, a, b, c in self.code if op == 0 and c == 1})
        self.others = [k for k in range(self.columns) if k not in self.read_next]
        pairs = self._degrees()
        self.degree = max(1, *(d + (t > max(1, d - 1)) for d, t in pairs))
        self.transitions = max(t for _, t in pairs)
        need(max(self.degree, self.transitions) <= 256, "a degree that is too high")
        self.D = 1
        while max(1, self.degree - 1) > self.D:
            self.D *= 2

    def width(self, scope: str) -> int:
        return max((use[1] for use in self.uses if use[2] == scope), default=0)

    def _degrees(self) -> list[tuple[int, int]]:
        pairs: list[tuple[int, int]] = []
        for op, a, b, _ in self.code:
            if op == 0:
                pairs.append((0, 1) if (a, b) == (3, 2) else (1, 0))
            elif op < 4:
                pairs.append((0, 0))
            else:
                (da, ta), (db, tb) = pairs[a], pairs[b]
                d, t = (da + db, ta + tb) if op == 6 else (max(da, db), max(ta, tb))
                pairs.append((min(d, 257), min(t, 257)))
        return [pairs[v] for v in self.outputs]

    def value(self, this: list[list[Element]], after: Callable[[int, int], Element], scalars: list[Element]) -> Element:
        """The program's value: outputs folded with the last scalars."""
        values: list[Element] = []
        for op, a, b, c in self.code:
            if op == 0:
                values.append(after(a, b) if c else this[a][b])
            elif op == 1:
                values.append(base(self.constants[a]))
            elif op == 2:
                values.append(scalars[a])
            elif op == 3:
                values.append((scalars[a][0], 0, 0))
            else:
                values.append({4: add, 5: sub, 6: mul}[op](values[a], values[b]))
        weights = scalars[len(scalars) - len(self.outputs) :]
        return total([mul(weight, values[v]) for weight, v in zip(weights, self.outputs, strict=True)])


class Key:
    def __init__(self, record: Any) -> None:
        kinds = {"version": int, "program": str, "arguments": dict, "params": dict, "tables": list, "buses": list}
        kinds |= {"statement": dict, "fixed_heights": list, "preprocessed_root": bytes}
        fields(record, kinds | ({"optional": list} if isinstance(record, dict) and "optional" in record else {}))
        need(record["version"] == 2, "another version")
        need(all(type(v) in (int, str) for v in record["arguments"].values()), "an argument of another type")
        self.record = record
        self.digest = H(b"distprove stark key" + C(record))
        given = record["params"]
        self.poseidon2 = isinstance(given, dict) and "hash" in given
        self.params = fields(given, dict.fromkeys(LIMITS, int) | ({"hash": str} if self.poseidon2 else {}))
        need(not self.poseidon2 or given["hash"] == "poseidon2", "a hash of another name")
        self.transcript = Poseidon2Transcript if self.poseidon2 else Transcript
        for name, (least, most) in LIMITS.items():
            integer(self.params[name], least, most)
        need(1 <= len(record["tables"]) <= 512, "no tables, or too many")
        self.tables = [Table(t) for t in record["tables"]]
        need(len({t["name"] for t in record["tables"]}) == len(self.tables), "two tables of one name")
        self._check_buses()
        self.statement = record["statement"]
        self.public_values = self._check_statement()
        self.anchored = any(t.width("global") for t in self.tables)
        need(all(t.public == self.public_values for t in self.tables), "a table with other public values")
        b = self.params["log_blowup"]
        need(all(2**b >= t.D for t in self.tables), "a blow-up that is too small")
        heights = listed(record["fixed_heights"], len(self.tables))
        for table, height in zip(self.tables, heights, strict=True):
            need(height is not None or table.widths[0] == 0, "preprocessed columns without a height")
            need(height is None or integer(height, 0, min(28, 32 - b)) >= 0, "a height")
        self.optional = listed(record.get("optional", [None] * len(self.tables)), len(self.tables))
        need("optional" not in record or any(root is not None for root in self.optional), "no optional table")
        for table, root in zip(self.tables, self.optional, strict=True):
            if root is not None:
                key_root(root, table.widths[0] > 0, self.poseidon2)
                reads = any(op in (2, 3) and a < self.public_values for op, a, _, _ in table.code)
                need(not reads, "an optional table that reads public values")
        shared = any(t.widths[0] for t, root in zip(self.tables, self.optional, strict=True) if root is None)
        key_root(record["preprocessed_root"], shared, self.poseidon2)

    @property
    def named(self) -> dict[str, Any]:
        """What a proof file says of its key (docs/formats.md)."""
        return {name: self.record[name] for name in ("arguments", "params", "program", "version")}

    def _check_buses(self) -> None:
        buses = [listed(bus, 3) for bus in self.record["buses"]]
        need(len(buses) <= 65535, "too many buses")
        for name, scope, width in buses:
            need(isinstance(named(name), str) and scope in ("local", "global"), "a bus of no scope")
            integer(width, 1, 256)
        self.bus_number = {bus[0]: i for i, bus in enumerate(buses, 1)}
        need(len(self.bus_number) == len(buses), "two buses of one name")
        for table in self.tables:
            for name, width, scope, number, _, _ in table.uses:
                need(self.bus_number.get(name) == number, "a bus of another number")
                need(buses[number - 1] == [name, scope, width], "a bus declared otherwise")

    def _check_statement(self) -> int:
        lists = ("public", "same", "chain", "boundary")
        more = {name: list for name in ("constants", "output") if name in self.statement}
        s = fields(self.statement, dict.fromkeys(lists, list) | {"count": Any, "index": Any} | more)
        public = [listed(pair, 2) for pair in s["public"]]
        length = {named(name): integer(count, 1, 4096) for name, count in public}
        need(len(length) == len(public) and sum(length.values()) <= 4096, "public values twice, or too many")
        ends = [listed(pair, 2) for pair in s["chain"]]
        names = [*s["same"], *(name for pair in ends for name in pair)]
        names += [s[name] for name in ("count", "index") if s[name] is not None]
        need(all(isinstance(name, str) and name in length for name in names), "no such public value")
        need(all(length[end] == length[start] for end, start in ends), "a chain of different lengths")
        need(len({(end, start) for end, start in ends}) <= 2 * len(length), "a chain that says a thing in many ways")
        need("constants" not in more or len(s["constants"]) > 0, "no constants, and the field is there")
        for name, values, where in (listed(entry, 3) for entry in s.get("constants", [])):
            need(isinstance(name, str) and name in length, "no such public value")
            for value in listed(values, length[name]):
                integer(value, 0, P - 1)
            need(where in ("first", "last", "every"), "no such partition")
        different = {(name, tuple(values), where) for name, values, where in s.get("constants", [])}
        need(len(different) <= 3 * len(length), "constants that contradict each other")
        buses = {bus[0]: bus for bus in self.record["buses"]}
        for entry in s["boundary"]:
            fields(entry, {"bus": str, "values": list, "times": int, "where": str})
            need(buses.get(entry["bus"]) == [entry["bus"], "global", len(entry["values"])], "not a global bus")
            need(0 < abs(entry["times"]) < P, "a boundary tuple no times, or too many times")
            need(entry["where"] in ("first", "last", "every"), "no such partition")
            for value in entry["values"]:
                if isinstance(value, list):
                    name, position = listed(value, 2)
                    need(isinstance(name, str) and name in length, "no such public value")
                    integer(position, 0, length[name] - 1)
                else:
                    need(type(value) is int, "not a value")
        if "output" in s:
            bus, size, digest = listed(s["output"], 3)
            need(all(isinstance(name, str) for name in s["output"]), "not a name")
            need(buses.get(bus) == [bus, "global", 2], "not a global bus of two values")
            need((length.get(size), length.get(digest)) == (1, 8), "not a length and a digest")
        return sum(length.values())


# -- 7. LogUp ---------------------------------------------------------------------------------------------------------


MOST_OUTPUT = 2**24


def check_multiplicities(
    key: Key, partitions: Sequence[Sequence[int]], boundary: list[tuple[int, list[int], int]]
) -> None:
    sides: dict[int, list[float]] = {use[3]: [0, 0] for table in key.tables for use in table.uses}
    for heights in partitions:
        for table, h in zip(key.tables, heights, strict=True):
            for _, _, _, number, sends, at_most in table.uses if h != ABSENT else []:
                sides[number][sends] += math.inf if at_most is None else 2**h * at_most
    for number, _, times in boundary:
        need(number in sides, "a boundary tuple on a bus that no table uses")
        sides[number][times > 0] += abs(times)
    if "output" in key.statement:
        number = key.bus_number[key.statement["output"][0]]
        need(number in sides, "an output on a bus that no table uses")
        sides[number][False] += MOST_OUTPUT // 4 + 1
    need(all(min(side) < P for side in sides.values()), "multiplicities could wrap")


# -- 8. Shape ---------------------------------------------------------------------------------------------------------

ROUNDS = ("preprocessed", "main", "aux", "quotient")
ABSENT = 255


class Shape:
    """The present tables are counted from zero here, and everywhere that a shape is used."""

    def __init__(self, key: Key, given: list[int]) -> None:
        b, params = key.params["log_blowup"], key.params
        need(len(given) == len(key.tables), "not as many heights as tables")
        for h, fixed, root in zip(given, key.record["fixed_heights"], key.optional, strict=True):
            allowed = root is not None if h == ABSENT else h <= min(28, 32 - b) and fixed in (None, h)
            need(allowed, "a height that is not possible")
        self.given = given
        numbers = [i for i, h in enumerate(given) if h != ABSENT]
        need(len(numbers) > 0, "no table at all")
        self.tables, self.heights = [key.tables[i] for i in numbers], [given[i] for i in numbers]
        heights = self.heights
        self.b, self.distinct = b, sorted(set(heights), reverse=True)
        widths = [[*t.widths[:3], 3 * t.D] for t in self.tables]
        optional = [key.optional[i] for i in numbers]
        fixed_columns = [i for i in range(len(heights)) if widths[i][0]]
        self.trees: list[Tree] = []
        self.members: list[tuple[int, list[int]]] = []  # of each tree before FRI's: its round, and its tables
        self.key_roots: list[bytes] = []
        required = [i for i in fixed_columns if optional[i] is None]
        for tables in [required] * bool(required) + [[i] for i in fixed_columns if optional[i] is not None]:
            self.members.append((0, tables))
            own = optional[tables[0]]
            self.key_roots.append(key.record["preprocessed_root"] if own is None else own)
        self.own_rounds = []
        for r in (1, 2, 3):
            tables = [i for i in range(len(heights)) if widths[i][r]]
            if tables:
                self.members.append((r, tables))
                self.own_rounds.append(ROUNDS[r])
        for r, tables in self.members:
            self.trees.append(Tree([(heights[i] + b, widths[i][r]) for i in tables], b, key.poseidon2))
        self.f = min(params["log_final"], min(heights))
        self.steps: list[tuple[int, int, bool]] = []  # from height h by 2^a, mixes
        current = self.distinct[0]
        for target in (*self.distinct[1:], self.f):
            while current > target:
                a = min(params["log_arity"], current - target)
                self.steps.append((current, a, current - a in self.distinct))
                current -= a
        self.trees += [Tree([(h - a + b, 3 * 2**a)], b, key.poseidon2) for h, a, _ in self.steps]
        self.weight: dict[int, int] = {}
        self.weights = 0
        self.anchor_weight: dict[int, int] = {}
        for h in self.distinct:
            for i in (i for i, own in enumerate(heights) if own == h):
                self.weight[i] = self.weights
                t = self.tables[i]
                self.weights += t.columns + len(t.read_next) + 3 * t.D
            if key.anchored:
                self.anchor_weight[h] = self.weights
                self.weights += 1
        self.terminals = sum((t.width("local") > 0) + (t.width("global") > 0) for t in self.tables)


# -- 9. Proof of a partition ------------------------------------------------------------------------------------------


def pieces(data: Any, size: int, most: int) -> list[bytes]:
    need(isinstance(data, bytes) and len(data) % size == 0 and len(data) <= size * most, "bytes of another number")
    return [data[i : i + size] for i in range(0, len(data), size)]


class Proof:
    def __init__(self, key: Key, record: Any) -> None:
        kinds = {"challenge": bytes, "heights": bytes, "roots": list, "anchors": bytes, "terminals": bytes}
        kinds |= {"values": list, "fri_roots": list, "final": bytes, "nonce": int, "trees": list}
        fields(record, kinds)
        self.heights = list(record["heights"])
        self.shape = shape = Shape(key, self.heights)
        self.challenge = octets(record["challenge"], 32)
        own = shape.own_rounds
        self.roots = {name: octets(root, 32) for name, root in zip(own, listed(record["roots"], len(own)), strict=True)}
        self.anchor_bytes = record["anchors"]
        self.anchors = dict(
            zip(shape.anchor_weight, elements(record["anchors"], len(shape.anchor_weight)), strict=True)
        )
        flat = iter(elements(record["terminals"], shape.terminals))
        self.all_terminals = elements(record["terminals"], shape.terminals)
        self.terminals = [{scope: next(flat) for scope in ("local", "global") if t.width(scope)} for t in shape.tables]
        self.values = []
        for data, t in zip(listed(record["values"], len(shape.tables)), shape.tables, strict=True):
            end = t.columns + len(t.read_next)
            values = elements(data, end + 3 * t.D)
            self.values.append((values[: t.columns], values[t.columns : end], values[end:]))
        self.fri_roots = [octets(root, 32) for root in listed(record["fri_roots"], len(shape.steps))]
        self.final = elements(record["final"], 2**shape.f)
        self.nonce = record["nonce"]
        need(0 <= self.nonce < 2**64, "a nonce of more than 64 bits")
        q = key.params["queries"]
        self.paths, self.rows = [], []  # of each tree: nodes, and of each matrix a list of rows
        for opened, tree in zip(listed(record["trees"], len(shape.trees)), shape.trees, strict=True):
            fields(opened, {"path": bytes, "rows": list})
            self.paths.append(pieces(opened["path"], 32, q * tree.siblings))
            rows = []
            for data, (_, width) in zip(listed(opened["rows"], len(tree.matrices)), tree.matrices, strict=True):
                found = pieces(data, 8 * width, q)
                rows.append([numbers(row, width) for row in found])
            self.rows.append(rows)


# -- 10. Verifying a partition ----------------------------------------------------------------------------------------


def verify_partition(key: Key, name: str, public: list[int], proof: Proof) -> Events:
    """What was absorbed and drawn, in order. Raises Refused."""
    shape, params, b = proof.shape, key.params, proof.shape.b
    # 1
    need(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}", name) is not None, "not a partition's name")
    need(len([integer(v, 0, P - 1) for v in public]) == key.public_values, "other public values")
    need(security_bits(key, shape, [shape.given]) >= params["security_bits"], "too few bits of security")
    check_multiplicities(key, [shape.given], [])
    # 2
    t = key.transcript(b"partition")
    t.absorb("key", key.digest)
    t.absorb("job", proof.challenge)
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(shape.given))
    t.absorb_words("public", b"".join(struct.pack("<Q", v) for v in public))
    t.absorb_words("main", proof.roots["main"])
    t.absorb_words("anchors", proof.anchor_bytes)
    challenges = {
        "local": (t.extension("z"), t.extension("beta")),
        "global": global_challenges(proof.challenge, key.transcript),
    }
    # 3
    need(total([x["local"] for x in proof.terminals if "local" in x]) == ZERO, "the local buses do not balance")
    # 4
    t.absorb_words("aux", proof.roots.get("aux", b""))
    t.absorb_elements("terminals", proof.all_terminals)
    alpha = t.extension("alpha")
    # 5
    t.absorb_words("quotient", proof.roots["quotient"])
    zeta = outside(t, "zeta", shape)
    # 6
    for i, table in enumerate(shape.tables):
        scalars = scalars_of(table, public, challenges, proof.terminals[i], 2 ** shape.heights[i], alpha)
        left = constraints_at(table, proof.values[i][0], proof.values[i][1], scalars, zeta, shape.heights[i])
        right = quotient_at(table, proof.values[i][2], zeta, shape.heights[i], b)
        need(left == right, f"the constraints of {table.record['name']} do not hold")
    # 7
    for here, after, quotient in proof.values:
        t.absorb_elements("values", here + after)
        t.absorb_elements("quotient values", quotient)
    gamma = t.extension("gamma")
    # 8
    betas = []
    for root in proof.fri_roots:
        t.absorb_words("layer", root)
        betas.append(t.extension("fold"))
    # 9
    t.absorb_elements("final", proof.final)
    need(t.works(t.seed(), proof.nonce, params["grinding_bits"]), "the proof of work is not done")
    # 10
    t.absorb("nonce", struct.pack("<Q", proof.nonce))
    queries = t.indices("queries", params["queries"], shape.distinct[0] + b)
    # 11
    roots = [*shape.key_roots, *proof.roots.values(), *proof.fri_roots]
    given = zip(shape.trees, roots, proof.rows, proof.paths, strict=True)
    opened = [tree.opened(root, queries, rows, path) for tree, root, rows, path in given]
    # 12 and 13
    asked = anchor_challenges(key, name, public, proof) if key.anchored else None
    for index in queries:
        check_query(key, proof, opened, index, zeta, gamma, asked, betas)
    return t.events


def outside(t: Transcript, label: str, shape: Shape) -> Element:
    while True:
        x, b = t.extension(label), shape.b
        sizes = [(2**h, 2 ** (h + b)) for h in shape.heights]
        if not any(power(x, n) == ONE or power(x, N) == base(pow(7, N, P)) for n, N in sizes):
            return x


def anchor_challenges(key: Key, name: str, public: list[int], proof: Proof) -> tuple[Element, Element]:
    t = key.transcript(b"anchor")
    t.absorb("key", key.digest)
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(proof.heights))
    t.absorb_words("public", b"".join(struct.pack("<Q", v) for v in public))
    t.absorb_words("main", proof.roots["main"])
    return outside(t, "eta", proof.shape), t.extension("delta")


def global_challenges(challenge: bytes, kind: type[Transcript] = Transcript) -> tuple[Element, Element]:
    transcript = kind(b"global buses")
    transcript.absorb("job", challenge)
    return transcript.extension("z"), transcript.extension("beta")


def scalars_of(
    table: Table,
    public: list[int],
    challenges: dict[str, tuple[Element, Element]],
    terminals: dict[str, Element],
    n: int,
    alpha: Element,
) -> list[Element]:
    scalars = [base(v) for v in public]
    used = [scope for scope in ("local", "global") if table.width(scope)]
    for scope in used:
        z, beta = challenges[scope]
        scalars += [z, *(power(beta, k) for k in range(1, table.width(scope) + 1))]
    scalars += [mul(terminals[scope], base(pow(n, -1, P))) for scope in used]
    scalars += [(0, 1, 0), (0, 0, 1)] if used else []
    return scalars + [power(alpha, k) for k in range(len(table.outputs))]


def constraints_at(
    table: Table, here: list[Element], read_next: list[Element], scalars: list[Element], zeta: Element, h: int
) -> Element:
    after = dict(zip(table.read_next, read_next, strict=True))
    cut = [0, table.widths[0], table.widths[0] + table.widths[1], table.columns]
    vanishing = sub(power(zeta, 2**h), ONE)
    transition = sub(zeta, base(pow(w(h), -1, P)))
    selectors = [mul(vanishing, inverse(sub(zeta, ONE))), mul(vanishing, inverse(transition)), transition]
    this = [here[cut[m] : cut[m + 1]] for m in range(3)]
    return table.value([*this, selectors], lambda matrix, column: after[cut[matrix] + column], scalars)


def quotient_at(table: Table, values: list[Element], zeta: Element, h: int, b: int) -> Element:
    n = 2**h
    shifts = [7 * pow(w(h + b), t * 2**b // table.D, P) % P for t in range(table.D)]
    zeta_n = power(zeta, n)
    result = ZERO
    for t, shift in enumerate(shifts):
        a, b_, c = values[3 * t : 3 * t + 3]
        term = add(add(a, mul((0, 1, 0), b_)), mul((0, 0, 1), c))
        for u, other in enumerate(shifts):
            if u != t:
                away = base(pow(pow(shift, n, P) - pow(other, n, P), -1, P))
                term = mul(term, mul(sub(zeta_n, base(pow(other, n, P))), away))
        result = add(result, term)
    return mul(result, sub(zeta_n, ONE))


def check_query(
    key: Key,
    proof: Proof,
    opened: list[list[Rows]],
    index: int,
    zeta: Element,
    gamma: Element,
    asked: tuple[Element, Element] | None,
    betas: list[Element],
) -> None:
    shape, b = proof.shape, proof.shape.b
    value = deep_at(key, proof, opened, shape.distinct[0], index, zeta, gamma, asked)
    for (h, a, mixes), beta, rows in zip(shape.steps, betas, opened[len(shape.members) :], strict=True):
        s = h + b
        j = index % 2**s
        r, t = j % 2 ** (s - a), j // 2 ** (s - a)
        leaf = [element(rows[0][r][3 * u : 3 * u + 3]) for u in range(2**a)]
        need(leaf[t] == value, "the folding of FRI is not consistent")
        own, M = beta, 2 ** (s - a)
        while len(leaf) > 1:
            half = len(leaf) // 2
            folded = []
            for u in range(half):
                y = pow(w(s), r + u * M, P)
                even = mul(add(leaf[u], leaf[u + half]), base(pow(2, -1, P)))
                odd = mul(sub(leaf[u], leaf[u + half]), base(pow(2 * y, -1, P)))
                folded.append(add(even, mul(beta, odd)))
            leaf, beta, s = folded, mul(beta, beta), s - 1
        value = leaf[0]
        if mixes:
            value = add(value, mul(power(own, 2**a), deep_at(key, proof, opened, h - a, index, zeta, gamma, asked)))
    last = w(shape.f + b)
    point = base(pow(last, index % 2 ** (shape.f + b), P))
    need(
        value == total([mul(c, power(point, k)) for k, c in enumerate(proof.final)]),
        "the folding of FRI is not consistent",
    )


def deep_at(
    key: Key,
    proof: Proof,
    opened: list[list[Rows]],
    h: int,
    index: int,
    zeta: Element,
    gamma: Element,
    asked: tuple[Element, Element] | None,
) -> Element:
    shape, b = proof.shape, proof.shape.b
    x = base(7 * pow(w(h + b), index % 2 ** (h + b), P))
    near = inverse(sub(x, zeta))
    far = inverse(sub(x, mul(base(w(h)), zeta)))
    result = ZERO
    main_cells: list[int] = []
    for i, own in enumerate(shape.heights):
        if own != h:
            continue
        cells_of: dict[str, list[int]] = {}
        for number, (r, tables) in enumerate(shape.members):
            if i in tables:
                cells_of[ROUNDS[r]] = opened[number][tables.index(i)][index % 2 ** (h + b)]
        row = [v for name in ROUNDS[:3] for v in cells_of.get(name, [])]
        main_cells += cells_of["main"]
        table, (here, after, quotient) = shape.tables[i], proof.values[i]
        parts: list[tuple[list[int], list[Element], Element]] = [
            ([row[k] for k in table.read_next], [here[k] for k in table.read_next], near),
            ([row[k] for k in table.others], [here[k] for k in table.others], near),
            ([row[k] for k in table.read_next], after, far),
            (cells_of["quotient"], quotient, near),
        ]
        weight = power(gamma, shape.weight[i])
        for cells, values, away in parts:
            for cell, value in zip(cells, values, strict=True):
                result = add(result, mul(weight, mul(sub(base(cell), value), away)))
                weight = mul(weight, gamma)
    if asked is not None:
        eta, delta = asked
        combined = total([mul(power(delta, k), base(cell)) for k, cell in enumerate(main_cells)])
        away = mul(sub(combined, proof.anchors[h]), inverse(sub(x, eta)))
        result = add(result, mul(power(gamma, shape.anchor_weight[h]), away))
    return result


# -- 11. Verifying a job ----------------------------------------------------------------------------------------------


def verify_job(
    key_record: Any, partitions: Sequence[tuple[str, list[int], Any]], output: bytes | None = None
) -> list[Events]:
    """Name, public values and proof of each partition; gives what each absorbed and drew. Raises Refused."""
    key = Key(key_record)
    need(len(partitions) > 0, "no partitions")
    names = [named(name) for name, _, _ in partitions]
    publics = [public for _, public, _ in partitions]
    need(len(set(names)) == len(names), "two partitions of one name")
    proofs = [Proof(key, record) for _, _, record in partitions]
    commitments = [
        [name, proof.heights, public, proof.roots["main"], proof.anchor_bytes]
        for name, public, proof in zip(names, publics, proofs, strict=True)
    ]
    challenge = H(b"distprove stark job 2" + C([key.digest, len(partitions), commitments]))
    need(all(proof.challenge == challenge for proof in proofs), "not a part of this job")
    events = [verify_partition(key, n, v, p) for n, v, p in zip(names, publics, proofs, strict=True)]

    check_statement(key, publics)
    boundary = list(boundary_tuples(key, publics))
    received = list(output_tuples(key, publics, output))
    check_multiplicities(key, [p.heights for p in proofs], boundary)
    for heights in {tuple(p.heights) for p in proofs}:
        reached = security_bits(key, Shape(key, list(heights)), [p.heights for p in proofs])
        need(reached >= key.params["security_bits"], "too few bits over all partitions")
    z, beta = global_challenges(challenge, key.transcript)
    left = total([x["global"] for p in proofs for x in p.terminals if "global" in x])
    for number, values, times in boundary + received:
        f = add(z, base(number))
        for k, value in enumerate(values, 1):
            f = add(f, mul(power(beta, k), base(value)))
        left = add(left, mul(base(times), inverse(f)))
    need(left == ZERO, "the global buses do not balance")
    return events


def digest(domain: str, *values: Any) -> bytes:
    return hashlib.sha256(C([domain, list(values)])).digest()


def verify_file(data: bytes, key_record: Any, output: bytes | None = None) -> list[Events]:
    """A whole proof.msgpack (docs/formats.md) under a key that the caller trusts. Raises Refused."""
    key, top = Key(key_record), decode(data)
    kinds = {"format": str, "version": int, "system": str, "key": bytes, "job": bytes, "binding": bytes}
    fields(top, kinds | {"partitions": list, "verification_key": dict})
    need((top["format"], top["version"], top["system"]) == ("distprove.proof", 1, "stark"), "another file")
    need(top["key"] == key.digest, "another key")
    need(C(top["verification_key"]) == C(key.named), "the key is named otherwise")
    partitions = []
    for i, part in enumerate(top["partitions"]):
        fields(part, {"name": str, "digest": bytes, "public": list, "data": dict})
        own = digest("distprove/partition/1", key.digest, i, part["name"], part["public"], part["data"].get("heights"))
        need(part["digest"] == own, "the partition's digest")
        public = []
        for value in part["public"]:
            need(isinstance(value, bytes) and 1 <= len(value) <= 64, "not a public value")
            need(len(value) == 1 or value[0] > 0, "a public value with zeros before it")
            public.append(int.from_bytes(value, "big"))
        partitions.append((part["name"], public, part["data"]))
    stated = [part["digest"] for part in top["partitions"]]
    need(top["job"] == digest("distprove/job/1", "stark", key.digest, len(stated), stated), "the job's digest")
    data_of_all = [part["data"] for part in top["partitions"]]
    bound = digest("distprove/binding/1", top["job"], top["verification_key"], data_of_all)
    need(top["binding"] == bound, "the binding")
    return verify_job(key_record, partitions, output)


def check_statement(key: Key, publics: list[list[int]]) -> None:
    named = [_named(key, public) for public in publics]
    statement = key.statement
    every = sum(entry["where"] == "every" for entry in statement["boundary"])
    need(every <= 256 or every * len(publics) <= 1 << 18, "too many boundary tuples")
    for position, own in enumerate(named):
        need(all(own[name] == named[0][name] for name in statement["same"]), "public values differ")
        if statement["count"] is not None:
            need(own[statement["count"]][0] == len(publics), "the count is wrong")
        if statement["index"] is not None:
            need(own[statement["index"]][0] == position, "the index is wrong")
        for end, start in statement["chain"]:
            need(position == 0 or named[position - 1][end] == own[start], "the chain is broken")
    for name, values, where in statement.get("constants", []):
        for own in {"first": named[:1], "last": named[-1:], "every": named}[where]:
            need(own[name] == values, "not the constant")


def _named(key: Key, public: list[int]) -> dict[str, list[int]]:
    rest = iter(public)
    return {name: [next(rest) for _ in range(count)] for name, count in key.statement["public"]}


def boundary_tuples(key: Key, publics: list[list[int]]) -> Iterator[tuple[int, list[int], int]]:
    for entry in key.statement["boundary"]:
        for public in {"first": publics[:1], "last": publics[-1:], "every": publics}[entry["where"]]:
            named = _named(key, public)
            values = [named[v[0]][v[1]] if isinstance(v, list) else v % P for v in entry["values"]]
            yield key.bus_number[entry["bus"]], values, entry["times"]


def output_tuples(key: Key, publics: list[list[int]], output: bytes | None) -> Iterator[tuple[int, list[int], int]]:
    if "output" not in key.statement:
        return
    bus, size, digest = key.statement["output"]
    if output is None:
        raise Refused("the output is not given")
    for public in publics:
        named = _named(key, public)
        need(named[size] == [len(output)] and len(output) <= MOST_OUTPUT, "an output of another length")
        need(named[digest] == list(struct.unpack("<8I", H(output))), "an output of another digest")
    padded = output + b"\0" * (-len(output) % 4)
    for place, word in enumerate((len(output), *(v for (v,) in struct.iter_unpack("<I", padded)))):
        yield key.bus_number[bus], [place, word], -1


# -- 12. Bits of security ---------------------------------------------------------------------------------------------


def error_of_buses(key: Key, scope: str, partitions: list[list[int]], boundary: int = 0) -> float:
    """Tuples times (widest bus + 2)."""
    tuples = boundary
    for heights in partitions:
        for table, h in zip(key.tables, heights, strict=True):
            tuples += sum(use[2] == scope for use in table.uses) * 2**h if h != ABSENT else 0
    return tuples * (2 + max((width for _, own, width in key.record["buses"] if own == scope), default=0))


def security_bits(key: Key, shape: Shape, partitions: list[list[int]]) -> float:
    """Of one partition of a job, given the heights of all."""
    rho = 2.0 ** -key.params["log_blowup"]
    field, n = 3 * math.log2(P), 2.0 ** shape.distinct[0]
    outside_domains = math.log2(float(P) ** 3 - n - n / rho)
    constraints = sum(len(t.outputs) for t in shape.tables)
    d, t, D = (max(getattr(x, what) for x in shape.tables) for what in ("degree", "transitions", "D"))
    boundary = sum(len(partitions) if entry["where"] == "every" else 1 for entry in key.statement["boundary"])
    boundary += MOST_OUTPUT // 4 + 1 if "output" in key.statement else 0
    local, shared = error_of_buses(key, "local", [shape.given]), error_of_buses(key, "global", partitions, boundary)
    columns = max(
        sum(x.widths[1] for x, own in zip(shape.tables, shape.heights, strict=True) if own == h) for h in shape.distinct
    )

    def weakest(theta: float, L: float, error: Callable[[float], float]) -> float:
        def gap(height: int, k: int) -> float:
            return field - math.log2(error(2.0**height / rho) * max(1, k - 1))

        bits = [128.0, gap(shape.distinct[0], shape.weights)]
        bits.append(field - math.log2(L * constraints))
        bits.append(outside_domains - math.log2(L * max(d * (n + 1) + n - 1, d * n + t, n * (D + 1))))
        bits += [gap(h - a, 2**a + mixes) for h, a, mixes in shape.steps]
        bits.append(-math.log2(1 - theta) * key.params["queries"] + key.params["grinding_bits"])
        if key.anchored and L > 1:
            bits.append(outside_domains - math.log2(len(partitions) * L * (L - 1) / 2 * (columns + n)))
        if shared:
            bits.append(field - math.log2(shared))
        if local:
            bits.append(field - math.log2(local * (1 if key.anchored else L)))
        return min(bits)

    plus = rho * (1 + 1 / n)
    theta = (1 - plus) / 2
    best = weakest(theta, 1.0, lambda N: N)
    root = math.sqrt(rho)
    for m in range(3, 1001):
        far, M = 1 - root * (1 + 1 / (2 * m)), 2 * m + 0.5

        def error(N: float, far: float = far, M: float = M) -> float:
            return (2 * M**5 + 3 * M * far * rho) * N / (3 * rho * root) + M / root

        excess = (1 - far) / math.sqrt(plus) - 1
        if excess > 0:
            best = max(best, weakest(far, (1 / (2 * excess) + 0.5) / math.sqrt(plus), error))
    return best
