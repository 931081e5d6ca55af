"""A second verifier of the multilinear engine, written from docs/multilinear-protocol.md: plain integers, plain Keccak.

What that document takes from docs/stark-protocol.md (encoding, field, trees, transcript, programs, statement) comes
from `second_verifier`. Section and step numbers are the document's. Slow on purpose: one query, one element at a time.
`verify_job` raises Refused, and nothing else, for a job that does not hold under a key that the caller trusts.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support import plain_poseidon2_bn254 as bn254
from tests.support import second_verifier as s
from tests.support.second_verifier import (
    ONE,
    ZERO,
    C,
    Element,
    H,
    P,
    Program,
    Refused,
    Transcript,
    Tree,
    add,
    base,
    elements,
    fields,
    integer,
    inverse,
    listed,
    mul,
    named,
    need,
    octets,
    pieces,
    power,
    sub,
    total,
    w,
)

__all__ = ["Refused", "check_job", "verify_job"]
ABSENT = 255


def product(values: Sequence[Element]) -> Element:
    result = ONE
    for value in values:
        result = mul(result, value)
    return result


def horner(coefficients: Sequence[Element], x: Element) -> Element:
    result = ZERO
    for c in reversed(coefficients):
        result = add(mul(result, x), c)
    return result


# -- 1. Notation ------------------------------------------------------------------------------------------------------


def eq(point: Sequence[Element], index: int) -> Element:
    return product([x if index >> i & 1 else sub(ONE, x) for i, x in enumerate(point)])


def lag(skip: int, a: int, z: Element) -> Element:
    point = base(pow(w(skip), -a, P))
    return mul(base(pow(2**skip, -1, P)), total([power(mul(z, point), k) for k in range(2**skip)]))


# -- 2. Key -----------------------------------------------------------------------------------------------------------

LIMITS = {
    "log_blowup": (1, 6),
    "log_skip": (0, 6),
    "log_columns": (0, 6),
    "log_shrink": (1, 3),
    "log_final": (0, 10),
    "grinding_bits": (0, 40),
    "security_bits": (0, 192),
}


class Table:
    def __init__(self, record: Any) -> None:
        kinds = {"name": str, "public": int, "constraints": Any, "names": list, "interactions": Any, "uses": list}
        fields(record, kinds)
        named(record["name"])
        self.public = integer(record["public"], 0, 4096)
        self.uses = s.uses_of(record)
        scopes = [use[2] for use in self.uses]
        need(scopes == sorted(scopes, reverse=True), "global uses before local ones")
        names = [named(name) for name in record["names"]]
        used = [scope for scope in ("local", "global") if self.width(scope)]
        self.challenges = self.public + sum(1 + self.width(scope) for scope in used)
        self.constraints = self._program(record["constraints"], len(names), self.public)
        self.interactions = self._program(record["interactions"], 2 * len(self.uses), self.challenges)
        programs = [p for p in (self.constraints, self.interactions) if p is not None]
        need(len(programs) > 0 and all(p.widths == programs[0].widths for p in programs), "other widths")
        self.widths = programs[0].widths
        need(self.widths[1] > 0 and self.widths[2:] == [0, 3], "other widths")
        if self.interactions is not None:
            need(all(op != 0 or a != 3 for op, a, _, _ in self.interactions.code), "a selector in an interaction")
            kinds_of = [self.interactions.is_extension[v] for v in self.interactions.outputs]
            need(kinds_of == [False] * len(self.uses) + [True] * len(self.uses), "leaves of another kind")
        self.degrees = [0 if p is None else max(1, *_degrees(p)) for p in (self.constraints, self.interactions)]
        need(max(self.degrees) <= 256, "a degree that is too high")
        found = {(a, b) for p in programs for op, a, b, c in p.code if op == 0 and c == 1}
        self.columns = self.widths[0] + self.widths[1]
        self.read_next = sorted(b + (self.widths[0] if a else 0) for a, b in found)
        self.code = [instruction for p in programs for instruction in p.code]

    def _program(self, record: Any, outputs: int, first: int) -> Program | None:
        need((record is None) == (outputs == 0), "a program without outputs, or none with them")
        if record is None:
            return None
        program = Program(record, 4, first + outputs)
        need(len(program.outputs) == outputs, "another number of outputs")
        return program

    def width(self, scope: str) -> int:
        return max((use[1] for use in self.uses if use[2] == scope), default=0)


def _degrees(program: Program) -> list[int]:
    found: list[int] = []
    for op, a, b, _ in program.code:
        if op < 4:
            found.append(1 if op == 0 else 0)
        else:
            found.append(min(257, found[a] + found[b] if op == 6 else max(found[a], found[b])))
    return [found[v] for v in program.outputs]


def value_of(
    program: Program, this: list[list[Element]], after: Callable[[int, int], Element], scalars: list[Element]
) -> Element:
    values: list[Element] = []
    for op, a, b, c in program.code:
        if op == 0:
            values.append(after(a, b) if c else this[a][b])
        elif op == 1:
            values.append(base(program.constants[a]))
        elif op < 4:
            values.append(scalars[a] if op == 2 else (scalars[a][0], 0, 0))
        else:
            values.append({4: add, 5: sub, 6: mul}[op](values[a], values[b]))
    weights = scalars[len(scalars) - len(program.outputs) :]
    return total([mul(weight, values[v]) for weight, v in zip(weights, program.outputs, strict=True)])


class Key(s.Key):
    def __init__(self, record: Any) -> None:
        kinds = {"engine": str, "version": int, "program": str, "arguments": dict, "params": dict, "tables": list}
        kinds |= {"buses": list, "statement": dict, "fixed_heights": list, "preprocessed_root": bytes, "optional": list}
        fields(record, kinds)
        need(record["engine"] == "multilinear" and record["version"] == 2, "another engine or version")
        need(all(type(v) in (int, str) for v in record["arguments"].values()), "an argument of another type")
        self.record = record
        self.digest = H(b"distprove multilinear key" + C(record))
        readable = {"places": int} if isinstance(record["params"], dict) and "places" in record["params"] else {}
        self.params = fields(record["params"], dict.fromkeys(LIMITS, int) | {"queries": list, "hash": str} | readable)
        self.places = integer(self.params["places"], 1, 64) if readable else 0
        for name, (least, most) in LIMITS.items():
            integer(self.params[name], least, most)
        need(1 <= len(self.params["queries"]) <= 8, "no queries, or for too many rounds")
        self.queries = [integer(q, 1, 1024) for q in self.params["queries"]]
        known = ("keccak256", "poseidon2", "poseidon2-binary", "poseidon2-bn254")
        need(self.params["hash"] in known, "a hash of another name")
        self.bn254 = self.params["hash"] == "poseidon2-bn254"
        self.poseidon2 = self.params["hash"] != "keccak256" and not self.bn254
        self.binary = self.params["hash"] == "poseidon2-binary"
        need(not self.places or self.params["hash"] == "poseidon2", "places under another hash")
        need(1 <= len(record["tables"]) <= 512, "no tables, or too many")
        self.tables: list[Any] = [Table(t) for t in record["tables"]]
        need(len({t["name"] for t in record["tables"]}) == len(self.tables), "two tables of one name")
        self._check_buses()
        self.statement = record["statement"]
        self.public_values = self._check_statement()
        need(all(t.public == self.public_values for t in self.tables), "a table with other public values")
        need(not self.places or "output" in self.statement, "places and no output")
        self.l = self.params["log_skip"]
        heights = listed(record["fixed_heights"], len(self.tables))
        for table, height in zip(self.tables, heights, strict=True):
            need(height is not None or table.widths[0] == 0, "preprocessed columns without a height")
            need(height is None or integer(height, self.l, 28) >= 0, "a height")
        self.optional = listed(record["optional"], len(self.tables))
        need(all(type(optional) is bool for optional in self.optional), "not a mark of an optional table")
        for table, optional in zip(self.tables, self.optional, strict=True):
            reads = any(op in (2, 3) and a < self.public_values for op, a, _, _ in table.code)
            need(not (optional and reads), "an optional table that reads public values")
        s.key_root(record["preprocessed_root"], any(t.widths[0] for t in self.tables), self.poseidon2, self.bn254)


# -- 3 and 4. Stacking, shape -----------------------------------------------------------------------------------------


class Stack:
    """tables: (number, log of the rows, columns)."""

    def __init__(self, tables: list[tuple[int, int, int]], least: int, log_columns: int) -> None:
        ordered = sorted((t for t in tables if t[2]), key=lambda t: -t[1])
        cells = sum(2**h * columns for _, h, columns in ordered)
        self.m = max([least, *(h for _, h, _ in ordered)])
        while cells > 2 ** (log_columns + self.m):
            self.m += 1
        self.w = -(-cells // 2**self.m)
        self.position: dict[tuple[int, int], tuple[int, int]] = {}
        at = 0
        for number, h, columns in ordered:
            for c in range(columns):
                self.position[number, c] = divmod(at, 2**self.m)
                at += 2**h


@dataclass
class Round:
    m: int
    k: int
    domain: int
    queries: int


class Shape:
    def __init__(self, key: Key, given: list[int]) -> None:
        need(len(given) == len(key.tables), "not as many heights as tables")
        for h, fixed, optional in zip(given, key.record["fixed_heights"], key.optional, strict=True):
            need(optional if h == ABSENT else key.l <= h <= 28 and fixed in (None, h), "a height that is not possible")
        self.given, self.l = given, key.l
        self.numbers = [i for i, h in enumerate(given) if h != ABSENT]
        need(len(self.numbers) > 0, "no table at all")
        self.tables: list[Table] = [key.tables[i] for i in self.numbers]
        self.heights = [given[i] for i in self.numbers]
        every = enumerate(zip(key.tables, key.record["fixed_heights"], strict=True))
        self.fixed = Stack([(i, h or 0, t.widths[0]) for i, (t, h) in every], key.l, key.params["log_columns"])
        own = enumerate(zip(self.tables, self.heights, strict=True))
        least = self.fixed.m if self.fixed.w else key.l
        self.main = Stack([(i, h, t.widths[1]) for i, (t, h) in own], least, key.params["log_columns"])
        self.r = key.params["log_blowup"]
        need(self.main.m + self.r <= 32, "too many cells")
        self.blocks: dict[tuple[int, int], tuple[str, int]] = {}
        sizes: dict[str, int] = {}
        for scope in ("local", "global"):
            at = 0
            for i in sorted(range(len(self.tables)), key=lambda i: -self.heights[i]):
                for u, use in enumerate(self.tables[i].uses):
                    if use[2] == scope:
                        self.blocks[i, u] = scope, at
                        at += 2 ** self.heights[i]
            if at:
                sizes[scope] = at
        self.scopes = list(sizes)
        self.depth = max((math.ceil(math.log2(size)) for size in sizes.values()), default=0)
        self.N = self.depth + (len(sizes) == 2)
        self.d_C = max(t.degrees[0] for t in self.tables)
        self.d_I = max(t.degrees[1] for t in self.tables)
        self.d = max(1, self.d_C, self.d_I)
        self.n_max = max(self.heights) - self.l
        self.openings = sum(t.columns + len(t.read_next) for t in self.tables)
        self.rounds: list[Round] = []
        m = self.main.m
        while not self.rounds or m > key.params["log_final"]:
            i = len(self.rounds)
            need(i < len(key.queries), "too few rounds' queries")
            domain = self.main.m + self.r - i * key.params["log_shrink"]
            self.rounds.append(Round(m, min(4, m), domain, key.queries[i]))
            m -= min(4, m)
        self.f = m


# -- 5. Proof of a partition ------------------------------------------------------------------------------------------


class Proof:
    def __init__(self, key: Key, record: Any) -> None:
        kinds: dict[str, Any] = dict.fromkeys(("roots", "nonces", "trees"), list)
        flat = "challenge heights root anchor totals gkr skip rounds openings reduction stacked folds samples final"
        fields(record, kinds | dict.fromkeys(flat.split(), bytes))
        self.heights = list(record["heights"])
        self.shape = x = Shape(key, self.heights)
        self.challenge, self.root = octets(record["challenge"], 32), octets(record["root"], 32)
        self.anchor_bytes = record["anchor"]
        (self.anchor,) = elements(record["anchor"], 1)
        self.totals = elements(record["totals"], ("local" in x.scopes) + 2 * ("global" in x.scopes))
        layers = range(len(x.scopes) - 1, x.N) if x.scopes else range(0)
        values = iter(elements(record["gkr"], sum(2 * j + 4 for j in layers)))
        self.layers = [[next(values) for _ in range(2 * j + 4)] for j in layers]
        L = 2**x.l
        quotient = max(0, x.d_C - 1) * (L - 1)
        leaves = x.d_I * (L - 1) + 1 if x.scopes else 0
        skip = elements(record["skip"], quotient + leaves)
        self.quotient, self.leaves = skip[:quotient], skip[quotient:]
        values = iter(elements(record["rounds"], x.n_max * x.d))
        self.rounds = [[next(values) for _ in range(x.d)] for _ in range(x.n_max)]
        self.openings = elements(record["openings"], x.openings)
        self.reduction = _pairs(elements(record["reduction"], 2 * x.main.m))
        self.stacked = elements(record["stacked"], x.main.w + x.fixed.w)
        self.folds = _pairs(elements(record["folds"], 2 * sum(r.k for r in x.rounds)))
        M = len(x.rounds)
        self.roots = [octets(root, 32) for root in listed(record["roots"], M - 1)]
        self.samples = elements(record["samples"], M - 1)
        self.nonces = [integer(nonce, 0, 2**64 - 1) for nonce in listed(record["nonces"], M)]
        self.final = elements(record["final"], 2**x.f)
        first = x.rounds[0]
        hashed = key.poseidon2, key.binary, key.bn254
        self.trees = [(Tree([(first.domain - first.k, x.main.w * 2**first.k)], x.r, *hashed), first.queries)]
        if x.fixed.w:
            self.trees.append((Tree([(x.fixed.m + x.r, x.fixed.w)], x.r, *hashed), first.queries * 2**first.k))
        for r in x.rounds[1:]:
            self.trees.append((Tree([(r.domain - r.k, 3 * 2**r.k)], r.domain - r.m, *hashed), r.queries))
        self.paths, self.rows = [], []
        for opened, (tree, q) in zip(listed(record["trees"], len(self.trees)), self.trees, strict=True):
            fields(opened, {"path": bytes, "rows": list})
            self.paths.append(pieces(opened["path"], 32, q * tree.siblings))
            ((_, width),) = tree.matrices
            (data,) = listed(opened["rows"], 1)
            self.rows.append([s.numbers(row, width) for row in pieces(data, 8 * width, q)])


def _pairs(values: list[Element]) -> list[tuple[Element, Element]]:
    return list(zip(values[0::2], values[1::2], strict=True))


# -- 6. Anchor and job ------------------------------------------------------------------------------------------------


def anchor_challenges(key: Key, name: str, public: list[int], proof: Proof) -> tuple[list[Element], Element]:
    t = new(key, b"multilinear anchor")
    t.absorb("key", key.digest)
    _absorb_statement(t, name, public, proof)
    return [t.extension("eta") for _ in range(proof.shape.main.m)], t.extension("delta")


def _absorb_statement(t: Transcript, name: str, public: list[int], proof: Proof) -> None:
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(proof.heights))
    t.absorb_words("public", struct.pack(f"<{len(public)}Q", *public))
    t.absorb_root("main", proof.root)


def new(key: Key, purpose: bytes) -> Transcript:
    if key.bn254:
        return s.Bn254Transcript(purpose)
    return s.Poseidon2Transcript(purpose) if key.poseidon2 else Transcript(purpose)


def global_challenges(key: Key, challenge: bytes) -> tuple[Element, Element]:
    t = new(key, b"multilinear global buses")
    t.absorb("job", challenge)
    return t.extension("z"), t.extension("beta")


# -- 7. To the columns ------------------------------------------------------------------------------------------------


def verify_partition(key: Key, name: str, public: list[int], proof: Proof) -> None:
    x = proof.shape
    skip, L = x.l, 2**x.l
    # 1
    need(len(public) == key.public_values, "public values of another number")
    for value in public:
        integer(value, 0, P - 1)
    need(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}", name) is not None, "not a partition's name")
    need(security_bits(key, x, [x.given]) >= key.params["security_bits"], "too few bits")
    only = Key.__new__(Key)
    vars(only).update(vars(key), statement={k: v for k, v in key.statement.items() if k != "output"})
    s.check_multiplicities(only, [x.given], [])
    # 2
    t = new(key, b"multilinear partition")
    t.absorb("key", key.digest)
    t.absorb("job", proof.challenge)
    _absorb_statement(t, name, public, proof)
    t.absorb_elements("anchor", [proof.anchor])
    drawn = {"local": (t.extension("z"), t.extension("beta")), "global": global_challenges(key, proof.challenge)}
    # 3
    t.absorb_elements("totals", proof.totals)
    given = list(proof.totals)
    local_q = given.pop(0) if "local" in x.scopes else ONE
    global_p, global_q = given if given else (ZERO, ONE)
    need(local_q != ZERO and global_q != ZERO, "a denominator of zero")
    point: list[Element] = []
    if len(x.scopes) == 2:
        between = t.extension("scope")
        point = [between]
        p = mul(between, global_p)
        q = add(mul(sub(ONE, between), local_q), mul(between, global_q))
    else:
        p, q = (ZERO, local_q) if x.scopes == ["local"] else (global_p, global_q)
    # 4
    for layer in proof.layers:
        batch = t.extension("layer")
        c = add(p, mul(batch, q))
        rho = []
        for i in range(len(point)):
            t_1, t_2 = layer[2 * i : 2 * i + 2]
            t_0 = sub(c, mul(point[i], add(t_1, t_2)))
            t.absorb_elements("gkr", [t_1, t_2])
            rho.append(t.extension("rho"))
            c = horner([t_0, t_1, t_2], rho[-1])
        p_0, p_1, q_0, q_1 = layer[-4:]
        t.absorb_elements("children", [p_0, p_1, q_0, q_1])
        need(c == total([mul(p_0, q_1), mul(p_1, q_0), mul(batch, mul(q_0, q_1))]), "a layer")
        mu = t.extension("child")
        p, q = add(p_0, mul(mu, sub(p_1, p_0))), add(q_0, mul(mu, sub(q_1, q_0)))
        point = [mu, *rho]
    # 5
    xi = point[: x.depth]
    while len(xi) < skip + x.n_max:
        xi.append(t.extension("xi"))
    weights: dict[tuple[int, int], Element] = {}
    for (i, u), (scope, offset) in x.blocks.items():
        h = x.heights[i]
        weight = eq(point[h : x.depth], offset >> h)
        if len(x.scopes) == 2:
            weight = mul(weight, point[-1] if scope == "global" else sub(ONE, point[-1]))
        weights[i, u] = weight
    # 6
    lambda_, kappa = t.extension("lambda"), t.extension("kappa")
    t.absorb_elements("quotient", proof.quotient)
    t.absorb_elements("leaves", proof.leaves)
    if x.scopes:
        left = [mul(eq(xi[:skip], a), horner(proof.leaves, base(pow(w(skip), a, P)))) for a in range(L)]
        need(total(left) == add(p, mul(kappa, add(sub(q, ONE), total(list(weights.values()))))), "the leaves")
    r_0, nu = t.extension("skip"), t.extension("nu")
    vanishing = sub(power(r_0, L), ONE)
    c = add(mul(vanishing, horner(proof.quotient, r_0)), mul(nu, horner(proof.leaves, r_0)))
    # 7
    rows: list[Element] = []
    for i, sent in enumerate(proof.rounds):
        t_0 = sub(c, mul(xi[skip + i], total(sent)))
        t.absorb_elements("round", sent)
        rows.append(t.extension("r"))
        c = horner([t_0, *sent], rows[-1])
    # 8
    t.absorb_elements("openings", proof.openings)
    found, e, values = ZERO, 0, iter(proof.openings)
    for i, (table, h) in enumerate(zip(x.tables, x.heights, strict=True)):
        here = [next(values) for _ in range(table.columns)]
        after = {c: next(values) for c in table.read_next}
        own, cut = rows[: h - skip], table.widths[0]
        first = mul(lag(skip, 0, r_0), product([sub(ONE, y) for y in own]))
        last = mul(lag(skip, L - 1, r_0), product(own))
        this = [here[:cut], here[cut:], [], [first, last, sub(ONE, last)]]

        def next_of(a: int, b: int, after: dict[int, Element] = after, cut: int = cut) -> Element:
            return after[b + (cut if a else 0)]

        publics = [base(v) for v in public]
        if table.constraints is not None:
            powers = [power(lambda_, e + k) for k in range(len(table.constraints.outputs))]
            found = add(found, value_of(table.constraints, this, next_of, publics + powers))
            e += len(powers)
        if table.interactions is not None:
            scalars = list(publics)
            for scope in ("local", "global"):
                if table.width(scope):
                    z, beta = drawn[scope]
                    scalars += [z, *(power(beta, k + 1) for k in range(table.width(scope)))]
            own_weights = [weights[i, u] for u in range(len(table.uses))]
            scalars += own_weights + [mul(kappa, weight) for weight in own_weights]
            found = add(found, mul(nu, value_of(table.interactions, this, next_of, scalars)))
    need(c == found, "the rules")
    # 9 to 11
    sigma = t.extension("sigma")
    c = total([mul(power(sigma, k), value) for k, value in enumerate([*proof.openings, proof.anchor])])
    rho = []
    for h_1, h_2 in proof.reduction:
        t.absorb_elements("reduce", [h_1, h_2])
        rho.append(t.extension("fold"))
        c = horner([sub(c, h_2), h_1, h_2], rho[-1])
    t.absorb_elements("stacked", proof.stacked)
    need(c == stacked_sum(key, name, public, proof, r_0, rows, rho, sigma), "the stacked columns")
    # 12 to 15
    whir(key, proof, t, rho)


def stacked_sum(
    key: Key,
    name: str,
    public: list[int],
    proof: Proof,
    r_0: Element,
    rows: list[Element],
    rho: list[Element],
    sigma: Element,
) -> Element:
    """Step 11: the sum over all claims of sigma^e times weight times stacked value."""
    x, skip, e, result = proof.shape, proof.shape.l, 0, ZERO

    def A(y: Element, u: list[Element]) -> Element:
        return product([add(ONE, mul(power(y, 2**i), u[i])) for i in range(skip)])

    for i, (table, h) in enumerate(zip(x.tables, x.heights, strict=True)):
        n = h - skip
        claims = [(c, False) for c in range(table.columns)] + [(c, True) for c in table.read_next]
        for c, is_next in claims:
            if c < table.widths[0]:
                (j, o), u = x.fixed.position[x.numbers[i], c], rho[x.main.m - x.fixed.m :]
                value = proof.stacked[x.main.w + j]
            else:
                (j, o), u = x.main.position[i, c - table.widths[0]], rho
                value = proof.stacked[j]
            factors = [add(sub(ONE, rows[k]), mul(rows[k], u[skip + k])) for k in range(n)]
            if is_next:
                step = product(rows[:n])
                for k in range(n):
                    carried = mul(sub(ONE, rows[k]), u[skip + k])
                    step = add(step, mul(product(rows[:k]), mul(carried, product(factors[k + 1 :]))))
                weight = mul(A(mul(base(w(skip)), r_0), u), product(factors))
                moved = mul(lag(skip, 2**skip - 1, r_0), A(ONE, u))
                weight = add(weight, mul(moved, sub(step, product(factors))))
            else:
                weight = mul(A(r_0, u), product(factors))
            weight = mul(weight, product([u[k] for k in range(h, len(u)) if o >> k & 1]))
            result = add(result, mul(power(sigma, e), mul(weight, value)))
            e += 1
    eta, delta = anchor_challenges(key, name, public, proof)
    at = product([add(ONE, mul(a, b)) for a, b in zip(eta, rho, strict=True)])
    for j in range(x.main.w):
        result = add(result, mul(power(sigma, e), mul(mul(power(delta, j), at), proof.stacked[j])))
    return result


# -- 9. WHIR ----------------------------------------------------------------------------------------------------------


def whir(key: Key, proof: Proof, t: Transcript, rho: list[Element]) -> None:
    x = proof.shape
    mu = t.extension("mu")
    batch = [power(mu, k) for k in range(x.main.w + x.fixed.w)]
    c = total([mul(weight, value) for weight, value in zip(batch, proof.stacked, strict=True)])
    terms: list[tuple[int, list[Element], Element]] = [(0, rho, ONE)]  # first variable, point, factor
    alphas: list[Element] = []
    trees = list(zip(proof.trees, proof.rows, proof.paths, strict=True))
    for i, round_ in enumerate(x.rounds):
        mine = []
        for h_1, h_2 in proof.folds[len(alphas) : len(alphas) + round_.k]:
            t.absorb_elements("sum", [h_1, h_2])
            mine.append(t.extension("alpha"))
            c = horner([sub(c, h_2), h_1, h_2], mine[-1])
        alphas += mine
        last = i == len(x.rounds) - 1
        z = ZERO
        if last:
            t.absorb_elements("final", proof.final)
        else:
            t.absorb_root("codeword", proof.roots[i])
            z = t.extension("sample")
            t.absorb_elements("value", [proof.samples[i]])
        need(t.works(t.seed(), proof.nonces[i], key.params["grinding_bits"]), "the proof of work")
        t.absorb("nonce", struct.pack("<Q", proof.nonces[i]))
        log_leaves = round_.domain - round_.k
        queries = t.indices("queries", round_.queries, log_leaves)
        (tree, _), rows, path = trees.pop(0)
        root = proof.root if i == 0 else proof.roots[i - 1]
        (opened,) = tree.opened(root, queries, [rows], path)
        fixed: dict[int, list[int]] = {}
        if i == 0 and x.fixed.w:
            (tree, _), rows, path = trees.pop(0)
            places = [j + u * 2**log_leaves for j in queries for u in range(2**round_.k)]
            (fixed,) = tree.opened(key.record["preprocessed_root"], places, [rows], path)
        answers = []
        for j in queries:
            row, leaf = opened[j], []
            for u in range(2**round_.k):
                if i == 0:
                    cells = row[u * x.main.w : (u + 1) * x.main.w]
                    if x.fixed.w:
                        cells = cells + fixed[(j + u * 2**log_leaves) % 2 ** (x.fixed.m + x.r)]
                    leaf.append(total([mul(weight, base(cell)) for weight, cell in zip(batch, cells, strict=True)]))
                else:
                    leaf.append(s.element(row[3 * u : 3 * u + 3]))
            answers.append(folded(leaf, j, round_.domain, mine))
        points = [base(pow(w(log_leaves), j, P)) for j in queries]
        if last:
            need(all(horner(proof.final, y) == v for y, v in zip(points, answers, strict=True)), "the final polynomial")
            break
        gamma, size = t.extension("gamma"), x.rounds[i + 1].m
        c = add(c, mul(gamma, proof.samples[i]))
        terms.append((len(alphas), pow_point(z, size), gamma))
        for k, (y, v) in enumerate(zip(points, answers, strict=True)):
            c = add(c, mul(power(gamma, k + 2), v))
            terms.append((len(alphas), pow_point(y, size), power(gamma, k + 2)))
    found = ZERO
    for first, point, factor in terms:
        done = len(alphas) - first
        for y, alpha in zip(point[:done], alphas[first:], strict=True):
            factor = mul(factor, add(ONE, mul(alpha, y)))
        rest = [
            mul(value, product([y for k, y in enumerate(point[done:]) if b >> k & 1]))
            for b, value in enumerate(proof.final)
        ]
        found = add(found, mul(factor, total(rest)))
    need(c == found, "the final sum")


def pow_point(z: Element, n: int) -> list[Element]:
    return [power(z, 2**i) for i in range(n)]


def folded(leaf: list[Element], j: int, log_domain: int, alphas: list[Element]) -> Element:
    for alpha in alphas:
        half, W = len(leaf) // 2, w(log_domain)
        new = []
        for u in range(half):
            y = pow(W, j + u * (2**log_domain // len(leaf)), P)
            even = mul(base(pow(2, -1, P)), add(leaf[u], leaf[u + half]))
            odd = mul(base(pow(2 * y, -1, P)), sub(leaf[u], leaf[u + half]))
            new.append(add(even, mul(alpha, odd)))
        leaf, log_domain = new, log_domain - 1
    return leaf[0]


# -- 6. The job -------------------------------------------------------------------------------------------------------


def job_challenge(key: Key, commitments: Sequence[Sequence[Any]], output: bytes | None) -> bytes:
    """From name, heights, public values, root and anchor of each partition."""
    if key.places:
        return readable_challenge(key, commitments, output)
    if any(scope == "global" for _, scope, _ in key.record["buses"]):
        return H(b"distprove multilinear job 1" + C([key.digest, len(commitments), [list(c) for c in commitments]]))
    return H(b"distprove multilinear list 1" + C([key.digest, len(commitments), [c[0] for c in commitments]]))


def readable_challenge(key: Key, commitments: Sequence[Sequence[Any]], output: bytes | None) -> bytes:
    if output is None:
        raise Refused("the output is not given")
    need(len(commitments) <= key.places, "more partitions than places")
    need(len(output) <= 32 and len(output) % 4 == 0, "an output that no contract reads")
    places = [[1, *segment_digest(key, *own)] for own in commitments]
    places += [[0] * 5] * (key.places - len(places))
    words = [word for place in places for word in place]
    t = s.Poseidon2Transcript(b"multilinear job")
    t.absorb("key", key.digest)
    t.absorb_words("segments", struct.pack(f"<{len(words)}Q", *words))
    read = [len(output), *struct.unpack("<8I", output.ljust(32, b"\0"))]
    t.absorb_words("output", struct.pack("<9Q", *read))
    drawn = t.words("job")
    return struct.pack("<4Q", *(next(drawn) for _ in range(4)))


def segment_digest(
    key: Key, name: str, heights: Sequence[int], public: Sequence[int], root: bytes, anchor: bytes
) -> list[int]:
    t = s.Poseidon2Transcript(b"multilinear segment")
    t.absorb("key", key.digest)
    t.absorb("name", name.encode())
    t.absorb("heights", bytes(heights))
    t.absorb_words("public", struct.pack(f"<{len(public)}Q", *public))
    t.absorb_words("main", root)
    t.absorb_words("anchor", anchor)
    words = t.words("segment")
    return [next(words) for _ in range(4)]


def verify_job(key_record: Any, partitions: Sequence[tuple[str, list[int], Any]], output: bytes | None = None) -> None:
    """Name, public values and proof of each partition. Raises Refused."""
    key = Key(key_record)
    need(len(partitions) > 0, "no partitions")
    names = [named(name) for name, _, _ in partitions]
    publics = [public for _, public, _ in partitions]
    need(len(set(names)) == len(names), "two partitions of one name")
    proofs = [Proof(key, record) for _, _, record in partitions]
    commitments = [
        [name, proof.heights, public, proof.root, proof.anchor_bytes]
        for name, public, proof in zip(names, publics, proofs, strict=True)
    ]
    challenge = job_challenge(key, commitments, output)
    need(all(proof.challenge == challenge for proof in proofs), "not a part of this job")
    for name, public, proof in zip(names, publics, proofs, strict=True):
        verify_partition(key, name, public, proof)
    left = total([mul(p.totals[-2], inverse(p.totals[-1])) for p in proofs if "global" in p.shape.scopes])
    check_job(key, publics, [p.heights for p in proofs], challenge, left, output)


def check_job(
    key: Key, publics: list[list[int]], heights: list[list[int]], challenge: bytes, left: Element, output: bytes | None
) -> None:
    """What a job needs beyond its partitions' own proofs, of which the global fractions have the sum `left`."""
    s.check_statement(key, publics)
    boundary = list(s.boundary_tuples(key, publics))
    received = list(s.output_tuples(key, publics, output))
    s.check_multiplicities(key, heights, boundary)
    for own in {tuple(h) for h in heights}:
        reached = security_bits(key, Shape(key, list(own)), heights)
        need(reached >= key.params["security_bits"], "too few bits over all partitions")
    z, beta = global_challenges(key, challenge)
    for number, values, times in boundary + received:
        f = add(z, base(number))
        for k, value in enumerate(values, 1):
            f = add(f, mul(power(beta, k), base(value)))
        left = add(left, mul(base(times), inverse(f)))
    need(left == ZERO, "the global buses do not balance")


# -- 11. Bits of security ---------------------------------------------------------------------------------------------


def security_bits(key: Key, x: Shape, partitions: list[list[int]]) -> float:
    field = 3 * math.log2(P)
    boundary = sum(len(partitions) if entry["where"] == "every" else 1 for entry in key.statement["boundary"])
    boundary += s.MOST_OUTPUT // 4 + 1 if "output" in key.statement else 0
    K = sum(len(t.constraints.outputs) for t in x.tables if t.constraints is not None)
    errors = [3, K + 1, max(1, x.d * (2**x.l - 1)), x.d + 1]
    buses = s.error_of_buses(key, "local", [x.given]), s.error_of_buses(key, "global", partitions, boundary)
    errors += [error for error in buses if error]
    collisions = math.log2(bn254.R) / 2 if key.bn254 else 128.0
    bits = [collisions, *(field - math.log2(e) for e in errors)]
    for i, round_ in enumerate(x.rounds):
        bits.append(max(_round_bits(key, x, i, round_, m, len(partitions)) for m in (None, *range(3, 1001))))
    return min(bits)


def _round_bits(key: Key, x: Shape, i: int, round_: Round, m: int | None, partitions: int) -> float:
    rho, field = 2.0 ** (round_.m - round_.domain), 3 * math.log2(P)
    theta = (1 - rho) / 2 if m is None else 1 - math.sqrt(rho) * (1 + 1 / (2 * m))
    L = 1.0 if m is None else (m + 0.5) / math.sqrt(rho)

    def gap(height: int) -> float:
        points = 2.0**height / rho
        if m is None:
            return points
        a = 2 * m + 0.5
        return (2 * a**5 + 3 * a * theta * rho) * points / (3 * rho * math.sqrt(rho)) + a / math.sqrt(rho)

    errors = []
    if i == 0:
        if L > 1 and x.main.w - 1 + x.main.m:
            errors.append(partitions * L * (L - 1) / 2 * (x.main.w - 1 + x.main.m))
        errors += [L * (x.openings + 1), 2 * L, (gap(round_.m) + L) * max(1, x.main.w + x.fixed.w - 1)]
    else:
        if L > 1:
            errors.append(L * (L - 1) / 2 * 2.0**round_.m)
        errors.append(L * (x.rounds[i - 1].queries + 1))
    if round_.k:
        errors.append(gap(round_.m - 1) + 3 * L)
    queries = -math.log2(1 - theta) * round_.queries + key.params["grinding_bits"]
    return min(queries, *(field - math.log2(e) for e in errors))
