"""Public values that a verifier expects: from files and from Python, for Groth16 and the STARK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import distprove
from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.expected import ExpectedPublic, JobValue
from distprove.stark.statement import Statement
from distprove.system import PartitionProof
from tests.cli.conftest import SmallJob, run, why_refused

CPU = ("--local", "--threads", "2", "--backend", "cpu")


@pytest.fixture(scope="module")
def fibonacci(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a job of two partitions of 16 rows."""
    out = tmp_path_factory.mktemp("stark") / "run"
    done = run("prove", "stark", "fibonacci", "--rows", "2^4", "--partitions", "2", "--out", out, *CPU)
    assert done.exit_code == 0, done.output
    return out


def written(folder: Path, value: Any) -> Path:
    path = folder / "expected.json"
    path.write_text(json.dumps(value))
    return path


def says(done: Any, code: int) -> str:
    assert done.exit_code == code, done.output
    return " ".join(f"{done.stdout} {done.stderr}".split())


def fib() -> Iterator[int]:
    """The numbers from F(0) on, which do not come from the program that is proven."""
    left, right = 0, 1
    while True:
        yield left
        left, right = right, left + right


def test_a_starks_inputs_and_outputs_by_name(fibonacci: Path, tmp_path: Path) -> None:
    numbers = fib()
    values = [next(numbers) for _ in range(34)]
    good = {"start": [0, 1], "end": [str(values[32]), values[33]]}
    shown = says(run("verify", fibonacci, "--public", written(tmp_path, good)), 0)
    assert "4 values as expected" in shown
    assert (
        json.loads(run("verify", fibonacci, "--public", tmp_path / "expected.json", "--json").stdout)["public_compared"]
        == 4
    )
    assert distprove.verify(fibonacci, public=good).public_compared == 4
    assert distprove.verify(fibonacci).public_compared is None

    bad = written(tmp_path, {"start": [0, 1], "end": [values[32], 5]})
    refused = says(run("verify", fibonacci, "--public", bad), 1)
    assert f"states end[1] = {values[33]} in partition part-0001; 5 is expected by {bad}" in refused
    with pytest.raises(InvalidProof, match="2178309 in partition part-0001; 8 is expected by public; 1 more differ"):
        distprove.verify(fibonacci, public={"end": [8, 9]})
    with pytest.raises(InvalidProof, match="states 2 public values of end in partition part-0001; public has 1"):
        distprove.verify(fibonacci, public={"end": values[32]})
    with pytest.raises(UsageError, match=r'"last" \(it has: start, end\)'):
        distprove.verify(fibonacci, public={"last": 1})
    with pytest.raises(InvalidProof, match="2 partitions; public has the values of one"):
        distprove.verify(fibonacci, public=[0, 1, 987, 1597])


def test_values_by_partition(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    assert run("export", proven, "--out", tmp_path / "E").exit_code == 0
    names = [f"member-{place}" for place in range(3)]
    exported = {name: json.loads((tmp_path / "E" / name / "public.json").read_text()) for name in names}
    args = ("verify", proven, "--vk", small_job.vk, "--public")
    good = run(*args, written(tmp_path, {"partitions": exported}), "--json")
    assert json.loads(good.stdout)["public_compared"] == 9
    changed = {**exported, "member-1": [*exported["member-1"][:2], "8"]}
    refused = says(run(*args, written(tmp_path, {"partitions": changed})), 1)
    assert "public value 2 = 7 in partition member-1; 8 is expected" in refused
    del changed["member-1"]
    assert "has a partition member-1, which" in says(run(*args, written(tmp_path, {"partitions": changed})), 1)
    changed |= {"member-1": exported["member-1"], "member-9": []}
    assert "has no partition member-9" in says(run(*args, written(tmp_path, {"partitions": changed})), 1)
    named = why_refused(run(*args, written(tmp_path, {"scope": "7"})))
    assert 'named "scope" (it has none: give the list of all values' in named
    assert 'for several partitions {"partitions": {NAME: [VALUE, ...], ...}})' in named
    # Before it is known whose key that is, nothing is compared.
    untrusted = says(run("verify", proven, "--public", written(tmp_path, {"partitions": changed})), 1)
    assert "only under the key that the file itself carries" in untrusted


def test_a_proof_of_snarkjs_with_public_values_elsewhere(small_job: SmallJob, proven: Path, tmp_path: Path) -> None:
    assert run("export", proven, "--out", tmp_path / "E").exit_code == 0
    folder = tmp_path / "E" / "member-0"
    values = json.loads((folder / "public.json").read_text())
    args = ("verify", folder / "proof.json", "--vk", small_job.vk)
    given = ("--public", written(tmp_path, values))
    assert "3 values" in says(run(*args, *given), 0)
    wrong = ("--public", written(folder, ["0", *values[1:]]))
    assert f"states public value 0 = {values[0]} in partition proof.json; 0 is expected" in says(run(*args, *wrong), 1)
    (folder / "public.json").unlink()
    assert "--public names their file" in why_refused(run(*args))
    assert json.loads(run(*args, *given, "--json").stdout)["public"] == values
    assert "does not verify with" in says(run(*args, *wrong), 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('["01"]', "value 0: neither a decimal"),
        ("[true]", "value 0: neither"),
        ("[1.0]", "value 0: neither"),
        ("[-1]", "value 0: neither"),
        (f"[{'9' * 4000}]", "no integer, or too large"),
        (f'["{"9" * 4000}"]', "value 0: neither"),
        ('{"a": 1, "a": 1}', "a name occurs twice"),
        ("{}", "names no public value"),
        ('{"partitions": {}}', "no object of values"),
        ('{"partitions": {"p": 5}}', "partition p: expected a list"),
        ('{"a": [[1]]}', "a: value 0"),
        ("7", "expected a list"),
        ("[1", "not JSON"),
    ],
)
def test_files_that_are_none(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(FormatError, match=why):
        ExpectedPublic.read(tmp_path / "f.json")


def test_which_partition_has_the_value_of_the_job() -> None:
    """As the statement ties partitions: the first one starts a chain, the last one ends it."""
    public = tuple((name, 1) for name in ("in", "out", "all", "own", "both", "number", "exit_code"))
    tied = Statement(public, ("all",), (("out", "in"), ("both", "both")), count="number")
    of_job = {name: tied.partition_of_job(name) for name, _ in public}
    last = {"out": "last", "exit_code": "last"}
    assert of_job == {"in": "first", "all": "first", "number": "first", "own": "", "both": ""} | last
    names = [JobValue("a", 1, "first"), JobValue("b", 2, "last"), JobValue("own", 1, "")]
    parts = [PartitionProof("p", b"", (1, 2, 3, 4), {}), PartitionProof("q", b"", (5, 6, 7, 8), {})]
    assert ExpectedPublic.parse({"a": 1, "b": [6, 7]}, "it", names).require(parts) == 3
    by_partition = {"partitions": {"p": {"own": 4}, "q": [5, 6, 7, 8]}}
    assert ExpectedPublic.parse(by_partition, "it", names).require(parts) == 5
    assert ExpectedPublic.parse({"own": 4}, "it", names).require(parts[:1]) == 1
    with pytest.raises(UsageError, match='"own" is a value of each partition'):
        ExpectedPublic.parse({"own": 4}, "it", names).require(parts)
