"""file-root by its narrow tables: the same roots as a plain library's, and forged traces are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import UsageError
from distprove.stark.air import trace_air
from distprove.stark.air.bounds import unconfirmed
from distprove.stark.air.check import Example
from distprove.stark.example import program_example
from distprove.stark.program import Trace
from distprove.stark.programs.file_root import FileRoot
from distprove.stark.programs.file_root_narrow import (
    NarrowEdgeAir,
    NarrowHashAir,
    digest_of,
    digest_parts,
)
from distprove.stark.programs.file_root_tables import LEVELS, edge_columns, leaf_messages, node_messages
from distprove.stark.programs.keccak_slices import COLUMNS, PARTS, ROWS_EACH
from distprove.stark.proving_key import make_key
from kernels.cpu.backend import CpuBackend
from tests.stark.test_file_root import (
    BALANCE,
    RULES,
    Attacker,
    Forgery,
    Inputs,
    blocks,
    content,
    keccak256,
    plain_root,
    set_public,
)
from tests.stark.test_proofs import SMALL

PARAMS = replace(SMALL, log_blowup=2)
NAMES = list(NarrowHashAir.main)
AT = {name: sum(list(NarrowHashAir.main.values())[:i]) for i, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    with CpuBackend(2) as backend:
        yield backend


@pytest.fixture(scope="module")
def made(backend: CpuBackend, tmp_path_factory: pytest.TempPathFactory) -> Attacker:
    program = Forgery(layout="narrow")
    return Attacker(make_key(program, PARAMS, backend), program, tmp_path_factory.mktemp("narrow"))


@pytest.fixture(scope="module")
def example(backend: CpuBackend, tmp_path_factory: pytest.TempPathFactory) -> Example:
    file = tmp_path_factory.mktemp("example") / "file"
    file.write_bytes(content(200))
    return program_example(FileRoot(str(file), "narrow"), 1, backend)


def as_bytes(digests: list[bytes]) -> np.ndarray:
    """Digests as an array, (n, 32)."""
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)


def permutation(index: int) -> slice:
    return slice(ROWS_EACH * index, ROWS_EACH * (index + 1))


def test_parts_of_a_digest() -> None:
    digest = bytes(range(32))
    parts = digest_parts(np.frombuffer(digest, np.uint8).reshape(1, 32))[0]
    assert int(parts[0]) == int.from_bytes(bytes([0, 8, 16, 24]), "little")
    assert int(parts[5]) == int.from_bytes(bytes([5, 13, 21, 29]), "little")
    assert digest_of([int(part) for part in parts]) == digest


def test_multiplicities_are_bounded() -> None:
    layout = {"length": (0, 1), "leaves": (1, 1), "leaf_start": (2, 1), "leaf_end": (3, 1)}
    for air in (NarrowHashAir(), NarrowEdgeAir()):
        assert not unconfirmed(trace_air(air, layout))


def test_an_unknown_layout() -> None:
    with pytest.raises(UsageError, match="wide or narrow"):
        FileRoot(layout="thin")


@pytest.mark.parametrize(
    ("size", "partitions"), [(0, 1), (1, 1), (127, 1), (128, 1), (129, 2), (255, 1), (1415, 2), (1407, 3)]
)
def test_the_root_is_proven(made: Attacker, size: int, partitions: int) -> None:
    data = content(size)
    publics = made.submit(made.inputs(data, partitions))
    said = {"root": plain_root(data).hex(), "bytes": str(size), "chunks": str(max(1, -(-size // 128)))}
    assert FileRoot(layout="narrow").explain(publics, []) == said


@pytest.mark.parametrize("rest", range(0, 129, 8))
def test_wherever_the_padding_begins(rest: int, tmp_path: Path, made: Attacker, backend: CpuBackend) -> None:
    (tmp_path / "file").write_bytes(content(128 + rest + rest // 8 % 8))
    program = FileRoot(str(tmp_path / "file"), "narrow")
    program.compiled_as(made.program)
    assert program_example(program, 1, backend).check() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_is_changed(name: str, example: Example) -> None:
    """Each column is held where it is used: in the tail's first rows, and in a node's first and last."""
    honest = example.partitions[0].main[0]
    random = np.random.default_rng(0)
    rows = {"padded": ROWS_EACH + 1, "pad": ROWS_EACH + 1, "done": ROWS_EACH + 1, "lane": ROWS_EACH + 1}
    rows |= {"low": 2 * ROWS_EACH, "high": 2 * ROWS_EACH + 1}
    row, width = rows.get(name, 3 * ROWS_EACH - 2), {**COLUMNS, **NarrowHashAir.main}[name]
    at = AT[name] + int(random.integers(width))
    changed = honest.copy()
    changed[at, row] = 1 - changed[at, row] if changed[at, row] < 2 else changed[at, row] - 1
    partition = replace(example.partitions[0], main=[changed, *example.partitions[0].main[1:]])
    assert replace(example, partitions=[partition]).check()


# -- forged traces ----------------------------------------------------------------------------------------------------


def test_another_root(made: Attacker) -> None:
    parts = made.inputs(content(300))
    parts[0]["public"][0] ^= np.uint64(1)
    made.is_rejected(parts, BALANCE)


@pytest.mark.parametrize("part", range(8))
def test_one_part_of_a_digest(made: Attacker, part: int) -> None:
    """Each part of a digest is bound: by the row where it is made, and by the bus."""
    parts = made.inputs(content(256))
    parts[0]["digests"] = parts[0]["digests"].copy()
    parts[0]["digests"][part, 0] ^= np.uint64(1)
    made.is_rejected(parts, f"{RULES} hash")

    parts = made.inputs(content(256))
    messages = node_messages(np.frombuffer(content(64), np.uint8).reshape(1, 64))
    given = blocks(messages)
    parts[0]["messages"] = np.concatenate((parts[0]["messages"][:, :2], given), axis=1)
    root = keccak256(messages[0, :65].tobytes())
    parts[0]["digests"][:, 2] = digest_parts(np.frombuffer(root, np.uint8).reshape(1, 32))[0]
    parts[0]["edge"] = edge_columns(2, digest_parts(as_bytes([bytes(32), *[root] * (LEVELS - 1)])))
    parts[0]["public"][:8] = parts[0]["digests"][:, 2]
    made.is_rejected(parts, BALANCE)


def test_another_length(made: Attacker) -> None:
    parts = made.inputs(content(300))
    set_public(parts, length=301)
    made.is_rejected(parts, f"{RULES} hash")


def no_tail(trace: Trace) -> None:
    table = trace.main[0]
    for name in ("tail", "begin_tail", "lane", "padded", "pad", "done"):
        table[AT[name] : AT[name] + NarrowHashAir.main[name]] = 0


def test_the_length_left_unproven(made: Attacker) -> None:
    parts = made.inputs(content(300))
    set_public(parts, length=301)
    made.is_rejected(parts, f"{RULES} hash", no_tail)  # a short leaf that is not the tail
    parts = made.inputs(content(256))
    set_public(parts, length=255)
    made.is_rejected(parts, BALANCE, no_tail)


def padding_at(part: Inputs, index: int, place: int) -> Callable[[Trace], None]:
    """Claim that the padding of the message of a permutation begins at this byte."""

    def tamper(trace: Trace) -> None:
        no_tail(trace)
        table, first = trace.main[0], ROWS_EACH * index
        message = np.ascontiguousarray(part["messages"][:, index]).view(np.uint8).copy()
        message[-1] -= 0x80
        lane, row = place // 8, first + place % 8 // 2
        table[AT["tail"], permutation(index)] = 1
        table[AT["begin_tail"], first : first + PARTS] = 1
        table[AT["lane"] + lane, permutation(index)] = 1
        table[AT["pad"] + place % 2, row] = 1
        table[AT["padded"] : AT["padded"] + 2, first : first + PARTS] = message[8 * lane :][:8].reshape(PARTS, 2).T
        table[AT["done"], row + 1 : first + PARTS] = 1

    return tamper


def test_what_padding_is_claimed_with(made: Attacker) -> None:
    """The same claims as below, where they are true."""
    parts = made.inputs(content(300))
    made.submit(parts, padding_at(parts[0], 2, 45))


@pytest.mark.parametrize(("place", "length"), [(128, 127), (8, 7), (120, 119)])
def test_the_padding_read_elsewhere(made: Attacker, place: int, length: int) -> None:
    """A chunk with the byte 0x01 in it does not end there."""
    data = bytearray(content(128))
    data[place - 1] = 1
    parts = made.inputs(bytes(data))
    set_public(parts, length=length)
    made.is_rejected(parts, f"{RULES} hash", padding_at(parts[0], 0, place))


def test_the_padding_of_no_leaf(made: Attacker) -> None:
    """The length is not read where no leaf begins: in a node, or in a leaf that is not the last."""
    for index in (0, 2):
        parts = made.inputs(content(256))
        made.is_rejected(parts, f"{RULES} hash", padding_at(parts[0], index, 129 if index == 0 else 65))


def test_an_empty_last_chunk(made: Attacker) -> None:
    """128 bytes are one chunk, not a full and an empty one."""
    data = content(128)
    part = made.inputs(data + b"x")[0]
    leaves = [keccak256(b"\x00" + data), keccak256(b"\x00")]
    root = keccak256(b"\x01" + b"".join(leaves))
    node = node_messages(np.frombuffer(b"".join(leaves), np.uint8).reshape(1, 64))
    part["messages"] = blocks(np.concatenate((leaf_messages(data), leaf_messages(b""), node)))
    digests = np.frombuffer(b"".join([*leaves, root]), np.uint8).reshape(3, 32)
    part["digests"] = np.ascontiguousarray(digest_parts(digests).T)
    part["edge"] = edge_columns(2, digest_parts(as_bytes([leaves[1], *[root] * (LEVELS - 1)])))
    part["public"][:8] = part["digests"][:, 2]
    set_public([part], length=128)
    made.is_rejected([part], f"{RULES} hash")


def test_a_repeated_leaf(made: Attacker) -> None:
    """[a, b, c, c] is not the tree of [a, b, c]: all rules hold, but leaves 0 to 3 are not three."""
    data = content(3 * 128)
    parts = made.inputs(data + data[-128:])
    part = parts[0]
    part["edge"][:2] = edge_columns(3, None)[:2]
    part["edge"][2, 0] = 0
    set_public(parts, leaves=3, length=len(data))
    made.is_rejected(parts, BALANCE, padding_at(part, 2, 129))

    def count_three(trace: Trace) -> None:
        padding_at(part, 2, 129)(trace)
        trace.public = (*trace.public[:-1], 3)

    made.is_rejected(parts, f"{RULES} hash", count_three)


def test_a_part_of_another_file(made: Attacker) -> None:
    one, other = made.inputs(content(512), 2), made.inputs(content(511) + b"x", 2)
    other[1]["public"] = one[1]["public"]
    made.is_rejected([one[0], other[1]], BALANCE)


def test_an_unused_node(made: Attacker) -> None:
    """A node beside the tree has nowhere to send to, even where its children exist."""
    part = made.inputs(content(200))[0]
    for name in ("messages", "digests", "places"):
        part[name] = np.concatenate((part[name], part[name][:, -1:]), axis=1)
    made.is_rejected([part], BALANCE)


def test_bits_changed_on_their_way(made: Attacker) -> None:
    """All rows of a permutation follow the rules, but those from some stage on are of another one."""
    parts = made.inputs(content(200))

    def tamper(trace: Trace) -> None:
        table, rounds = trace.main[0], slice(0, AT["stamp"])
        table[rounds, ROWS_EACH + 40 : 2 * ROWS_EACH] = table[rounds, 40:ROWS_EACH]
        moved = slice(AT["moved"], AT["sends"])
        table[moved, ROWS_EACH + 40 : 2 * ROWS_EACH] = table[moved, 40:ROWS_EACH]
        low, high = AT["low"], AT["high"]
        for column in (low, high):
            table[column, 2 * ROWS_EACH - PARTS : 2 * ROWS_EACH] = table[column, ROWS_EACH - PARTS : ROWS_EACH]

    made.is_rejected(parts, "local buses", tamper)
