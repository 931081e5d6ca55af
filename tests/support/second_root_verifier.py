"""A second verifier of a tree's root, written from docs/recursion.md: plain integers, one partition after the other.

The root's own proof, and what ends a job, are those of `second_multilinear_verifier`.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support import second_multilinear_verifier as m
from tests.support.second_verifier import P, elements, integer, listed, named, need, octets

Listed = tuple[str, list[int], list[int], bytes, bytes]
"""Name, heights, public values, root and anchor of a partition."""


def verify_root(
    root_key_record: Any,
    node_key_record: Any,
    leaf_key_records: Sequence[Any],
    record: Any,
    total: Sequence[int],
    key_record: Any,
    partitions: Sequence[Listed],
    output: bytes | None = None,
) -> None:
    """Raise Refused, and nothing else, unless the root shows that these partitions are a job under the key. There is a
    key for each leaf."""
    job = JobKeys(root_key_record, node_key_record, leaf_key_records, key_record)
    stated = stated_by(job, total, partitions, output)
    verify_proof(m.Key(root_key_record), record, stated)
    check_job(job, stated, partitions, output)


def verify_jobs(
    root_key_record: Any,
    node_key_record: Any,
    leaf_key_records: Sequence[Any],
    record: Any,
    jobs: Sequence[tuple[JobKeys, Sequence[int], Sequence[Listed], bytes | None]],
) -> None:
    """Raise Refused, and nothing else, unless `record` shows that each of these is a job: its keys, sum, partitions and
    output. There is a key for each leaf over jobs."""
    root_key = m.Key(root_key_record)
    node_key, *leaf_keys = (identity(each) for each in (node_key_record, *leaf_key_records))
    need(2 <= len(jobs) <= 64, "not so many jobs")
    stated = [stated_by(*own) for own in jobs]
    words = [[*identity(keys.root), *own] for (keys, *_), own in zip(jobs, stated, strict=True)]
    need(len(set(map(tuple, words))) == len(words), "a job twice")
    groups = in_fours(words)
    need(len(groups) == len(leaf_keys), "a key for each leaf")
    lists = [list_of(root_key, group, 4, b"multilinear jobs") for group in groups]
    digest = list_above(root_key, lists, leaf_keys, node_key)
    verify_proof(root_key, record, [*[0] * 8, *digest, 0, 0, 0, *node_key])
    for (keys, _, partitions, output), own in zip(jobs, stated, strict=True):
        check_job(keys, own, partitions, output)


@dataclass(frozen=True)
class JobKeys:
    """The records of the keys of a job and its tree: a key for each leaf."""

    root: Any
    node: Any
    leaves: Sequence[Any]
    partitions: Any


def stated_by(job: JobKeys, total: Sequence[int], partitions: Sequence[Listed], output: bytes | None) -> list[int]:
    """The public values that the root of a job's tree must have."""
    root_key, key = m.Key(job.root), m.Key(job.partitions)
    node_key, *leaf_keys = (identity(each) for each in (job.node, *job.leaves))
    need(len(partitions) > 0, "no partitions")
    names = [named(name) for name, *_ in partitions]
    need(len(set(names)) == len(names), "two partitions of one name")
    digests: list[list[int]] = []
    for name, heights, public, root, anchor in partitions:
        need(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}", name) is not None, "not a partition's name")
        need(len(public) == key.public_values, "public values of another number")
        for value in public:
            integer(value, 0, P - 1)
        m.Shape(key, heights)
        elements(anchor, 1)
        for word in struct.unpack("<4Q", octets(root, 32)):
            integer(word, 0, P - 1)
        digests.append(m.segment_digest(key, name, heights, public, root, anchor))
    groups = [[digests[i] for i in leaf] for leaf in below_leaves([(tuple(own[1]), len(own[0])) for own in partitions])]
    need(len(groups) == len(leaf_keys), "a key for each leaf")
    digest = list_above(root_key, [list_of(root_key, group, 4) for group in groups], leaf_keys, node_key)
    challenge = m.job_challenge(key, partitions, output)
    a, b, c = (integer(value, 0, P - 1) for value in listed(list(total), 3))
    return [*struct.unpack("<8I", challenge), *digest, a, b, c, *node_key]


def verify_proof(root_key: m.Key, record: Any, stated: list[int]) -> None:
    """Raise Refused unless this is the proof of a root of these public values."""
    proof = m.Proof(root_key, record)
    need(proof.challenge == bytes(32), "a node with a job of its own")
    m.verify_partition(root_key, "node", stated, proof)


def check_job(job: JobKeys, stated: list[int], partitions: Sequence[Listed], output: bytes | None) -> None:
    """Raise Refused unless partitions, of which a root states this, are a job."""
    publics, heights_of = [p[2] for p in partitions], [p[1] for p in partitions]
    a, b, c = stated[12:15]
    m.check_job(m.Key(job.partitions), publics, heights_of, struct.pack("<8I", *stated[:8]), (a, b, c), output)


def list_above(
    hashed: m.Key, lists: Sequence[list[int]], leaf_keys: Sequence[list[int]], node_key: list[int]
) -> list[int]:
    """The digest that a root states, above leaves that state these lists."""
    level = [[0, *own, *key] for own, key in zip(lists, leaf_keys, strict=True)]
    while len(level) > 1:
        level = [[1, *list_of(hashed, group, 4), *node_key] for group in in_fours(level)]
    return list_of(hashed, level, 1)


def identity(key_record: Any) -> list[int]:
    """The 12 scalars of a key of nodes."""
    root = struct.unpack("<4Q", octets(key_record["preprocessed_root"], 32))
    return [*struct.unpack("<8I", m.Key(key_record).digest), *(integer(word, 0, P - 1) for word in root)]


def below_leaves(forms: Sequence[tuple[tuple[int, ...], int]]) -> list[list[int]]:
    """The places of the partitions below each leaf, by the heights and the length of the name of each partition."""
    often = [i for i, form in enumerate(forms) if forms.count(form) >= 4]
    leaves: list[list[int]] = []
    open_leaf: dict[Any, list[int]] = {}
    for i, form in enumerate(forms):
        own = form if i in often else None
        if len(open_leaf.get(own, ())) in (0, 4):
            open_leaf[own] = []
            leaves.append(open_leaf[own])
        open_leaf[own].append(i)
    return leaves


def in_fours(items: list[list[int]]) -> list[list[list[int]]]:
    return [items[i : i + 4] for i in range(0, len(items), 4)]


def list_of(hashed: m.Key, children: list[list[int]], room: int, purpose: bytes = b"multilinear list") -> list[int]:
    """The digest of a node's children, under the hash of a key."""
    words = [word for child in children for word in (1, *child)]
    words += [0] * ((room - len(children)) * (1 + len(children[0])))
    t = m.new(hashed, purpose)
    t.absorb_words("children", struct.pack(f"<{len(words)}Q", *words))
    drawn = t.words("list")
    return [next(drawn) for _ in range(4)]


def circuit_digest(key_record: Any, node_record: Any, name_length: int) -> bytes:
    """The digest of the circuit that a contract reads, for jobs under a key in trees with this key of nodes."""
    statement = dict(key_record["statement"])
    constants = [[name, [0] * len(values), where] for name, values, where in statement.get("constants", [])]
    node, any_node = m.Key(node_record), {**node_record, "preprocessed_root": b""}
    told = [
        m.H(b"distprove multilinear key" + m.C(any_node)),
        *(node.digest, node_record["preprocessed_root"]),
        {**statement, "constants": constants},
        [[name, number] for number, (name, *_) in enumerate(key_record["buses"], start=1)],
        *(len(key_record["tables"]), name_length, key_record["params"]["places"]),
    ]
    return hashlib.sha256(m.C(["distprove/stark contract circuit/1", told])).digest()


def program_digest(
    key_record: Any, heights: Sequence[int], leaf: Sequence[int], node_record: Any, name_length: int
) -> list[int]:
    """The digest of a program that a contract reads: of its circuit, of its segments' key and heights, and of the 12
    scalars of the key of leaves."""
    key, circuit = m.Key(key_record), circuit_digest(key_record, node_record, name_length)
    constants = [value for _, values, _ in key_record["statement"].get("constants", []) for value in values]
    t = m.new(key, b"multilinear program")
    t.absorb("circuit", circuit)
    t.absorb("key", key.digest)
    t.absorb("heights", bytes(heights))
    t.absorb_words("leaf", struct.pack("<12Q", *leaf))
    t.absorb_words("constants", struct.pack(f"<{len(constants)}Q", *constants))
    words = t.words("program")
    return [next(words) for _ in range(4)]
