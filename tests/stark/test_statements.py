"""What `verify` says follows from public values, fixed parts of the key and verified heights, whoever made the proof.

The provers here are honest in all but what the program leaves to them, or what a verifier must hold them to: how many
rows, where to start, how much to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from distprove.entry import OwnProgram
from distprove.errors import AirError, FormatError, InvalidProof, UsageError
from distprove.proof import Proof, heights_of, job_digest
from distprove.stark.field import P
from distprove.stark.keyfile import key_content, key_of, own_key, shipped_key
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Trace
from distprove.stark.programs import PROGRAMS, load_program
from distprove.stark.programs.binding import binds_the_same, check_arguments
from distprove.stark.programs.fibonacci import Fibonacci as FibonacciSteps
from distprove.stark.programs.keccak_f import SUMMED, KeccakF
from distprove.stark.programs.keccak_rounds import WIDTH
from distprove.stark.statement import Constant, Statement
from distprove.stark.system import StarkSystem
from distprove.stark.verifying_key import VerifyingKey
from distprove.system import PartitionProof
from distprove.verification import verify_proof
from tests.cli.conftest import run
from tests.stark.riscv.test_guests import GUESTS
from tests.support import second_verifier
from tests.support.cheats import WEAK, Job, prove_job
from tests.support.stark_programs import Fibonacci, Ring

Tamper = Callable[[int, Trace], Trace]


def honest(index: int, trace: Trace) -> Trace:
    return trace


def forged_job(program: Program, tamper: Tamper = honest, partitions: int = 1) -> Job:
    with mock.patch("distprove.stark.prover.heights_fit", return_value=True):
        return prove_job(program, partitions, tamper=tamper)


def forged(program: Program, tamper: Tamper = honest, partitions: int = 1) -> Proof:
    """What a prover makes under the honest key of a program, with traces of its own and of any height."""
    job = forged_job(program, tamper, partitions)
    system = StarkSystem(program, WEAK, partitions)
    parts = zip(job.names, job.publics, job.proofs, strict=True)
    return Proof.assemble(system, [PartitionProof(n, bytes(32), v, p.to_record()) for n, v, p in parts])


def said(proof: Proof) -> dict[str, str]:
    """What a verification without a key file says."""
    says: dict[str, str] = verify_proof(proof, least_security=0).proven["says"]
    return says


def cut_to(rows: int) -> Tamper:
    """The first rows of a Fibonacci sequence, and the pair that follows them."""

    def tamper(index: int, trace: Trace) -> Trace:
        columns = trace.main[0][:, :rows].copy()
        left, right = (int(v) for v in columns[:, -1])
        return Trace([columns], (*trace.public[:2], right, left + right))

    return tamper


def test_two_rows_are_not_a_thousand_steps(tmp_path: Path) -> None:
    """To the library and on the command line, without and with the key, without and with the job's digest."""
    program = load_program("fibonacci", {"rows": "2^10"})
    proof = forged(program, cut_to(2))
    path, vk = tmp_path / "proof.msgpack", tmp_path / "key.msgpack"
    proof.write(path)
    vk.write_bytes(key_content(key_of(program, WEAK)))
    for key in (None, vk):
        for job in (None, proof.job_digest):
            with pytest.raises(InvalidProof, match="does not verify"):
                verify_proof(proof, key, job, 0)
            options = [*(["--vk", key] if key else []), *(["--job", job.hex()] if job else [])]
            done = run("verify", path, "--security", 0, *options)
            assert done.exit_code == 1, done.output
            assert "1024" not in done.output


def test_a_second_verifier_sees_the_rows_too() -> None:
    with pytest.raises(FormatError, match="not the heights of a proof under this key"):
        forged_job(load_program("fibonacci", {"rows": 16}), cut_to(2)).check()
    forged_job(load_program("fibonacci", {"rows": 16}), cut_to(16)).check()


def test_as_many_rows_as_the_key_says_are_as_many_steps() -> None:
    """What the forgery above starts from holds, and the steps told are those of all partitions."""
    assert said(forged(load_program("fibonacci", {"rows": 4}), partitions=2))["after 8 steps"] == "21, 34 modulo p"


def test_steps_are_those_of_the_verified_rows() -> None:
    """Whatever a program was made with: its words are about the heights it is given."""
    program = load_program("fibonacci", {"rows": "2^10"})
    assert "after 6 steps" in program.explain([(0, 1, 1, 2), (1, 2, 5, 8)], [(1,), (2,)])
    wide = load_program("wide-fibonacci", {"rows": "2^10"})
    assert wide.explain([()], [(1,)])["computed right"].startswith("2 rows")


def test_wide_fibonacci_of_fewer_rows() -> None:
    program = load_program("wide-fibonacci", {"rows": 64, "width": 4})
    proof = forged(program, lambda index, trace: Trace([trace.main[0][:, :2].copy()], ()))
    with pytest.raises(InvalidProof, match="does not verify"):
        said(proof)


# -- programs whose constraints count ---------------------------------------------------------------------------------


def counting_nothing(index: int, trace: Trace) -> Trace:
    """Keccak-f without a permutation that counts, from a number that no state has."""
    on, begin, number, sums = range(WIDTH, WIDTH + 4)
    columns = trace.main[0]
    columns[[on, begin]] = 0
    columns[number] = P - 1
    columns[sums:] = 0
    return Trace([columns], (P - 1, P - 1, *[0] * SUMMED))


def test_no_permutation_is_none() -> None:
    """An empty range of states holds, wherever it is said to lie: there are none, and not those from p - 1 to p - 2."""
    says = said(forged(load_program("keccak-f", {"permutations": 1}), counting_nothing))
    assert says == {"states": "none", "sums of the results' words": ", ".join(["0"] * SUMMED) + " modulo p"}


def test_states_are_those_that_count_on_any_rows() -> None:
    """Keccak-f of more rows than its permutation takes, all but the first of them idle: the same words."""
    with mock.patch("distprove.stark.programs.keccak_f.rows_for", return_value=1 << 7):
        proof = forged(KeccakF(1, first=5))
    assert heights_of(proof.partitions[0]) == bytes([7])
    assert said(proof)["states"] == "5 to 5"


def test_more_states_than_there_are_rows() -> None:
    """The public end is what the constraints counted, whatever the number of permutations asked for."""

    def tamper(index: int, trace: Trace) -> Trace:
        start, end, *total = trace.public
        return Trace(trace.main, (start, end + 1000, *total))

    with pytest.raises(InvalidProof, match="does not verify"):
        said(forged(load_program("keccak-f", {"permutations": 1}), tamper))


@pytest.mark.parametrize("more", [(1, 0), (0, 1), (P - 3, 0)])
def test_values_that_nobody_looked_up(more: tuple[int, int]) -> None:
    """Range check on a table with room for more values: neither their number nor their sum is the prover's to say."""

    def tamper(index: int, trace: Trace) -> Trace:
        trace = doubled(index, trace)
        count, total = trace.public
        return Trace(trace.main, ((count + more[0]) % P, (total + more[1]) % P))

    with pytest.raises(InvalidProof, match="does not verify"):
        said(forged(load_program("range-check", {"values": 3, "bits": 2}), tamper))


def test_no_value_at_all() -> None:
    """Nothing on, nothing looked up: none, with a sum of none."""

    def tamper(index: int, trace: Trace) -> Trace:
        return Trace([None if m is None else m * np.uint64(0) for m in trace.main], (0, 0))

    says = said(forged(load_program("range-check", {"values": 3, "bits": 2}), tamper))
    assert (says["values"], says["sum"]) == ("0", "0")


# -- the prover's own arguments ---------------------------------------------------------------------------------------

BINDING: dict[str, list[str]] = {
    "fibonacci": ["rows"],
    "wide-fibonacci": ["rows", "width"],
    "keccak-f": [],
    "range-check": ["bits"],
    "file-root": ["layout"],
}
OTHER: dict[str, dict[str, int | str]] = {
    "fibonacci": {"rows": 32, "first": 3, "second": 4},
    "wide-fibonacci": {"rows": 32, "width": 5, "seed": 6},
    "keccak-f": {"permutations": 2, "first": 9},
    "range-check": {"values": 40, "bits": 3, "seed": 8},
    "file-root": {"file": "another", "layout": "narrow"},
}


def test_every_argument_is_bound_or_no_part_of_the_key() -> None:
    """Each argument of each program that ships, changed: all that a key binds changes, or nothing in the key at all."""
    assert {*BINDING, "riscv"} == {*OTHER, "riscv"} == set(PROGRAMS)
    for name, entry in ((name, PROGRAMS[name]) for name in BINDING):
        assert set(OTHER[name]) == {a.name for a in entry.arguments}
        made = entry.make({}, proving=False)
        assert list(made.arguments) == BINDING[name]
        check_arguments(made, lambda changed, entry=entry: entry.make(changed, proving=False))
        for argument, value in OTHER[name].items():
            changed = entry.make({argument: value}, proving=False)
            assert binds_the_same(made, changed) == (argument not in BINDING[name]), (name, argument)
            assert (changed.arguments == made.arguments) == (argument not in BINDING[name]), (name, argument)
        assert entry.unbound(OTHER[name]) == [a for a in OTHER[name] if a not in BINDING[name]]


@pytest.mark.parametrize(
    ("name", "given", "refused"),
    [
        ("wide-fibonacci", {"rows": 4, "seed": 5}, "seed"),
        ("range-check", {"bits": 2, "values": 40, "seed": 2}, "seed"),
        (
            "riscv",
            {"guest": f"{'0' * 64}-00010000-6-6", "public": "known", "input": "secret", "segment": 64},
            "input, segment",
        ),
    ],
)
def test_no_proof_seems_to_be_held_to_what_its_key_leaves_open(
    name: str, given: dict[str, int | str], refused: str
) -> None:
    """A proof with any seed verified with `--program range-check --with seed=MINE`."""
    held = {argument: value for argument, value in given.items() if argument not in refused}
    key = key_of(PROGRAMS[name].make(held, proving=False), Parameters(2, 3, 0, 1))
    assert own_key(key.named(), OwnProgram(name, held))[0].digest == key.digest
    with pytest.raises(UsageError, match=f"cannot be held to {refused},"):
        own_key(key.named(), OwnProgram(name, given))


@pytest.mark.parametrize(
    ("name", "given", "wrong"),
    [
        ("fibonacci", {"rows": 4, "first": 3, "second": 5}, {"first": 5, "second": "3"}),
        ("keccak-f", {"permutations": 1, "first": 9}, {"permutations": 2, "first": 8}),
        ("range-check", {"bits": 2, "values": 3}, {"values": 4}),
        ("file-root", {"file": __file__}, {"file": str(GUESTS / "sp1.c")}),
    ],
)
def test_a_proof_is_held_to_what_its_public_values_tell(
    tmp_path: Path, name: str, given: dict[str, int | str], wrong: dict[str, int | str]
) -> None:
    """A proof of any file verified with `--program file-root --with file=MINE`."""
    proof = forged(load_program(name, given))
    assert set(wrong) == set(load_program(name, given).compared)
    assert verify_proof(proof, least_security=0, program=OwnProgram(name, given)).own_program == name
    for argument, value in wrong.items():
        with pytest.raises(InvalidProof, match=f"the proof holds, and states {argument}: "):
            verify_proof(proof, least_security=0, program=OwnProgram(name, {**given, argument: value}))
    proof.write(tmp_path / "proof.msgpack")
    command = ("verify", tmp_path / "proof.msgpack", "--security", 0, "--program", name)
    texts = [f"--with={argument}={value}" for argument, value in given.items()]
    assert run(*command, *texts).exit_code == 0
    others = [f"--with={argument}={value}" for argument, value in {**given, **wrong}.items()]
    assert run(*command, *others).exit_code == 1


def test_no_exit_code_and_no_public_input_are_expected_of_what_states_none() -> None:
    proof = forged(load_program("fibonacci", {"rows": 4}))
    for more in ({"exit_code": 1}, {"public_input": b""}):
        with pytest.raises(UsageError, match="a proof of fibonacci"):
            verify_proof(proof, least_security=0, **more)  # type: ignore[arg-type]


def test_no_proof_of_ones_own_program_does_either() -> None:
    """What it cannot be made without is taken, whether its key depends on it or not."""
    own, params = f"{__name__}:Measured", Parameters(1, 3, 0, 1)
    key = key_of(Measured(log_rows=3, path="mine"), params)
    for given in ({"log_rows": 3, "path": "another"}, {"path": "another"}):
        assert own_key(key.named(), OwnProgram(own, given))[0].digest == key.digest
    for more in ({"text": "b"}, {"label": 1}, {"label": 2, "text": "b"}):
        with pytest.raises(UsageError, match=f"cannot be held to {', '.join(more)},"):
            own_key(key.named(), OwnProgram(own, {"log_rows": 3, "path": "mine", **more}))
    with pytest.raises(InvalidProof, match=r"not of labelled\(log_rows = 4\)"):
        own_key(key.named(), OwnProgram(own, {"log_rows": 4, "path": "mine"}))


def test_a_guests_key_names_the_guest_and_nothing_else() -> None:
    """What is in the guest's file makes the argument that its key has; inputs and segments are the prover's own."""
    entry, weak = PROGRAMS["riscv"], Parameters(2, queries=3, grinding_bits=0, security_bits=1)
    guest = {"elf": str(GUESTS / "fibonacci.elf")}
    key = key_of(entry.make(guest), weak)
    assert list(key.arguments) == ["guest"]
    for argument, value in {"input": "a", "public": "b", "segment": 64, "guest": ""}.items():
        assert key_of(entry.make({**guest, argument: value}), weak).digest == key.digest
    assert key_of(entry.make(dict(key.arguments), proving=False), weak).digest == key.digest
    assert key_of(entry.make({"elf": str(GUESTS / "sha256.elf")}), weak).digest != key.digest


@pytest.mark.parametrize(
    ("name", "arguments", "bound", "unbound"),
    [
        ("fibonacci", {"rows": 4, "first": 3, "second": 5}, {"rows": 4}, ("first", "second")),
        ("keccak-f", {"permutations": 1, "first": 5}, {}, ("permutations", "first")),
        ("range-check", {"values": 3, "bits": 2, "seed": 9}, {"bits": 2}, ("values", "seed")),
    ],
)
def test_what_only_the_prover_knows_is_not_told_as_proven(
    tmp_path: Path, name: str, arguments: dict[str, int | str], bound: dict[str, int | str], unbound: tuple[str, ...]
) -> None:
    program = load_program(name, arguments)
    proof = forged(program)
    proven = verify_proof(proof, least_security=0).proven
    assert proven["arguments"] == bound == proof.verification_key["arguments"]
    assert proven == StarkSystem(program, WEAK, 1).explain(
        proof.partitions
    )  # the prover's report, made with all of them
    proof.write(tmp_path / "proof.msgpack")
    program_line = run("verify", tmp_path / "proof.msgpack", "--security", 0).output.split("says")[0]
    assert not any(word in program_line for word in unbound)


def test_a_proof_file_adds_no_arguments_of_its_own() -> None:
    """Those of the key that is remade, and no others: nothing would bind them."""
    proof = forged(load_program("fibonacci", {"rows": 4}))
    for more in ({"first": 5}, {"second": 5}, {"rows": "2^2"}):
        named = {**proof.verification_key, "arguments": {"rows": 4, **more}}
        with pytest.raises(FormatError, match="not the arguments of fibonacci"):
            shipped_key(named)


class Boaster(FibonacciSteps):
    """Calls itself the program that ships, and tells of more rows than its tables have."""

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"rows": 1 << 20}


def test_a_key_of_no_program_at_hand_has_its_arguments_untold(tmp_path: Path) -> None:
    """A key may call itself what it likes: arguments that no program at hand answers for are not repeated."""
    proof = forged(Boaster(4))
    proof.write(tmp_path / "proof.msgpack")
    (tmp_path / "key.msgpack").write_bytes(key_content(key_of(Boaster(4), WEAK)))
    proven = verify_proof(proof, tmp_path / "key.msgpack", least_security=0).proven
    assert (proven["known"], proven["arguments"], proven["says"]) == (False, {}, {})
    done = run("verify", tmp_path / "proof.msgpack", "--vk", tmp_path / "key.msgpack", "--security", 0)
    assert "fibonacci, as the key calls it: the program is not at hand" in " ".join(done.output.split())
    assert str(1 << 20) not in done.output
    with pytest.raises(InvalidProof, match="not the one that its digest names"):
        said(proof)


class Labelled(Fibonacci):
    """A program whose key would mention an argument that binds nothing."""

    name = "labelled"

    def __init__(self, label: int = 1, text: str = "a", log_rows: int = 3, fixed: int = 0) -> None:
        super().__init__(log_rows)
        self.label, self.text, self.fixed = label, text, fixed
        self.told: tuple[str, ...] = ("log_rows",)

    @property
    def arguments(self) -> dict[str, int | str]:
        return {name: getattr(self, name) for name in self.told}

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return {"FibonacciAir": self.log_rows} if self.fixed else {}


class Measured(Labelled):
    """A program of its number of rows, which it binds, that asks for a path, too."""

    def __init__(self, path: str, log_rows: int = 3, label: int = 1, text: str = "a") -> None:
        super().__init__(label, text, log_rows, fixed=1)
        self.path = path


@pytest.mark.parametrize("told", ["label", "text", "log_rows"])
def test_an_argument_that_binds_nothing_is_refused(told: str) -> None:
    program = Labelled()
    program.told = (told,)
    with pytest.raises(UsageError, match=f"another {told} changes no table"):
        check_arguments(program, lambda changed: Labelled(**changed))  # type: ignore[arg-type]


def test_a_program_of_ones_own_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(UsageError, match="another log_rows changes no table"):
        load_program(f"{__name__}:Labelled", {"log_rows": 4})
    load_program(f"{__name__}:Labelled", {"log_rows": 4, "fixed": 1})


# -- heights ----------------------------------------------------------------------------------------------------------


class Heights(Ring):
    """A ring whose tables are fixed as a test says."""

    def __init__(self, **fixed: int) -> None:
        super().__init__(5)
        self.fixed = fixed

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return self.fixed


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        ({"TableAir": 3}, "16 rows of preprocessed columns, and it is fixed to 2.3"),
        ({"Table": 4}, "Table, which is none of its tables"),
    ],
)
def test_heights_that_a_program_cannot_fix(fixed: dict[str, int], says: str) -> None:
    with pytest.raises((AirError, UsageError), match=says):
        key_of(Heights(**fixed), WEAK)


def test_a_key_fixes_the_height_of_any_table() -> None:
    """With and without preprocessed columns; those of the former must be fixed, and are so by themselves."""
    assert key_of(Heights(), WEAK).fixed_heights == (None, 4)
    key = key_of(Heights(SquaresAir=5, TableAir=4), WEAK)
    assert key.fixed_heights == (5, 4)
    assert Heights(SquaresAir=5, TableAir=4).log_heights(2) == [(5, 4), (5, 4)]
    assert VerifyingKey.from_record(key.to_record()).digest == key.digest
    forged_job(Heights(SquaresAir=5), partitions=2).check()
    with pytest.raises(FormatError, match="not the heights"):
        forged_job(Heights(SquaresAir=6), partitions=2).check()
    for heights, root, says in (
        ([5, None], key.preprocessed_root, "without a fixed height"),
        ([5, 4], b"", "a root of 32 bytes"),
        ([-1, 4], key.preprocessed_root, "not a height"),
        ([True, 4], key.preprocessed_root, "not a height"),
    ):
        with pytest.raises(FormatError, match=says):
            VerifyingKey.from_record({**key.to_record(), "fixed_heights": heights, "preprocessed_root": root})
    plain = {**key_of(load_program("fibonacci", {"rows": 4}), WEAK).to_record(), "preprocessed_root": bytes(32)}
    with pytest.raises(FormatError, match="a root of 32 bytes"):
        VerifyingKey.from_record(plain)


def test_heights_are_in_the_jobs_digest() -> None:
    """One key, one name, the same public values, other rows: another job, to whoever expects the first."""
    proofs = [forged(load_program("range-check", {"values": 3, "bits": 2}), tamper) for tamper in (honest, doubled)]
    assert [p.partitions[0].public for p in proofs] == [proofs[0].partitions[0].public] * 2
    assert [heights_of(p.partitions[0]) for p in proofs] == [bytes([2, 2]), bytes([3, 2])]
    for proof in proofs:
        verify_proof(proof, expected_job=proof.job_digest, least_security=0)
    with pytest.raises(InvalidProof, match="is of job"):
        verify_proof(proofs[1], expected_job=proofs[0].job_digest, least_security=0)
    part = proofs[1].partitions[0]
    assert proofs[1].job_digest == job_digest("stark", proofs[1].key_digest, [(part.name, part.public, bytes([3, 2]))])


def doubled(index: int, trace: Trace) -> Trace:
    """Range check's values with as many rows of padding again."""
    values, limbs = trace.main
    more = np.zeros_like(values)
    more[3:] = values[3:, -1:]
    return Trace([np.concatenate((values, more), axis=1), limbs], trace.public)


class Anchored(FibonacciSteps):
    """A sequence that starts with 0, 1 and whose last partition ends at a given pair."""

    name = "test-anchored"

    def __init__(self, end: tuple[int, int], rows: int = 8) -> None:
        super().__init__(rows)
        self.end = end

    @property
    def statement(self) -> Statement:
        constants = (Constant("start", (0, 1), "first"), Constant("end", self.end, "last"))
        return replace(super().statement, constants=constants)


def starting(first: int) -> Tamper:
    """A sequence from another pair, through all partitions: nothing but its start is wrong."""

    def tamper(index: int, trace: Trace) -> Trace:
        rows = trace.main[0].shape[1]
        pairs = [(first, 1)]
        for _ in range((index + 1) * rows):
            pairs.append((pairs[-1][1], sum(pairs[-1]) % P))
        own = pairs[index * rows : (index + 1) * rows + 1]
        return Trace([np.array(own[:-1], dtype=np.uint64).T.copy()], (*own[0], *own[-1]))

    return tamper


def fibonacci_pair(steps: int) -> tuple[int, int]:
    pair = (0, 1)
    for _ in range(steps):
        pair = (pair[1], sum(pair))
    return pair


def test_a_job_starts_and_ends_at_the_constants_of_its_statement() -> None:
    """Each forgery is a true statement about another sequence, or about another number of steps."""
    end = fibonacci_pair(24)
    forged_job(Anchored(end), partitions=3).check()
    for program, tamper, partitions in (
        (Anchored(end), starting(5), 3),
        (Anchored(end), honest, 2),
        (Anchored(end), honest, 4),
    ):
        with pytest.raises(InvalidProof):
            forged_job(program, tamper, partitions).check()


def test_a_key_without_its_constants_is_another_key() -> None:
    job = forged_job(Anchored(fibonacci_pair(8)), starting(5))
    record = job.key.to_record()
    del record["statement"]["constants"]
    looser = VerifyingKey.from_record(record)
    assert looser.digest != job.key.digest
    with pytest.raises(InvalidProof):
        replace(job, key=looser).check()


@pytest.mark.parametrize(
    "constants",
    [
        [],
        None,
        {},
        [["none", [0], "first"]],
        [["start", [0], "first"]],
        [["start", [0, P], "first"]],
        [["start", [0, -1], "first"]],
        [["start", [0, True], "first"]],
        [["start", [0, 1], "second"]],
        [["start", [0, 1]]],
        [["start", 0, "first"]],
    ],
)
def test_constants_that_no_statement_has(constants: object) -> None:
    key = key_of(Anchored((1, 1)), WEAK)
    record = key.to_record()
    assert VerifyingKey.from_record(record).to_record() == record
    record["statement"]["constants"] = constants
    with pytest.raises(FormatError):
        VerifyingKey.from_record(record)
    with pytest.raises(second_verifier.Refused):
        second_verifier.Key(record)
