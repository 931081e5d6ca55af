"""A second verifier of a tree's root, written from docs/recursion.md: plain integers, one partition after the other.

The root's own proof, and what ends a job, are those of `second_multilinear_verifier`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from tests.support import second_multilinear_verifier as m
from tests.support.second_verifier import C, H, P, elements, integer, listed, named, need, octets

Listed = tuple[str, list[int], list[int], bytes, bytes]
"""Name, heights, public values, root and anchor of a partition."""


def verify_root(
    root_key_record: Any,
    record: Any,
    total: Sequence[int],
    key_record: Any,
    partitions: Sequence[Listed],
    output: bytes | None = None,
) -> None:
    """Raise Refused, and nothing else, unless the root shows that these partitions are a job under the key."""
    root_key, key = m.Key(root_key_record), m.Key(key_record)
    need(len(partitions) > 0, "no partitions")
    names = [named(name) for name, *_ in partitions]
    need(len(set(names)) == len(names), "two partitions of one name")
    digest = [0, 0, 0, 0]
    for name, heights, public, root, anchor in partitions:
        need(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}", name) is not None, "not a partition's name")
        need(len(public) == key.public_values, "public values of another number")
        for value in public:
            integer(value, 0, P - 1)
        m.Shape(key, heights)
        elements(anchor, 1)
        for word in struct.unpack("<4Q", octets(root, 32)):
            integer(word, 0, P - 1)
        t = m.new(root_key, b"multilinear chain")
        t.absorb("key", key.digest)
        t.absorb_words("before", struct.pack("<4Q", *digest))
        t.absorb("name", name.encode())
        t.absorb("heights", bytes(heights))
        t.absorb_words("public", struct.pack(f"<{len(public)}Q", *public))
        t.absorb_words("main", root)
        t.absorb_words("anchor", anchor)
        words = t.words("after")
        digest = [next(words) for _ in range(4)]
    if any(scope == "global" for _, scope, _ in key_record["buses"]):
        challenge = H(b"distprove multilinear job 1" + C([key.digest, len(partitions), [list(p) for p in partitions]]))
    else:
        challenge = H(b"distprove multilinear list 1" + C([key.digest, len(partitions), names]))
    proof = m.Proof(root_key, record)
    need(proof.challenge == bytes(32), "a node with a job of its own")
    a, b, c = (integer(value, 0, P - 1) for value in listed(list(total), 3))
    stated = [*struct.unpack("<8I", challenge), 0, 0, 0, 0, *digest, a, b, c]
    m.verify_partition(root_key, "node", stated, proof)
    publics, heights_of = [p[2] for p in partitions], [p[1] for p in partitions]
    m.check_job(key, publics, heights_of, challenge, (a, b, c), output)
