"""The multilinear engine from end to end: programs of every kind, through keys and files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distprove import api
from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.keyfile import key_content, key_of, parse_key, shipped_key
from distprove.stark.multilinear import proving_key
from distprove.stark.multilinear.cells import CellPrograms, ConstraintPart
from distprove.stark.multilinear.key import MultilinearKey, compile_key
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proof import content_bytes
from distprove.stark.multilinear.proving_key import make_key, make_verifying_key
from distprove.stark.multilinear.security import choose_parameters, queries_needed, security_bits, statistics_of_job
from distprove.stark.multilinear.shape import Shape
from distprove.stark.options import StarkOptions
from distprove.stark.programs import load_program
from distprove.stark.security import MULTIPLICITIES
from kernels.cpu.backend import CpuBackend
from tests.support import ROOT
from tests.support.counted_program import Computer
from tests.support.multilinear_jobs import MultilinearJob, prove_program
from tests.support.stark_programs import OneCell

GUESTS = ROOT / "tests" / "stark" / "riscv" / "guests"
JOBS: Mapping[str, tuple[str, dict[str, int | str], int]] = {
    "fibonacci": ("fibonacci", {"rows": 32}, 3),
    "two rows": ("fibonacci", {"rows": 2}, 2),
    "wide-fibonacci": ("wide-fibonacci", {"rows": 64, "width": 5}, 2),
    "range-check": ("range-check", {"values": 16, "bits": 4}, 2),
    "wide": ("wide-fibonacci", {"rows": 64, "width": 300}, 1),
    "keccak-f": ("keccak-f", {"permutations": 1}, 1),
    "poseidon2": ("range-check", {"values": 16, "bits": 4}, 2),
}


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> MultilinearJob:
    name, arguments, partitions = JOBS[request.param]
    chosen = {"hash": "poseidon2"} if request.param == "poseidon2" else {}
    return prove_program(name, arguments, partitions=partitions, **chosen)


def test_a_job_verifies_as_a_whole(job: MultilinearJob) -> None:
    job.check()
    report = StarkVerifier(job.key).explain(job.proofs)["security"]
    assert report["bits"] >= report["target"] == 128


@pytest.mark.parametrize(
    ("width", "prefer", "columns"),
    [(64, "speed", 4), (65, "speed", 5), (300, "speed", 10), (4096, "speed", 16), (300, "size", 3)],
)
def test_a_wide_table_has_more_stacked_columns_for_speed(width: int, prefer: str, columns: int) -> None:
    program = load_program("wide-fibonacci", {"rows": 1 << 12, "width": width})
    params = choose_parameters(program, 1, prefer=prefer)
    shape = Shape(compile_key(program, params), (12,))
    assert shape.main.width == columns
    assert security_bits(shape) >= 128


def test_long_rules_are_evaluated_by_their_degree_and_give_the_same_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constraint of a low degree is evaluated less often: what is sent does not depend on it."""
    params = Parameters(1, 4, (3,) * 8, 0, 0)
    made = []
    for apart in (True, False):
        with monkeypatch.context() as patch:
            if not apart:
                patch.setattr(CellPrograms, "constraint_parts", property(_together))
            made.append(prove_program("keccak-f", {"permutations": 1}, params=params))
        made[-1].check()
    (rules,) = made[0].key.tables
    parts = CellPrograms.of(rules).constraint_parts
    assert [part.degree for part in parts] == [2, 3, 4]
    assert sum(len(part.program.on_coset.outputs) for part in parts) == len(rules.constraint_names)
    assert made[0].proofs[0].data == made[1].proofs[0].data


def _together(programs: CellPrograms) -> tuple[ConstraintPart, ...]:
    whole, rules = programs.constraints, programs.rules
    assert whole is not None
    return (ConstraintPart(whole, rules.constraint_degree, tuple(range(whole.on_coset.scalars))),)


@pytest.mark.parametrize(("prefer", "skip"), [("speed", 5), ("size", 4)])
def test_long_rules_have_a_longer_univariate_round_for_speed(prefer: str, skip: int) -> None:
    assert choose_parameters(load_program("keccak-f", {"permutations": 4}), 1, prefer=prefer).log_skip == skip
    assert choose_parameters(load_program("wide-fibonacci", {"rows": 64, "width": 64}), 1).log_skip == 4


def test_a_job_with_global_buses_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "content"
    file.write_bytes(bytes(range(200)))
    job = prove_program("file-root", {"file": str(file)}, partitions=2, security=20)
    assert {scope for _, scope, _ in job.key.buses} == {"local", "global"}
    job.check()


def test_a_guest_with_absent_tables_and_an_output() -> None:
    job = prove_program("riscv", {"elf": str(GUESTS / "fibonacci.elf"), "segment": 4096}, partitions=None, security=20)
    assert 255 in job.proofs[0].data["heights"]
    job.check()
    assert_size_is_foretold(job)  # most of it are the openings of the preprocessed tree


def test_a_key_is_read_back_and_made_from_its_name(job: MultilinearJob) -> None:
    key = parse_key(key_content(job.key), "key")
    assert isinstance(key, MultilinearKey)
    assert key.digest == job.key.digest
    again, _ = shipped_key(canonical.decode(canonical.encode(job.key.named()), "key"))
    assert again.digest == job.key.digest


def assert_size_is_foretold(job: MultilinearJob) -> None:
    for proof in job.proofs:
        heights = tuple(None if h == 255 else h for h in proof.data["heights"])
        shape, found = Shape(job.key, heights), len(canonical.encode(proof.data))
        size = content_bytes(shape)
        assert abs(found - size) < 0.1 * size + 1000
        assert found <= content_bytes(shape, at_most=True) < 1.6 * size + 2000


def test_the_size_of_a_proof_is_foretold(job: MultilinearJob) -> None:
    assert_size_is_foretold(job)


@pytest.mark.parametrize("hash_", ["keccak256", "poseidon2", "poseidon2-binary"])
def test_the_size_of_a_proof_of_tall_trees_is_foretold(hash_: str) -> None:
    """Nodes of Poseidon2 have four children, so that its paths are longer."""
    job = prove_program("wide-fibonacci", {"rows": 1 << 12, "width": 16}, hash=hash_)
    size = content_bytes(Shape(job.key, (12,)))
    assert len(canonical.encode(job.proofs[0].data)) == pytest.approx(size, rel=0.04)


def test_partitions_cannot_be_moved_left_out_or_doubled() -> None:
    job = prove_program("fibonacci", {"rows": 32}, partitions=3)
    first, second, third = job.proofs
    for changed in ((second, first, third), (first, second), (first, second, third, third), ()):
        with pytest.raises(InvalidProof):
            replace(job, proofs=changed).check_job()


def test_a_table_below_the_univariate_domain_is_refused() -> None:
    params = replace(choose_parameters(load_program("fibonacci", {"rows": 32}), 1), log_skip=4)
    with pytest.raises(UsageError, match="not a height"):
        key_of(load_program("fibonacci", {"rows": 8}), params)


def test_a_single_cell_is_proven() -> None:
    """Its anchor is the cell itself, so that the row of anchors has no error, which has no logarithm."""
    prove_program(OneCell(), params=Parameters(1, 0, (200,), 16, 80)).check()


def test_fewer_queries_than_the_target_needs_are_refused() -> None:
    params = Parameters(1, 4, (20,) * 8, 4, 128)
    job = prove_program("fibonacci", {"rows": 32}, params=params)
    with pytest.raises(InvalidProof, match="bits of security"):
        job.check()


@pytest.mark.parametrize("security", [1, 64, 100, 128])
@pytest.mark.parametrize("blowup", [1, 2, 6])
def test_the_queries_are_the_fewest_of_all_multiplicities(security: int, blowup: int) -> None:
    program = load_program("wide-fibonacci", {"rows": 1 << 18, "width": 8})
    params = Parameters(blowup, 4, (1,) * 8, 16, security)
    for stats in statistics_of_job(compile_key(program, params), program.log_heights(4)):
        for number in range(len(stats.rounds)):
            of_all = queries_needed(params, stats, number, (None, *MULTIPLICITIES))
            assert queries_needed(params, stats, number) == of_all


def test_a_key_of_another_engine_is_refused() -> None:
    job = prove_program("fibonacci", {"rows": 16}, security=20)
    record = job.key.to_record()
    for engine in ("fri", "other", 1):
        with pytest.raises(FormatError):
            MultilinearKey.from_record({**record, "engine": engine})
    with pytest.raises(FormatError):
        shipped_key({**job.key.named(), "engine": "fri"})


def test_a_job_file_takes_the_engine_and_its_run_verifies_and_resumes(tmp_path: Path) -> None:
    text = 'system = "stark"\nprogram = "fibonacci"\npartitions = 2\nengine = "multilinear"\nsecurity = 60\n'
    (tmp_path / "job.toml").write_text(text + "arguments = { rows = 64 }\n")
    out = tmp_path / "run"
    result = api.prove(tmp_path / "job.toml", out=out)
    assert result.proof.verification_key["engine"] == "multilinear"
    verified = api.verify(out, least_security=60)
    given = {"program": "fibonacci", "partitions": 2, "security": 60, "arguments": {"rows": 64}}
    other = api.prove(system="stark", out=tmp_path / "fri", **given)
    assert verified.proven["says"] == api.verify(other.proof, least_security=60).proven["says"]
    before = (out / "proof.msgpack").read_bytes()
    (out / "proof.msgpack").unlink()
    api.resume(out)
    assert (out / "proof.msgpack").read_bytes() == before
    with pytest.raises(UsageError, match="unknown engine"):
        StarkOptions("fibonacci", engine="plonk").check()


class OtherComputer(Computer):
    """Columns that differ in one value."""

    def preprocessed(self) -> Mapping[str, Any]:
        columns = dict(super().preprocessed())
        columns["Nibbles"] = columns["Nibbles"] + (columns["Nibbles"] == 7)
        return columns


def test_a_process_makes_the_root_of_the_same_columns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service makes a program's key again for each job with other inputs."""
    monkeypatch.setattr(proving_key, "_ROOTS", OrderedDict())
    params = [choose_parameters(Computer(), 1, queries=1, blowup=blowup) for blowup in (2, 4)]
    made: list[bytes] = []
    with CpuBackend(threads=1) as cpu:
        kernels = type(cpu.multilinear)
        root = kernels.root

        def counted(*given: Any) -> bytes:
            made.append(root(*given))
            return made[-1]

        monkeypatch.setattr(kernels, "root", counted)
        found = [
            make_verifying_key(program, own, cpu).preprocessed_root
            for _ in range(2)
            for program in (Computer(used=20), OtherComputer())
            for own in params
        ]
        assert found == [*made, *made]
        assert len({*made}) == len(made) == 4
        for own, expected in zip(params, made, strict=False):
            assert make_key(Computer(used=3), own, cpu).key.preprocessed_root == expected
        monkeypatch.setattr(proving_key, "MOST_ROOTS", 1)
        make_verifying_key(Computer(), params[0], cpu)
        assert [*proving_key._ROOTS.values()] == [made[0]]
