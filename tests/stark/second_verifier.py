"""A second verifier, written from docs/stark-protocol.md alone: plain integers, a plain Keccak, nothing of the project.

Section numbers are the document's. Slow on purpose: one query, one row, one instruction at a time. `verify_job` raises
Refused, and nothing else, for a job that does not hold under a key that the caller trusts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
from Crypto.Hash import keccak

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


def decode(data: bytes) -> Any:
    record = msgpack.unpackb(data, raw=False)
    need(C(record) == data, "not canonical")
    return record


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

    def __init__(self, matrices: list[tuple[int, int]]) -> None:
        self.matrices = matrices
        self.L = max(log for log, _ in matrices)

    def leaf(self, log: int, index: int, rows: list[Rows]) -> bytes:
        here = [(width, row[index]) for (own, width), row in zip(self.matrices, rows, strict=True) if own == log]
        words = [1 + 256 * len(here), *(width for width, _ in here)]
        words += [0] * (len(words) % 2)
        return H(
            struct.pack(f"<{len(words)}I", *words) + b"".join(struct.pack(f"<{len(row)}Q", *row) for _, row in here)
        )

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
            for i in sorted({(i + s // 2) % s for i in nodes} - nodes.keys()):
                need(len(rest) > 0, "a node is missing")
                nodes[i] = rest.pop(0)
            s //= 2
            nodes = {i: H(struct.pack("<Q", 2) + nodes[i] + nodes[i + s]) for i in nodes if i < s}
            log = s.bit_length() - 1
            if log in (own for own, _ in self.matrices):
                nodes = {i: H(struct.pack("<Q", 3) + nodes[i] + self.leaf(log, i, by_index)) for i in nodes}
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

    def absorb_elements(self, label: str, values: Sequence[Element]) -> None:
        self.absorb(label, b"".join(struct.pack("<3Q", *v) for v in values))

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


# -- 6. Verifying key -------------------------------------------------------------------------------------------------


class Table:
    def __init__(self, record: Any) -> None:
        self.record = record
        program = record["constraints"]
        self.constants = program["constants"]
        self.widths = program["widths"]
        self.code = list(struct.iter_unpack("<4i", program["code"]))
        self.outputs = [v for (v,) in struct.iter_unpack("<i", program["outputs"])]
        self.uses = record["uses"]
        self.columns = sum(self.widths[:3])
        first = (0, self.widths[0], self.widths[0] + self.widths[1])
        self.read_next = sorted({first[a] + b for op, a, b, c in self.code if op == 0 and c == 1})
        self.others = [k for k in range(self.columns) if k not in self.read_next]
        pairs = self._degrees()
        self.degree = max(1, *(d + (t > max(1, d - 1)) for d, t in pairs))
        self.transitions = max(t for _, t in pairs)
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
                pairs.append((da + db, ta + tb) if op == 6 else (max(da, db), max(ta, tb)))
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
        self.record = record
        self.digest = H(b"distprove stark key" + C(record))
        self.params = record["params"]
        self.tables = [Table(t) for t in record["tables"]]
        self.statement = record["statement"]
        self.bus_number = {bus[0]: i for i, bus in enumerate(record["buses"], 1)}
        self.public_values = sum(count for _, count in self.statement["public"])
        self.anchored = any(t.width("global") for t in self.tables)


# -- 7. LogUp ---------------------------------------------------------------------------------------------------------


def check_multiplicities(tables: list[tuple[Table, int]], boundary: list[tuple[int, list[int], int]]) -> None:
    sides: dict[int, list[float]] = {}
    for table, rows in tables:
        for _, _, _, number, sends, at_most in table.uses:
            side = sides.setdefault(number, [0, 0])
            side[sends] += math.inf if at_most is None else rows * at_most
    for number, _, times in boundary:
        need(number in sides, "a boundary tuple on a bus that no table uses")
        sides[number][times > 0] += abs(times)
    need(all(min(side) < P for side in sides.values()), "multiplicities could wrap")


# -- 8. Shape ---------------------------------------------------------------------------------------------------------

ROUNDS = ("preprocessed", "main", "aux", "quotient")


class Shape:
    def __init__(self, key: Key, heights: list[int]) -> None:
        b, params = key.params["log_blowup"], key.params
        need(len(heights) == len(key.tables), "not as many heights as tables")
        for h, fixed in zip(heights, key.record["fixed_heights"], strict=True):
            need(h <= min(28, 32 - b) and fixed in (None, h), "a height that is not possible")
        self.heights, self.b, self.distinct = heights, b, sorted(set(heights), reverse=True)
        widths = [[*t.widths[:3], 3 * t.D] for t in key.tables]
        self.rounds: dict[str, Tree] = {}
        self.present: dict[str, list[int]] = {}
        for r, name in enumerate(ROUNDS):
            tables = [i for i in range(len(heights)) if widths[i][r]]
            if tables:
                self.present[name] = tables
                self.rounds[name] = Tree([(heights[i] + b, widths[i][r]) for i in tables])
        self.f = min(params["log_final"], min(heights))
        self.steps: list[tuple[int, int, bool]] = []  # from height h by 2^a, mixes
        current = self.distinct[0]
        for target in (*self.distinct[1:], self.f):
            while current > target:
                a = min(params["log_arity"], current - target)
                self.steps.append((current, a, current - a in self.distinct))
                current -= a
        self.trees = list(self.rounds.values())
        self.trees += [Tree([(h - a + b, 3 * 2**a)]) for h, a, _ in self.steps]
        self.weight: dict[int, int] = {}
        self.weights = 0
        for i in sorted(range(len(heights)), key=lambda i: -heights[i]):
            self.weight[i] = self.weights
            self.weights += key.tables[i].columns + len(key.tables[i].read_next) + 3 * key.tables[i].D
        self.anchor_weight: dict[int, int] = {}
        for h in self.distinct if key.anchored else []:
            self.anchor_weight[h] = self.weights
            self.weights += 1
        self.terminals = sum((t.width("local") > 0) + (t.width("global") > 0) for t in key.tables)


# -- 9. Proof of a partition ------------------------------------------------------------------------------------------


def fields(record: Any, kinds: dict[str, type]) -> Any:
    need(isinstance(record, dict) and record.keys() == kinds.keys(), "other fields")
    need(all(type(record[name]) is kind for name, kind in kinds.items()), "a field of another type")
    return record


def listed(value: Any, count: int) -> list[Any]:
    need(isinstance(value, list) and len(value) == count, "a list of another length")
    return value


def octets(data: Any, count: int) -> bytes:
    need(isinstance(data, bytes) and len(data) == count, "bytes of another number")
    return data


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
        own = [name for name in shape.rounds if name != "preprocessed"]
        self.roots = {name: octets(root, 32) for name, root in zip(own, listed(record["roots"], len(own)), strict=True)}
        self.anchor_bytes = record["anchors"]
        self.anchors = dict(
            zip(shape.anchor_weight, elements(record["anchors"], len(shape.anchor_weight)), strict=True)
        )
        flat = iter(elements(record["terminals"], shape.terminals))
        self.all_terminals = elements(record["terminals"], shape.terminals)
        self.terminals = [{scope: next(flat) for scope in ("local", "global") if t.width(scope)} for t in key.tables]
        self.values = []
        for data, t in zip(listed(record["values"], len(key.tables)), key.tables, strict=True):
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
            self.paths.append(pieces(opened["path"], 32, q * tree.L))
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
    need(len(public) == key.public_values and all(0 <= v < P for v in public), "other public values")
    need(security_bits(key, shape, [shape.heights]) >= params["security_bits"], "too few bits of security")
    check_multiplicities([(t, 2**h) for t, h in zip(key.tables, shape.heights, strict=True)], [])
    # 2
    t = Transcript(b"partition")
    t.absorb("key", key.digest)
    t.absorb("job", proof.challenge)
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(shape.heights))
    t.absorb("public", b"".join(struct.pack("<Q", v) for v in public))
    t.absorb("main", proof.roots["main"])
    t.absorb("anchors", proof.anchor_bytes)
    challenges = {"local": (t.extension("z"), t.extension("beta")), "global": global_challenges(proof.challenge)}
    # 3
    need(total([x["local"] for x in proof.terminals if "local" in x]) == ZERO, "the local buses do not balance")
    # 4
    t.absorb("aux", proof.roots.get("aux", b""))
    t.absorb_elements("terminals", proof.all_terminals)
    alpha = t.extension("alpha")
    # 5
    t.absorb("quotient", proof.roots["quotient"])
    zeta = outside(t, "zeta", shape)
    # 6
    for i, table in enumerate(key.tables):
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
        t.absorb("layer", root)
        betas.append(t.extension("fold"))
    # 9
    t.absorb_elements("final", proof.final)
    work = H(struct.pack("<Q", 4) + t.seed() + struct.pack("<Q", proof.nonce))
    bits = "".join(f"{byte:08b}" for byte in work)
    need(bits.startswith("0" * params["grinding_bits"]), "the proof of work is not done")
    # 10
    t.absorb("nonce", struct.pack("<Q", proof.nonce))
    queries = t.indices("queries", params["queries"], shape.distinct[0] + b)
    # 11
    roots = [proof.roots.get(name, key.record["preprocessed_root"]) for name in shape.rounds] + proof.fri_roots
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
    t = Transcript(b"anchor")
    t.absorb("key", key.digest)
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(proof.heights))
    t.absorb("public", b"".join(struct.pack("<Q", v) for v in public))
    t.absorb("main", proof.roots["main"])
    return outside(t, "eta", proof.shape), t.extension("delta")


def global_challenges(challenge: bytes) -> tuple[Element, Element]:
    transcript = Transcript(b"global buses")
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
    for (h, a, mixes), beta, rows in zip(shape.steps, betas, opened[len(shape.rounds) :], strict=True):
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
        for number, (name, tables) in enumerate(shape.present.items()):
            if i in tables:
                cells_of[name] = opened[number][tables.index(i)][index % 2 ** (h + b)]
        row = [v for name in ROUNDS[:3] for v in cells_of.get(name, [])]
        main_cells += cells_of["main"]
        table, (here, after, quotient) = key.tables[i], proof.values[i]
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


def verify_job(key_record: Any, partitions: Sequence[tuple[str, list[int], Any]]) -> list[Events]:
    """Name, public values and proof of each partition; gives what each absorbed and drew. Raises Refused."""
    key = Key(key_record)
    need(len(partitions) > 0, "no partitions")
    names = [name for name, _, _ in partitions]
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
    check_multiplicities([(t, 2**h) for p in proofs for t, h in zip(key.tables, p.heights, strict=True)], boundary)
    for heights in {tuple(p.heights) for p in proofs}:
        reached = security_bits(key, Shape(key, list(heights)), [p.heights for p in proofs])
        need(reached >= key.params["security_bits"], "too few bits over all partitions")
    z, beta = global_challenges(challenge)
    left = total([x["global"] for p in proofs for x in p.terminals if "global" in x])
    for number, values, times in boundary:
        f = add(z, base(number))
        for k, value in enumerate(values, 1):
            f = add(f, mul(power(beta, k), base(value)))
        left = add(left, mul(base(times), inverse(f)))
    need(left == ZERO, "the global buses do not balance")
    return events


def check_statement(key: Key, publics: list[list[int]]) -> None:
    named = [_named(key, public) for public in publics]
    statement = key.statement
    for position, own in enumerate(named):
        need(all(own[name] == named[0][name] for name in statement["same"]), "public values differ")
        if statement["count"] is not None:
            need(own[statement["count"]][0] == len(publics), "the count is wrong")
        if statement["index"] is not None:
            need(own[statement["index"]][0] == position, "the index is wrong")
        for end, start in statement["chain"]:
            need(position == 0 or named[position - 1][end] == own[start], "the chain is broken")


def _named(key: Key, public: list[int]) -> dict[str, list[int]]:
    rest = iter(public)
    return {name: [next(rest) for _ in range(count)] for name, count in key.statement["public"]}


def boundary_tuples(key: Key, publics: list[list[int]]) -> Iterator[tuple[int, list[int], int]]:
    for entry in key.statement["boundary"]:
        for public in {"first": publics[:1], "last": publics[-1:], "every": publics}[entry["where"]]:
            named = _named(key, public)
            values = [named[v[0]][v[1]] if isinstance(v, list) else v % P for v in entry["values"]]
            yield key.bus_number[entry["bus"]], values, entry["times"]


# -- 12. Bits of security ---------------------------------------------------------------------------------------------


def error_of_buses(key: Key, scope: str, partitions: list[list[int]], boundary: int = 0) -> float:
    """Tuples times (widest bus + 2)."""
    tuples = boundary
    for heights in partitions:
        for table, h in zip(key.tables, heights, strict=True):
            tuples += sum(use[2] == scope for use in table.uses) * 2**h
    return tuples * (2 + max((width for _, own, width in key.record["buses"] if own == scope), default=0))


def security_bits(key: Key, shape: Shape, partitions: list[list[int]]) -> float:
    """Of one partition of a job, given the heights of all."""
    rho = 2.0 ** -key.params["log_blowup"]
    field, n = 3 * math.log2(P), 2.0 ** shape.distinct[0]
    outside_domains = math.log2(float(P) ** 3 - n - n / rho)
    constraints = sum(len(t.outputs) for t in key.tables)
    d, t, D = (max(getattr(x, what) for x in key.tables) for what in ("degree", "transitions", "D"))
    boundary = sum(len(partitions) if entry["where"] == "every" else 1 for entry in key.statement["boundary"])
    local, shared = error_of_buses(key, "local", [shape.heights]), error_of_buses(key, "global", partitions, boundary)
    columns = max(
        sum(x.widths[1] for x, own in zip(key.tables, shape.heights, strict=True) if own == h) for h in shape.distinct
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
    best = weakest(theta, 1.0, lambda N: theta * N + 1)
    root = math.sqrt(rho)
    for m in range(3, 1001):
        far, M = 1 - root * (1 + 1 / (2 * m)), m + 0.5

        def error(N: float, far: float = far, M: float = M) -> float:
            return (2 * M**5 + 3 * M * far * rho) * N / (3 * rho * root) + M / root

        excess = (1 - far) / math.sqrt(plus) - 1
        if excess > 0:
            best = max(best, weakest(far, (1 / (2 * excess) + 0.5) / math.sqrt(plus), error))
    return best
