"""Roots of keys of nodes and roots that ship as data: `shipped_roots.json`, which `recursion.ship` writes.

A root follows from the preprocessed columns and the parameters. Both are in the digest under which it ships, so a root
is never taken for other columns: if the code that records circuits changes, they are committed to again. What ships is
as trusted as this package's code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from distprove.formats import canonical
from distprove.stark.multilinear.params import Parameters
from distprove.stark.recursion.program import CircuitProgram

FILE = Path(__file__).with_name("shipped_roots.json")
KEYS = ("node", "root", "wrap")
"""The keys of a tree that ship: they depend on its frame and bits alone. The last one is that of a second root."""


CONTRACT = "contract"
"""The key of a second root that a contract reads, of trees over segments of a RISC-V guest: it depends on the
machine's statement, too, and on no guest."""


def shipped_root(program: CircuitProgram, params: Parameters) -> bytes | None:
    """The root of a program's preprocessed columns under these parameters, if it ships."""
    return _roots().get(content_of(program, params))


def content_of(program: CircuitProgram, params: Parameters) -> bytes:
    """The digest of all that the root of the preprocessed columns follows from, 32 bytes."""
    columns = [program.preprocessed()[table.name] for table in program.tables]
    told = ["distprove node columns/1", params.to_record(), [list(each.shape) for each in columns]]
    hashed = hashlib.sha256(canonical.encode(told))
    for each in columns:
        hashed.update(each.astype("<u8", order="C", copy=False).data)
    return hashed.digest()


def shipped_trees() -> list[dict[str, Any]]:
    """The content of the file: for each tree its name, bits, grinding and frame, and for its keys of `KEYS`, and
    perhaps `CONTRACT`, the digest of the content and the root, as hexadecimal digits. A tree that was added has neither
    yet."""
    trees: list[dict[str, Any]] = json.loads(FILE.read_bytes())
    return trees


@cache
def _roots() -> Mapping[bytes, bytes]:
    found = [tree[name] for tree in shipped_trees() for name in (*KEYS, CONTRACT) if name in tree]
    return {bytes.fromhex(each["content"]): bytes.fromhex(each["root"]) for each in found}
