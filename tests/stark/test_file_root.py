"""file-root: the root is what a plain Keccak library says, partitions meet, and forged traces are rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from Crypto.Hash import keccak

from distprove.errors import InputError, InvalidProof, UsageError
from distprove.stark.barrier import job_challenge
from distprove.stark.example import program_example
from distprove.stark.program import Cut, Fits, Trace
from distprove.stark.programs.file_root import FileRoot
from distprove.stark.programs.file_root_layouts import WideLayout
from distprove.stark.programs.file_root_tables import (
    LEVELS,
    TAIL_WORDS,
    edge_columns,
    leaf_messages,
    node_messages,
    tail_columns,
)
from distprove.stark.programs.file_tree import FileTree
from distprove.stark.programs.keccak_rounds import ROUNDS, WIDTH, rows_for
from distprove.stark.prover import commit, prove
from distprove.stark.proving_key import ProvingKey, make_key
from distprove.steps import Steps
from kernels.cpu.backend import CpuBackend
from tests.stark.test_proofs import SMALL, check

LEAF, NODE, _, _, BEGIN_TAIL = range(WIDTH, WIDTH + 5)
CARRIED = WIDTH + 8
Inputs = dict[str, np.ndarray]


def keccak256(data: bytes) -> bytes:
    return keccak.new(data=data, digest_bits=256).digest()


def plain_root(data: bytes) -> bytes:
    """RFC 6962's MTH, as the text there has it."""

    def mth(chunks: list[bytes]) -> bytes:
        if len(chunks) == 1:
            return keccak256(b"\x00" + chunks[0])
        k = 1 << (len(chunks) - 1).bit_length() - 1
        return keccak256(b"\x01" + mth(chunks[:k]) + mth(chunks[k:]))

    return mth([data[i : i + 128] for i in range(0, len(data), 128)] or [b""])


def content(size: int) -> bytes:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    with CpuBackend(2) as backend:
        yield backend


# -- honest jobs ------------------------------------------------------------------------------------------------------


def test_a_verifier_needs_no_file(path: Path, backend: CpuBackend) -> None:
    path.write_bytes(b"x")
    with_file, without = (make_key(p, SMALL, backend).key for p in (FileRoot(str(path)), FileRoot()))
    assert with_file.digest == without.digest
    with pytest.raises(UsageError, match="needs the argument file"):
        FileRoot().slices(1)


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 31])
def test_every_shape_balances(path: Path, partitions: int) -> None:
    """What all partitions send and receive, hashed by a plain library: only the root is left, on its level."""
    for chunks in [*range(partitions, 20), 31, 32, 33, 150, 259]:
        data = content(128 * chunks - chunks % 3)
        path.write_bytes(data)
        program = FileRoot(str(path))
        bus: Counter[tuple[int, int, bytes]] = Counter()
        seen = []
        for part, heights in zip(program.slices(partitions), program.log_heights(partitions), strict=True):
            inputs = program.inputs(part.source)
            columns = (rows_for(inputs["messages"].shape[1]), inputs["edge"].shape[1], inputs["tail"].shape[1])
            assert tuple(1 << h for h in heights) == columns
            messages = inputs["messages"].T.astype("<u8").copy().view(np.uint8)
            nodes = len(messages) - (part.source["stop"] - part.source["start"])
            assert nodes == part.source["stop"] - max(part.source["start"], 1), "as many as leaves in every partition"
            for message, (level, index) in zip(messages, inputs["places"].T.tolist(), strict=True):
                text = message.tobytes().rstrip(b"\x80").rstrip(b"\x00")[:-1]
                bus[level, index, keccak256(text)] += 1
                if level:
                    bus[level - 1, 2 * index, text[1:33]] -= 1
                    bus[level - 1, 2 * index + 1, text[33:]] -= 1
                else:
                    seen.append(index)
            nodes, _, active, *words = inputs["edge"].tolist()
            for level in np.flatnonzero(active).tolist():
                digest = np.array([w[level] for w in words], dtype="<u4").tobytes()
                bus[level, nodes[level] - 1, digest] -= 1
                bus[level + 1, (nodes[level] - 1) // 2, digest] += 1
        assert {k: v for k, v in bus.items() if v} == {(LEVELS, 0, plain_root(data)): 1}, chunks
        assert seen == list(range(chunks))


class Levelled(FileRoot):
    """Cuts itself as for a job that ends in one proof."""

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        return self.levelled(super().cut(partitions, fits))


@pytest.mark.parametrize("layout", ["wide", "narrow"])
def test_a_job_of_one_proof_has_partitions_of_one_height(path: Path, backend: CpuBackend, layout: str) -> None:
    """Each four heights that come together took a key of their own: nine for a hundred partitions."""
    path.write_bytes(content(1500))
    own, program = FileRoot(str(path), layout), Levelled(str(path), layout)
    made = program.cut(5, lambda heights: True)
    before = {tuple(heights) for heights in own.log_heights(5)}
    assert len(before) > 1
    assert made.log_heights is not None
    assert {*made.log_heights} == {max(before)}
    example = program_example(program, 5, backend)
    assert {partition.main[0].shape[1] for partition in example.partitions} == {1 << max(before)[0]}
    assert example.check() == []


@pytest.mark.parametrize("level", [0, 1, 3, 14])
def test_the_plain_tree(path: Path, level: int) -> None:
    for chunks in (1, 2, 5, 8, 21):
        data = content(128 * chunks - 5)
        path.write_bytes(data)
        assert FileTree(path, level).root == plain_root(data)


def test_parts_are_of_one_size(path: Path) -> None:
    path.write_bytes(bytes(128 * 1000))
    sizes = [s.source["stop"] - s.source["start"] for s in FileRoot(str(path)).slices(3)]
    assert sum(sizes) == 1000
    assert max(sizes) <= 1.07 * min(sizes)


# -- bad files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["truncated", "longer", "other bytes", "gone"])
def test_a_file_that_changes(path: Path, change: str) -> None:
    data = content(5000)
    path.write_bytes(data)
    program = FileRoot(str(path))
    part = program.slices(2)[1]
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes({"truncated": data[:-1], "longer": data + b"x", "other bytes": data[:-1] + b"x"}[change])
    with pytest.raises(InputError, match="file"):
        program.inputs(part.source)


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular file"):
        FileRoot(str(tmp_path)).slices(1)
    with pytest.raises(InputError, match="no such file"):
        FileRoot(str(tmp_path / "nothing")).slices(1)


def test_more_partitions_than_chunks(path: Path) -> None:
    path.write_bytes(bytes(129))
    with pytest.raises(UsageError, match="2 chunks"):
        FileRoot(str(path)).slices(3)


# -- forged traces ----------------------------------------------------------------------------------------------------


class Forgery(FileRoot):
    """The program with its trace in the hands of an attacker."""

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        trace = super().trace(inputs, backend)
        self.tamper(trace)
        return trace

    tamper: Callable[[Trace], None] = staticmethod(lambda trace: None)


@dataclass
class Attacker:
    """Proves whatever inputs it is given, with the honest key, and asks the verifier."""

    pk: ProvingKey
    program: Forgery
    folder: Path

    def inputs(self, data: bytes, partitions: int = 1) -> list[Inputs]:
        path = self.folder / "file"
        path.write_bytes(data)
        self.program.file = str(path)
        self.program.tamper = lambda trace: None  # type: ignore[method-assign]
        return [self.program.inputs(s.source) for s in self.program.slices(partitions)]

    def is_rejected(self, parts: list[Inputs], match: str, tamper: Callable[[Trace], None] | None = None) -> None:
        with pytest.raises(InvalidProof, match=match):
            self.submit(parts, tamper)

    def submit(self, parts: list[Inputs], tamper: Callable[[Trace], None] | None = None) -> list[tuple[int, ...]]:
        """The public values of a job that verifies."""
        if tamper is not None:
            self.program.tamper = tamper  # type: ignore[method-assign]
        names = [f"part-{i}" for i in range(len(parts))]
        committed = [commit(self.pk, n, p, Steps()) for n, p in zip(names, parts, strict=True)]
        challenge = job_challenge(self.pk.key.digest, [c.commitment for c in committed])
        proofs = [prove(self.pk, c, challenge, Steps()) for c in committed]
        publics = [c.commitment.public for c in committed]
        check(self.pk.key, names, publics, proofs)
        return publics


@pytest.fixture(scope="module")
def made(backend: CpuBackend, tmp_path_factory: pytest.TempPathFactory) -> Attacker:
    program = Forgery()
    return Attacker(make_key(program, SMALL, backend), program, tmp_path_factory.mktemp("forged"))


def blocks(messages: np.ndarray) -> np.ndarray:
    """Padded messages as `FileRoot.trace` takes them."""
    return np.ascontiguousarray(messages.view("<u8").astype(np.uint64).T)


def set_public(parts: list[Inputs], **values: int) -> None:
    where = {"length": 8, "leaves": 9, "start": 10, "stop": 11}
    for part in parts:
        part["public"] = part["public"].copy()
        for name, value in values.items():
            part["public"][where[name]] = value


BALANCE = "global buses do not balance"
RULES = "constraints of table"


@pytest.mark.parametrize(("size", "partitions"), [(0, 1), (1, 1), (128, 1), (129, 2), (1415, 1), (1415, 2), (1415, 4)])
def test_the_root_is_proven(made: Attacker, size: int, partitions: int) -> None:
    """Nothing forged: what the attacks below start from verifies, and says what a plain library says."""
    data = content(size)
    publics = made.submit(made.inputs(data, partitions))
    said = {"root": plain_root(data).hex(), "bytes": str(size), "chunks": str(max(1, -(-size // 128)))}
    assert FileRoot().explain(publics, []) == said


def test_another_root(made: Attacker) -> None:
    parts = made.inputs(content(300))
    parts[0]["public"][0] ^= np.uint64(1)
    made.is_rejected(parts, BALANCE)


def test_another_length(made: Attacker) -> None:
    parts = made.inputs(content(300))
    set_public(parts, length=301)
    made.is_rejected(parts, f"{RULES} tail")


def test_the_length_left_unproven(made: Attacker) -> None:
    """Without `tail`, whose row would show the length, its sum on the bus is missing."""
    parts = made.inputs(content(300))
    set_public(parts, length=301)
    parts[0]["tail"] = tail_columns(leaf_messages(b"")[0], False)

    def tamper(trace: Trace) -> None:
        table = trace.main[0]
        table[CARRIED:, table[BEGIN_TAIL] == 1] = 0
        table[BEGIN_TAIL] = 0

    # A short leaf that is not the tail breaks the rule that others are full.
    made.is_rejected(parts, f"{RULES} hash", tamper)
    parts = made.inputs(content(256))
    set_public(parts, length=255)
    parts[0]["tail"] = tail_columns(leaf_messages(b"")[0], False)
    made.is_rejected(parts, BALANCE, tamper)


def test_the_padding_read_elsewhere(made: Attacker) -> None:
    """A chunk that ends with 0x01 is not one byte shorter."""
    data = content(127) + b"\x01"
    parts = made.inputs(data)
    shorter = leaf_messages(data)[0].copy()
    forged = tail_columns(shorter, True)
    pads = forged[TAIL_WORDS + 32 : TAIL_WORDS + 36]
    pads[:] = 0
    pads[128 % 4, 128 // 4] = 1
    forged[-3], forged[-2] = np.arange(64) > 32, np.minimum(4 * np.arange(64), 128)
    parts[0]["tail"] = forged
    set_public(parts, length=127)
    made.is_rejected(parts, f"{RULES} tail")


def test_an_empty_last_chunk(made: Attacker) -> None:
    """128 bytes are one chunk, not a full and an empty one."""
    data = content(128)
    parts = made.inputs(data + b"x")
    messages = np.concatenate((leaf_messages(data), leaf_messages(b"")))
    leaves = [keccak256(b"\x00" + data), keccak256(b"\x00")]
    node = node_messages(np.frombuffer(b"".join(leaves), np.uint8).reshape(1, 64))
    root = keccak256(b"\x01" + b"".join(leaves))
    part = parts[0]
    part["messages"] = blocks(np.concatenate((messages, node)))
    edge = np.frombuffer(leaves[1] + root * (LEVELS - 1), np.uint8).reshape(-1, 32)
    part["edge"] = edge_columns(2, WideLayout().parts(edge))
    part["tail"] = tail_columns(leaf_messages(b"")[0], True)
    part["public"][:8] = np.frombuffer(root, dtype="<u4")
    set_public(parts, length=128)
    made.is_rejected(parts, f"{RULES} tail")


def test_a_repeated_leaf(made: Attacker) -> None:
    """[a, b, c, c] is not the tree of [a, b, c]: all rules hold, but leaves 0 to 3 are not three."""
    data = content(3 * 128)
    parts = made.inputs(data + data[-128:])
    part = parts[0]
    part["edge"][:2] = edge_columns(3, None)[:2]
    part["edge"][2, 0] = 0
    set_public(parts, leaves=3, length=len(data))

    def tamper(trace: Trace) -> None:
        table, words = trace.main[0], np.ascontiguousarray(part["messages"][:, 2]).view("<u4")
        table[BEGIN_TAIL, 2 * ROUNDS] = 1
        table[CARRIED:, 2 * ROUNDS] = words[:TAIL_WORDS]

    made.is_rejected(parts, BALANCE, tamper)

    def count_three(trace: Trace) -> None:
        tamper(trace)
        trace.public = (*trace.public[:-1], 3)

    made.is_rejected(parts, f"{RULES} hash", count_three)


def test_a_leaf_left_out(made: Attacker) -> None:
    """The root of [a, b, c] is not one of four leaves: there is no leaf 3 to end the file."""
    parts = made.inputs(content(3 * 128))
    set_public(parts, leaves=4, length=512)
    parts[0]["edge"][:2] = edge_columns(4, None)[:2]
    made.is_rejected(parts, "local buses")


def test_a_node_with_a_sibling_is_not_passed_up(made: Attacker) -> None:
    parts = made.inputs(content(4 * 128))
    parts[0]["edge"][2, 0] = 1
    made.is_rejected(parts, f"{RULES} edge")


def test_a_part_of_another_file(made: Attacker) -> None:
    one, other = made.inputs(content(512), 2), made.inputs(content(511) + b"x", 2)
    other[1]["public"] = one[1]["public"]
    made.is_rejected([one[0], other[1]], BALANCE)


def test_parts_in_another_order(made: Attacker) -> None:
    parts = made.inputs(content(512), 2)
    made.is_rejected(parts[::-1], "leaf_start of partition 1")
    made.is_rejected(parts[1:], BALANCE)
    made.is_rejected(parts[:1], BALANCE)


@pytest.mark.parametrize("column", [LEAF, NODE, BEGIN_TAIL])
def test_padding_takes_no_part(made: Attacker, column: int) -> None:
    """A multiplicity that is not zero on a row beyond the last permutation, whole or cut off."""
    parts = made.inputs(content(3 * 128))
    used = parts[0]["messages"].shape[1]
    rows = slice(24 * used, None) if column != BEGIN_TAIL else slice(24 * used, 24 * used + 1)

    def tamper(trace: Trace) -> None:
        trace.main[0][column, rows] = 1

    made.is_rejected(parts, f"{RULES} hash|local buses", tamper)


def test_an_unused_node(made: Attacker) -> None:
    """A node beside the tree has nowhere to send to, even where its children exist."""
    parts = made.inputs(content(256))
    part = parts[0]
    part["messages"] = np.concatenate((part["messages"], part["messages"][:, -1:]), axis=1)
    part["places"] = np.concatenate((part["places"], part["places"][:, -1:]), axis=1)
    made.is_rejected(parts, BALANCE)


def test_a_cut_off_permutation_cannot_receive(made: Attacker) -> None:
    """It would take digests away and send none."""
    parts = made.inputs(content(256))
    begin = 24 * (128 // ROUNDS)

    def tamper(trace: Trace) -> None:
        trace.main[0][NODE, begin:] = 1
        trace.main[0][NODE + 2, begin] = 1

    made.is_rejected(parts, f"{RULES} hash", tamper)
