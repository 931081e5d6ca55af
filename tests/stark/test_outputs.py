"""Outputs of variable length: what the verifier accepts beside a proof, and every way to make it accept another."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from cluster.record.run import StoredRun
from distprove import api
from distprove.errors import FormatError, InputError, InvalidProof, OutputMissing, UsageError
from distprove.proof import MAX_OUTPUT, OUTPUT_FILE, Proof
from distprove.stark import field, logup, verifier
from distprove.stark.air.check import check_partitions
from distprove.stark.barrier import global_challenges
from distprove.stark.example import program_example
from distprove.stark.field import Ext, P
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.logup import output_sum
from distprove.stark.output import digest_of, output_public, output_stream
from distprove.stark.program import Cut, Trace
from distprove.stark.provable import check_sides
from distprove.stark.security import job_security
from distprove.stark.statement import Boundary, Output, PublicRef, Statement
from distprove.stark.verifying_key import VerifyingKey, compile_program
from distprove.stark.whole_job import check_output
from kernels.cpu.backend import CpuBackend
from kernels.cpu.keccak import keccak256
from tests.cli.conftest import run as command_line
from tests.support import ROOT, second_verifier
from tests.support.cheats import WEAK, Job, prove_job
from tests.support.output_program import Unbounded, Writes
from tests.support.squares import Squares

TEXT = b"seventeen bytes.."
Tuples = list[tuple[int, int]]


def job_of(output: bytes, tuples: Tuples | None = None, partitions: int = 2) -> Job:
    """A job that states `output`, whose tables sent its tuples or others."""
    return replace(prove_job(Writes(output, tuples), partitions), output=output)


def tuples_of(output: bytes) -> Tuples:
    return list(enumerate(output_stream(output).tolist()))


@pytest.mark.parametrize("output", [b"", b"a", b"abcd", b"abcde", TEXT, bytes(40)])
@pytest.mark.parametrize("partitions", [1, 3])
def test_an_output_of_any_length(output: bytes, partitions: int) -> None:
    """Both verifiers accept it, and so does the debug check."""
    job_of(output, partitions=partitions).check()
    with CpuBackend(threads=1) as backend:
        assert program_example(Writes(output), partitions, backend).check() == []


def test_order_and_partition_of_the_words_do_not_matter() -> None:
    job_of(TEXT, tuples_of(TEXT)[::-1], 3).check()


@pytest.mark.parametrize(
    "other",
    [
        TEXT[:-1],
        TEXT + b"\0",
        TEXT + b"\0\0\0",
        TEXT + bytes(4),
        TEXT[:-1] + b"!",
        b"S" + TEXT[1:],
        TEXT[4:] + TEXT[:4],
        TEXT * 2,
        b"",
    ],
)
def test_an_honest_proof_with_another_output(other: bytes) -> None:
    with pytest.raises(InvalidProof, match=r"an output of 17 bytes|is not the one that the job states"):
        replace(job_of(TEXT), output=other).check()


def test_without_its_output_a_job_is_not_verified() -> None:
    """The message says what holds and what is not known, with length and digest."""
    with pytest.raises(OutputMissing, match="every partition's proof holds by itself, but it is not known") as raised:
        replace(job_of(TEXT), output=None).check()
    assert "17 bytes" in str(raised.value)
    assert keccak256(TEXT).hex() in str(raised.value)


WORDS = tuples_of(TEXT)
"""The length, five words, of which the last has three bytes of padding."""
LIES: dict[str, Tuples] = {
    "padding that is not zero": [*WORDS[:-1], (5, WORDS[5][1] + (1 << 8))],
    "padding in the last byte": [*WORDS[:-1], (5, WORDS[5][1] + (1 << 31))],
    "a byte more": [(0, 18), *WORDS[1:]],
    "three bytes more": [(0, 20), *WORDS[1:]],
    "a byte less": [(0, 16), *WORDS[1:]],
    "three bytes less": [(0, 14), *WORDS[1:]],
    "a length in words": [(0, 5), *WORDS[1:]],
    "no length": WORDS[1:],
    "two lengths": [*WORDS, (0, 17)],
    "two lengths that differ": [*WORDS, (0, 18)],
    "a word too many": [*WORDS, (6, 0)],
    "a word beyond all places": [*WORDS, (P - 1, 7)],
    "a word missing": [*WORDS[:2], *WORDS[3:]],
    "a zero word missing at the end": [*WORDS[:-1]],
    "a word twice": [*WORDS, WORDS[2]],
    "a word twice, and another one missing": [*WORDS[:3], WORDS[2], *WORDS[4:]],
    "a place twice": [*WORDS, (2, 9)],
    "a place twice, the true word missing": [*WORDS[:2], (2, 9), *WORDS[3:]],
    "words exchanged": [*WORDS[:2], (2, WORDS[3][1]), (3, WORDS[2][1]), *WORDS[4:]],
    "places from zero": [(0, 17), *((place - 1, word) for place, word in WORDS[1:])],
    "a word of 33 bits": [WORDS[0], (1, WORDS[1][1] + (1 << 32)), *WORDS[2:]],
    "big-endian words": [
        WORDS[0],
        *((place, int.from_bytes(word.to_bytes(4, "little"), "big")) for place, word in WORDS[1:]),
    ],
    "nothing": [],
}


@pytest.mark.parametrize("lie", LIES)
def test_tables_that_sent_something_else(lie: str) -> None:
    """The digest is that of the output given: only the bus tells."""
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        job_of(TEXT, LIES[lie]).check()


def test_a_boundary_on_the_outputs_bus() -> None:
    """Tuples of a boundary and of the output add up: where the statement sends the length, tables must not."""
    sends = (Boundary("output", (0, PublicRef("length")), 1, "first"),)
    stated = replace(Writes().statement, boundary=sends)
    with mock.patch.object(Writes, "statement", stated):
        job_of(TEXT, WORDS[1:]).check()
        with pytest.raises(InvalidProof, match="global buses do not balance"):
            job_of(TEXT).check()


def test_an_empty_output_has_a_length() -> None:
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        job_of(b"", []).check()


@pytest.mark.parametrize("times", [0, 2, P - 1, P - 2])
def test_a_multiplicity_of_another_number(times: int) -> None:
    """The constraint that holds multiplicities to 0 and 1 is missing, and one word is sent so often."""
    row = 1

    def tamper(index: int, trace: Trace) -> Trace:
        (columns,) = trace.main
        assert columns is not None
        columns[0, row] = times if index == 0 else columns[0, row]
        return trace

    replace(prove_job(Unbounded(TEXT), 2), output=TEXT).check()
    with pytest.raises(InvalidProof, match="global buses do not balance"):
        replace(prove_job(Unbounded(TEXT), 2, tamper=tamper), output=TEXT).check()


def test_partitions_that_state_different_outputs() -> None:
    job = job_of(TEXT)
    other = output_public(TEXT + b"\0")
    for publics in ([job.publics[0], other], [other, job.publics[1]], [other, other]):
        changed = replace(job, publics=publics, output=TEXT + b"\0")
        with pytest.raises(InvalidProof):
            changed.check()
    violation = job.key.statement.violation([output_public(TEXT), other])
    assert violation == "length of partition 1 differs from the first one's"


def test_an_output_beyond_the_bound() -> None:
    statement = Writes().statement
    assert statement.violation([(MAX_OUTPUT, *[0] * 8)]) is None
    assert "more than the" in (statement.violation([(MAX_OUTPUT + 1, *[0] * 8)]) or "")
    with CpuBackend(threads=1) as backend, pytest.raises(UsageError, match="an output of 16777217 bytes"):
        program_example(Writes(bytes(MAX_OUTPUT + 1), []), 1, backend)


def test_two_outputs_whose_digests_begin_alike() -> None:
    """Every part of the digest counts, not a prefix of it."""
    wanted = keccak256(TEXT)[:2]
    other = next(c for c in (b"%015d.." % i for i in count()) if keccak256(c)[:2] == wanted)
    assert len(other) == len(TEXT)
    with pytest.raises(InvalidProof, match="is not the one that the job states"):
        replace(job_of(TEXT), output=other).check()
    stated = output_public(TEXT)
    for k in range(1, 9):
        changed = replace(job_of(TEXT), publics=[(*stated[:k], stated[k] ^ 1, *stated[k + 1 :])] * 2)
        with pytest.raises(InvalidProof):
            changed.check()


@pytest.mark.parametrize("at", range(1, 9))
def test_a_digest_that_is_none(at: int) -> None:
    """A public value of a digest that has more than 32 bits is no other spelling of its lower ones."""
    stated = list(output_public(TEXT))
    stated[at] = (stated[at] + (1 << 32)) % P
    key = compile_program(Writes(), WEAK)
    with pytest.raises(InvalidProof, match="is not the one that the job states"):
        check_output(key, stated, TEXT)
    with pytest.raises(OutputMissing, match="no digest"):
        check_output(key, stated, None)


# -- why the digest is bound before the challenges --------------------------------------------------------------------


def test_words_chosen_after_the_challenge() -> None:
    """Without the digest a prover picks, once the challenge is drawn, other words with the same sum of fractions.

    By eight lists of words (Wagner, A generalized birthday problem, 2002) the full challenge, of 192 bits, would take
    some 2^27 steps with more lists. Here challenges are elements of F_p, of 64 bits, so that it takes a second; the
    rest is the protocol. A verifier that does not compare the digest accepts what was never written.
    """
    written = np.random.default_rng(5).integers(0, 1 << 32, 8, dtype=np.uint32).astype("<u4").tobytes()
    with small_challenges():
        job = job_of(written)
        job.check_partitions()
        job.check_job()
        z, beta = small(*global_challenges(job.proofs[0].challenge))
        number = job.key.bus_numbers["output"]
        forged = words_of_the_same_sum(number, written, z[0], beta[0])
        assert forged != written
        assert len(forged) == len(written)
        false = replace(job, output=forged)

        with mock.patch("distprove.stark.whole_job.check_output"):  # the protocol without the digest
            false.check_partitions()
            false.check_job()
        with pytest.raises(InvalidProof, match="is not the one that the job states"):
            false.check_job()

        # To state the forged output's digest is to draw other challenges, at which its words do not balance.
        with pytest.raises(InvalidProof, match="was not proven as a part of this job"):
            replace(false, publics=[output_public(forged)] * 2).check_job()
        again = job_of(forged, tuples_of(written))
        again.check_partitions()
        with pytest.raises(InvalidProof, match="global buses do not balance"):
            again.check_job()


def small(z: Ext, beta: Ext) -> tuple[Ext, Ext]:
    return (z[0], 0, 0), (beta[0], 0, 0)


@contextmanager
def small_challenges() -> Iterator[None]:
    """Challenges of global buses that are elements of F_p, for prover and verifier."""

    def drawn(challenge: bytes, *_: object) -> tuple[Ext, Ext]:
        return small(*global_challenges(challenge))

    rules = replace(verifier.RULES, global_challenges=drawn)
    with mock.patch("distprove.stark.challenges.global_challenges", drawn), mock.patch.object(verifier, "RULES", rules):
        yield


def words_of_the_same_sum(bus: int, output: bytes, z: int, beta: int) -> bytes:
    """Eight words other than those of `output` whose sum over 1 / (z + bus + place beta + word beta^2) is the same."""
    words = output_stream(output).tolist()[1:]
    assert len(words) == 8

    def fraction(place: int, word: int) -> int:
        return pow(z + bus + place * beta + word * beta * beta, -1, P)

    target = sum(fraction(place, word) for place, word in enumerate(words, 1)) % P
    rng, size = np.random.default_rng(1), 1 << 17
    chosen = [rng.integers(0, 1 << 32, size, dtype=np.uint64) for _ in words]
    fractions = [_fractions((z + bus + place * beta) % P, beta * beta % P, c) for place, c in enumerate(chosen, 1)]
    low, middle = 1 << 48, 1 << 32  # sums of two lists lie below the first, those of four in a window of the second
    goal = 2 * low + middle
    fractions[0] = np.array([(v - target + goal) % P for v in fractions[0].tolist()], dtype=np.uint64)
    pairs = [_pairs(fractions[i], fractions[i + 1], 0, low) for i in (0, 2, 4, 6)]
    fours = [_window(pairs[i][0], pairs[i + 1][0], low, middle) for i in (0, 2)]
    left, right = fours[0][0], np.uint64(goal) - fours[1][0]
    _, i, j = np.intersect1d(left, right, return_indices=True)
    assert len(i), "no words of this sum among those tried"
    found: list[int] = []
    for (_, a, b), at, first in ((fours[0], int(i[0]), 0), (fours[1], int(j[0]), 2)):
        for pair, which in ((pairs[first], a[at]), (pairs[first + 1], b[at])):
            found += [int(pair[1][which]), int(pair[2][which])]
    return np.array([chosen[k][index] for k, index in enumerate(found)], dtype="<u4").tobytes()


def _fractions(start: int, power: int, words: np.ndarray) -> np.ndarray:
    return field.inverse(field.add(np.uint64(start), field.mul(np.uint64(power), words)))


def _pairs(a: np.ndarray, b: np.ndarray, start: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums modulo p in start .. start + width - 1 of an element of each, and the indices of both."""
    order = np.argsort(b)
    ordered = b[order]
    least = (np.uint64(P) - a + np.uint64(start)) % np.uint64(P)
    i, k = _between(ordered, least, np.minimum(least, np.uint64(P - width)) + np.uint64(width))
    j = order[k]
    total = a[i].astype(object) + b[j].astype(object)
    return np.array([int(v) % P for v in total], dtype=np.uint64), i, j


def _window(a: np.ndarray, b: np.ndarray, start: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of integers in start .. start + width - 1, which do not reach p, and the indices of their terms."""
    order = np.argsort(b)
    ordered = b[order].astype(np.int64)
    least = np.int64(start) - a.astype(np.int64)
    i, k = _between(ordered, least, least + np.int64(width))
    j = order[k]
    return a[i] + b[j], i, j


def _between(ordered: np.ndarray, least: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each interval the indices of the ordered elements in it: the interval's number, and the element's."""
    begin, stop = np.searchsorted(ordered, least), np.searchsorted(ordered, end)
    counts = np.maximum(stop - begin, 0)
    i = np.repeat(np.arange(len(counts)), counts)
    return i, np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)


# -- keys, bits, sums -------------------------------------------------------------------------------------------------


def test_the_sum_is_that_of_plain_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several blocks, and a part of one."""
    monkeypatch.setattr(logup, "_OUTPUT_BLOCK", 256)
    z, beta = (5, 6, 7), (8, 9, 10)
    output = np.random.default_rng(2).bytes(2401)
    total = second_verifier.ZERO
    for place, word in tuples_of(output):
        f = second_verifier.add(z, second_verifier.base(3))
        for power, value in ((beta, place), (second_verifier.mul(beta, beta), word)):
            f = second_verifier.add(f, second_verifier.mul(power, second_verifier.base(value)))
        total = second_verifier.sub(total, second_verifier.inverse(f))
    assert output_sum(3, output, z, beta) == total


def test_an_output_counts_with_its_bound() -> None:
    """Bits do not depend on the length, which a prover chooses; both verifiers count as many."""
    key = compile_program(Writes(), WEAK)
    heights = [(4,), (4,)]
    report = job_security(key, heights)
    assert report.statistics.shared.tuples == 2 * 16 + (1 << 22) + 1
    second = second_verifier.Key(key.to_record())
    bits = second_verifier.security_bits(second, second_verifier.Shape(second, [4]), [[4], [4]])
    assert report.bits == pytest.approx(bits, abs=1e-9)


STATEMENTS: Sequence[object] = [
    None,
    [],
    ["output", "length"],
    ["output", "length", 3],
    ["other", "length", "digest"],
    ["output", "digest", "length"],
    ["output", "length", "length"],
    ["output", "size", "digest"],
]


@pytest.mark.parametrize("wrong", STATEMENTS)
def test_keys_with_another_output(wrong: object) -> None:
    record = compile_program(Writes(), WEAK).to_record()
    assert VerifyingKey.from_record(record).to_record() == record
    record["statement"]["output"] = wrong
    with pytest.raises(FormatError):
        VerifyingKey.from_record(record)
    with pytest.raises(second_verifier.Refused):
        second_verifier.Key(record)


def test_the_key_binds_the_output() -> None:
    key = compile_program(Writes(), WEAK)
    without = replace(key, statement=replace(key.statement, output=None))
    assert without.digest != key.digest
    with pytest.raises(UsageError, match="no table receives what is sent"):
        check_sides(without)


def test_a_program_gives_the_output_that_it_states() -> None:
    stated = Statement((("length", 1), ("digest", 8)))
    refused = pytest.raises(UsageError, match="its statement has no output, and its cut gave one")
    with CpuBackend(threads=1) as backend, mock.patch.object(Writes, "statement", stated), refused:
        program_example(Writes(), 1, backend)
    forgets = mock.patch.object(Writes, "cut", lambda self, n, fits: Cut(self.slices(n)))
    refused = pytest.raises(UsageError, match="its statement has an output, and its cut gave none")
    with CpuBackend(threads=1) as backend, forgets, refused:
        program_example(Writes(), 1, backend)


def test_the_check_shows_a_word_that_is_not_the_outputs() -> None:
    with CpuBackend(threads=1) as backend:
        example = program_example(Writes(TEXT, LIES["a byte more"]), 1, backend)
    (failure,) = check_partitions(example.airs, example.partitions, boundary=example.boundary)
    assert failure.rule == "bus output"


# -- the worked example, and files ------------------------------------------------------------------------------------


def test_a_run_has_its_output_beside_the_proof(tmp_path: Path) -> None:
    """`verify` takes the output from the run folder or from `--output`, and refuses another output and none."""
    program = "tests.support.squares:Squares"
    out = tmp_path / "run"
    result = api.prove(system="stark", program=program, arguments={"count": 5}, partitions=2, security=20, out=out)
    squares = b"".join((i * i).to_bytes(4, "little") for i in range(5))
    assert (out / OUTPUT_FILE).read_bytes() == squares
    for where in (out, result.proof):
        verified = api.verify(where, program=program, least_security=20)
        assert verified.proven["output"] == {"bytes": 20, "keccak256": keccak256(squares).hex()}
    for name in (OUTPUT_FILE, "proof.msgpack"):
        (out / name).unlink()
    api.resume(out, program=program)  # the program is cut again, and gives the same output
    assert (out / OUTPUT_FILE).read_bytes() == squares
    alone = tmp_path / "alone.msgpack"
    alone.write_bytes((out / "proof.msgpack").read_bytes())
    with pytest.raises(OutputMissing):
        api.verify(alone, program=program, least_security=20)
    api.verify(alone, program=program, least_security=20, output=squares)
    api.verify(alone, program=program, least_security=20, output=out / OUTPUT_FILE)
    with pytest.raises(InvalidProof, match="an output of 20 bytes"):
        api.verify(out, program=program, least_security=20, output=squares + b"\0")
    (out / OUTPUT_FILE).write_bytes(squares[:-1] + b"\1")
    with pytest.raises(InvalidProof, match="is not the one that the job states"):
        api.verify(out, program=program, least_security=20)
    (out / OUTPUT_FILE).unlink()
    (out / OUTPUT_FILE).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(squares)
    with pytest.raises((UsageError, InputError), match="link"):
        api.verify(out, program=program, least_security=20)


SQUARES = "tests.support.squares:Squares"


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("squares") / "run"
    api.prove(system="stark", program=SQUARES, arguments={"count": 5}, partitions=2, security=20, out=out)
    return out


def a_link(path: Path) -> None:
    path.symlink_to(path.with_name("proof.msgpack"))


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def a_huge_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)  # sparse: reading it would take all memory


WRONG_FILES = [a_link, a_dangling_link, a_huge_file, Path.mkdir, os.mkfifo]


@pytest.mark.parametrize("make", WRONG_FILES)
def test_what_is_no_file_of_an_output(squares: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    """It is refused before it is read, in the run folder and where it is named; one that is named goes first."""
    out = tmp_path / "run"
    shutil.copytree(squares, out)
    good = (out / OUTPUT_FILE).rename(tmp_path / "good")
    make(out / OUTPUT_FILE)
    for where in (out, out / "proof.msgpack"):
        with pytest.raises(InputError, match=r"link|larger than 16777216|not a regular file|directory|folder"):
            api.verify(where, program=SQUARES, least_security=20)
        assert api.verify(where, program=SQUARES, least_security=20, output=good).partitions == 2
        command = ("verify", where, "--program", SQUARES, "--security", "20")
        assert command_line(*command).exit_code == 2
        assert command_line(*command, "--output", good).exit_code == 0
    if make is not a_link:
        assert command_line(*command, "--output", out / OUTPUT_FILE).exit_code == 2
    assert StoredRun.read(out).stored() == {"part-0000", "part-0001"}  # what is proven is not lost with it


def test_an_output_of_a_statement_without(squares: Path, tmp_path: Path) -> None:
    """Nobody is to take a file for proven that lies beside the proof of something else."""
    out = tmp_path / "run"
    api.prove(system="stark", program="fibonacci", arguments={"rows": 8}, partitions=2, security=20, out=out)
    assert command_line("verify", out, "--security", "20").exit_code == 0
    shutil.copy(squares / OUTPUT_FILE, out / OUTPUT_FILE)
    for where in (out, out / "proof.msgpack"):
        with pytest.raises(InvalidProof, match="the statement of this proof has none"):
            api.verify(where, least_security=20)
        assert command_line("verify", where, "--security", "20").exit_code == 1
        assert command_line("verify", where, "--security", "20", "--output", squares / OUTPUT_FILE).exit_code == 2
    with pytest.raises(UsageError, match="the statement of this proof has none"):
        api.verify(out, least_security=20, output=b"")


def test_a_run_that_is_resumed_for_another_output(squares: Path, tmp_path: Path) -> None:
    """Partitions that state the old one are proven again: they would never be one job with what is cut now."""
    out = tmp_path / "run"
    shutil.copytree(squares, out)
    record = json.loads((out / "job.json").read_text())
    del record["sha256"]
    changed = json.dumps(record).replace('"count": 5', '"count": 6').replace("count=5", "count=6")
    assert changed != json.dumps(record)
    (out / "job.json").write_text(changed)
    proof = api.resume(out, program=SQUARES).proof
    assert proof.output == (out / OUTPUT_FILE).read_bytes() == Squares(6).output()
    assert api.verify(out, program=SQUARES, least_security=20).proven["output"]["bytes"] == 24


def test_an_exported_proof_has_its_output(squares: Path, tmp_path: Path) -> None:
    done = command_line("export", squares, "--out", tmp_path / "E")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "E" / OUTPUT_FILE).read_bytes() == Squares(5).output()
    alone = tmp_path / "alone.msgpack"
    shutil.copy(squares / "proof.msgpack", alone)
    key = ("--vk", tmp_path / "E" / "verifying_key.msgpack", "--security", "20")
    assert command_line("verify", alone, *key).exit_code == 1
    assert command_line("verify", alone, *key, "--output", tmp_path / "E" / OUTPUT_FILE).exit_code == 0


def test_the_guides_excerpt_is_the_program_that_is_tested() -> None:
    """docs/airs.md shows parts of tests/support/squares.py."""
    guide = (ROOT / "docs" / "airs.md").read_text()
    (excerpt,) = re.findall(r"```python\n# squares\.py\n(.*?)```", guide, re.DOTALL)
    module = (ROOT / "tests" / "support" / "squares.py").read_text()
    parts = re.split(r"\n\n(?=    @property|    def cut)", excerpt.strip("\n"))
    assert len(parts) == 3
    assert all(part in module for part in parts)


@pytest.mark.parametrize(("name", "row"), [("x", 1), ("on", 2), ("ends", 7), ("ends", 3)])
def test_squares_that_are_not_the_first_ones(name: str, row: int) -> None:
    """Each column of the worked example matters: with one cell changed the job is refused."""
    column = ("x", "on", "ends").index(name)

    def tamper(index: int, trace: Trace) -> Trace:
        (columns,) = trace.main
        assert columns is not None
        if index == 1:
            columns[column, row] = columns[column, row] + 1 if name == "x" else 1 - columns[column, row]
        return trace

    program = Squares(11)
    replace(prove_job(program, 2), output=program.output()).check()
    with pytest.raises(InvalidProof):
        replace(prove_job(program, 2, tamper=tamper), output=program.output()).check()


def test_a_proof_object_keeps_its_output() -> None:
    job = job_of(TEXT)
    proof = Proof("stark", job.key.digest, job.key.named(), (), TEXT)
    assert proof == replace(proof, output=None)  # it is no part of the file
    plain = StarkVerifier(job.key)
    assert plain.has_output
    assert plain.with_output(TEXT).output == TEXT
    assert digest_of(output_public(TEXT)[1:]) == keccak256(TEXT)


def test_an_output_statement_is_written_as_it_is_read() -> None:
    statement = Writes().statement
    assert statement.output == Output("output", "length", "digest")
    assert Statement.from_record(statement.to_record(), "x") == statement
