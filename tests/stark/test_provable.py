"""What no verifier would accept is refused before anything is proven: when a job is made, or at its barrier.

`air check` refuses the same, by the same function.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from distprove.cli.app import app
from distprove.errors import AirError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.stark.air import Air, Bus, Table
from distprove.stark.air.check import BoundaryTuple, Example, PartitionTrace
from distprove.stark.barrier import Commitment
from distprove.stark.field import P
from distprove.stark.options import StarkOptions
from distprove.stark.params import Parameters
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.fibonacci import Fibonacci
from distprove.stark.proof import StarkProof, content_bytes
from distprove.stark.provable import check_made
from distprove.stark.shape import ProofShape
from distprove.stark.statement import Boundary, Statement
from distprove.stark.system import StarkProver, StarkSystem
from distprove.stark.systems import StarkSystems
from distprove.stark.verifying_key import VerifyingKey, compile_program
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash
from kernels.maths.query_paths import QueryPaths
from tests.support.golden_jobs import JOBS, golden
from tests.support.stark_programs import WithoutInputs

NEAR, FAR = Bus("near", 1), Bus("far", 1, "global")


class Plain(Air):
    """A column of zeros, and a power of it."""

    main: ClassVar = {"x": 1}

    def __init__(self, number: int = 0, power: int = 2) -> None:
        self.number, self.power = number, power

    @property
    def name(self) -> str:
        return f"plain-{self.number}"

    def define(self, t: Table) -> None:
        product = t.this.x
        for _ in range(self.power - 1):
            product = product * t.this.x
        t.always(t.this.x, name="zero")
        t.always(product, name="steep")

    def example(self) -> Example:
        return Example([self], [PartitionTrace([zeros(1)], {})])


class Steep(Plain):
    def __init__(self, power: int) -> None:
        super().__init__(0, power)


class Meets(Air):
    """Sends zeros on a bus, receives them there, or both; all multiplicities that are not constant are zero."""

    main: ClassVar = {"x": 1, "times": 1}

    def __init__(self, bus: Bus, *, sends: int | None = 0, receives: int | None = 0) -> None:
        """`sends`, `receives`: the bound; 0: not at all."""
        self.bus, self.sends, self.receives = bus, sends, receives

    def define(self, t: Table) -> None:
        t.always(t.this.x)
        if self.sends != 0:
            t.send(self.bus, (t.this.x,), times=t.this.times, at_most=self.sends)
        if self.receives != 0:
            t.receive(self.bus, (t.this.x,), times=t.this.times, at_most=self.receives)

    def example(self) -> Example:
        return Example([self], [PartitionTrace([zeros(2)], {})])


class Endless(Meets):
    def __init__(self) -> None:
        super().__init__(NEAR, sends=None, receives=None)


class Unheard(Meets):
    def __init__(self) -> None:
        super().__init__(FAR, sends=1)


class Answered(Unheard):
    """The same with a boundary that could receive, were anything sent."""

    def example(self) -> Example:
        return Example([self], [PartitionTrace([zeros(2)], {})], boundary=[BoundaryTuple(FAR, (0,), -1)])


class Zeros(WithoutInputs):
    """Tables of four rows of zeros."""

    name = "zeros"
    buses = (NEAR, FAR)
    rows = 2

    @property
    def tables(self) -> Sequence[Air]:
        return (Plain(),)

    @property
    def statement(self) -> Statement:
        return Statement()

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(self.rows,) * len(self.tables)] * partitions

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([zeros(sum(air.main.values())) for air in self.tables], (0,) * self.statement.public_values)


def zeros(width: int) -> np.ndarray:
    return np.zeros((width, 4), dtype=np.uint64)


def program(**members: Any) -> type[Program]:
    """A class of zeros with other members."""
    return type("Made", (Zeros,), members)


def unsaid(self: Program, partitions: int) -> Sequence[Sequence[int]]:
    raise UsageError("how tall they are is not said")


def steep(power: int) -> type[Program]:
    return program(tables=(Plain(power=power),))


ACROSS = P // 8
"""A bound that four rows keep below p in one partition and not in three."""

REFUSED: dict[str, tuple[type[Program], str]] = {
    "513 tables": (program(tables=[Plain(i) for i in range(513)]), "1 to 512 tables, not 513"),
    "two tables of one name": (program(tables=[Plain(), Plain()]), "two tables"),
    "a degree that no blow-up carries": (steep(12), "plain-0: constraint steep has degree 12"),
    "a degree beyond all": (steep(300), "plain-0: constraint steep has degree 300"),
    "both sides unbounded": (program(tables=[Endless()]), "bus near"),
    "nobody receives": (program(tables=[Meets(NEAR, sends=1)]), "bus near"),
    "nobody sends": (program(tables=[Meets(NEAR, receives=None)]), "bus near"),
    "no boundary": (program(tables=[Unheard()]), "bus far"),
    "a boundary on the same side": (
        program(tables=[Unheard()], statement=Statement(boundary=(Boundary("far", (0,), 1),))),
        "bus far",
    ),
    "a boundary where no table is": (
        program(statement=Statement(boundary=(Boundary("far", (0,), 1), Boundary("far", (0,), -1)))),
        "bus far",
    ),
    "a boundary on a local bus": (program(statement=Statement(boundary=(Boundary("near", (0,), 1),))), "near"),
    "a boundary of another width": (program(statement=Statement(boundary=(Boundary("far", (0, 0), 1),))), "far"),
    "multiplicities that wrap over all partitions": (
        program(tables=[Meets(FAR, sends=ACROSS, receives=None)]),
        "bus far",
    ),
    "an unused bus that is named twice": (program(buses=(NEAR, Bus("near", 2))), "near|same name"),
    "a bound beyond the field": (program(tables=[Meets(NEAR, sends=P, receives=None)]), "Meets.*bound"),
    "a public value without a name": (program(statement=Statement(public=(("", 1),))), "public values"),
    "public values without end": (program(statement=Statement(public=(("v", 4097),))), "4097|public values"),
    "a chain of different lengths": (
        program(statement=Statement(public=(("a", 1), ("b", 2)), chain=(("a", "b"),))),
        "public values",
    ),
    "a count that is not there": (program(statement=Statement(count="n")), "public values"),
    "an argument beyond 64 bits": (program(arguments={"seed": 1 << 64}), "64 bits"),
    "an argument that is a fraction": (program(arguments={"seed": 0.5}), "float"),
    "an argument that is a truth": (program(arguments={"seed": True}), "integers and strings"),
    "a table taller than any": (program(rows=29), "2\\^|cannot be proven"),
    "a partition's heights left out": (program(log_heights=lambda self, partitions: [(2,)]), "heights"),
}


def system(made: type[Program], monkeypatch: pytest.MonkeyPatch, partitions: int = 3, **options: Any) -> StarkSystem:
    """The system of a job of three partitions, as `prove` makes it."""
    monkeypatch.setattr("distprove.stark.programs.registry.load_class", lambda name: made)
    return StarkSystem.from_options(StarkOptions("own:Made", partitions=partitions, **options))


def test_a_program_that_can_be_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the refusals below would mean nothing. Of these the first two are those at the edge."""
    for made in (
        program(tables=[Plain(i) for i in range(512)]),
        program(tables=[Meets(FAR, sends=P // 16, receives=None)]),
        program(tables=[Unheard()], statement=Statement(boundary=(Boundary("far", (0,), -1),))),
        program(log_heights=unsaid),
    ):
        made_system = system(made, monkeypatch, queries=1000)
        assert len(made_system.plan()) == 3


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("queries", [None, 300])
def test_refused_before_the_first_partition(name: str, queries: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the number of queries is given, so that nothing has to be computed to choose it."""
    made, message = REFUSED[name]
    with pytest.raises((UsageError, AirError), match=message):
        system(made, monkeypatch, queries=queries)


@pytest.mark.parametrize("name", REFUSED)
def test_air_check_refuses_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of three partitions' traces, which are in order, does not say that the program holds."""
    made, _ = REFUSED[name]
    monkeypatch.setattr("distprove.cli.air._load", lambda *given, **more: made())
    done = CliRunner().invoke(app, ["air", "check", "own:Made", "--partitions", "3"])
    assert done.exit_code == 2, done.output
    assert "holds" not in done.stdout
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("tests.stark.test_provable:Endless", "bus near"),
        ("tests.stark.test_provable:Unheard", "bus far"),
        ("tests.stark.test_provable:Steep --with power=12", "constraint steep has degree 12"),
        ("tests.stark.test_provable:Steep --with power=300", "constraint steep has degree 300"),
    ],
)
def test_air_check_refuses_airs_that_cannot_be_proven(target: str, says: str) -> None:
    done = CliRunner().invoke(app, ["air", "check", *target.split()])
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert "holds" not in done.stdout


@pytest.mark.parametrize(("power", "blowup"), [(2, 2), (3, 2), (5, 4), (9, 8)])
def test_the_blow_up_is_the_least_that_the_tables_allow(
    power: int, blowup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert system(steep(power), monkeypatch, queries=1000).params.blowup == blowup
    assert system(steep(power), monkeypatch, queries=1000, blowup=8).params.blowup == 8
    if blowup > 2:
        with pytest.raises(UsageError, match="needs a blow-up of at least"):
            system(steep(power), monkeypatch, queries=1000, blowup=2)


def test_air_check_of_a_boundary_that_does_not_balance() -> None:
    done = CliRunner().invoke(app, ["air", "check", "tests.stark.test_provable:Answered"])
    assert done.exit_code == 1
    assert "bus far" in done.stdout


def test_too_few_queries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the job is made, or, of a program that does not say how tall it is, when its partition is committed to."""
    with pytest.raises(UsageError, match=r"bits of security.*128"):
        system(Zeros, monkeypatch, queries=50)
    made = system(program(log_heights=unsaid), monkeypatch, partitions=1, queries=50)
    (partition,) = made.plan()
    with CpuBackend(threads=1) as backend, pytest.raises(UsageError, match=r"bits of security.*128"):
        StarkProver(made, backend).commit(partition, made.synthesiser({}, 1).synthesise(partition))


def test_a_trace_taller_than_its_program_told_is_refused_with_both_heights() -> None:
    key = compile_program(program()(), Parameters(1, 50, 16, 128))
    with pytest.raises(
        UsageError, match=r"128 are asked for; the trace has 2\^3 rows, and log_heights.* told of 2\^2$"
    ):
        check_made(key, (3,), (2,))
    for told in (None, (3,)):  # nothing else is to blame then
        with pytest.raises(UsageError, match=r"128 are asked for$"):
            check_made(key, (3,), told)


@pytest.mark.parametrize("engine", ["fri", "multilinear"])
def test_a_job_that_is_not_cut_yet_is_refused_for_its_queries_only_where_it_would_be(
    tmp_path: Path, engine: str
) -> None:
    """A service refused such jobs by the bits at one row, where a query has none."""
    file = tmp_path / "file"
    file.write_bytes(bytes(300))

    def options(queries: int) -> StarkOptions:
        given = {"program": "file-root", "arguments": {"file": str(file)}, "engine": engine}
        return StarkOptions(**given, queries=queries, security=100)

    enough = options(300)
    StarkSystem.check_job(enough)
    assert StarkSystem.from_options(enough).plan()
    with pytest.raises(UsageError, match=r"queries give at most \d+\.\d bits of security, and 100"):
        StarkSystem.check_job(options(2))


def test_so_many_partitions_that_their_file_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof.msgpack of more than 2^30 bytes."""
    with pytest.raises(UsageError, match=f"the proofs of {1 << 17} partitions"):
        system(program(rows=10), monkeypatch, partitions=1 << 17)


@pytest.mark.parametrize("name", JOBS)
def test_what_a_proof_takes_in_a_file(name: str) -> None:
    job = golden(name)
    key = VerifyingKey.from_record(job["key"])
    for part in job["partitions"]:
        _, shape = StarkProof.from_record(part["proof"], key)
        encoded = len(canonical.encode(part["proof"]))
        assert 0.75 * encoded < content_bytes(shape) < 1.1 * encoded  # two or three queries share more or less
        assert encoded <= content_bytes(shape, at_most=True)


@pytest.mark.parametrize("tree_hash", [TreeHash.KECCAK, TreeHash.POSEIDON2])
@pytest.mark.parametrize("log_rows", [6, 10, 14, 20])
@pytest.mark.parametrize("queries", [1, 7, 100])
def test_the_nodes_that_queries_open_are_at_most_what_is_said(tree_hash: TreeHash, log_rows: int, queries: int) -> None:
    """Also where queries meet no node twice, and under Poseidon2, whose nodes have three siblings."""
    params = Parameters(1, queries, 0, 0, tree_hash=tree_hash)
    key = compile_program(Fibonacci(rows=1 << log_rows), params)
    shape = ProofShape(key, (log_rows,))
    trees = [*shape.rounds.values(), *shape.fri_trees]
    most = content_bytes(shape, at_most=True)
    for at in (range(queries), random.Random(1).sample(range(1 << log_rows), min(queries, 1 << log_rows))):
        paths = QueryPaths(list(at), shape.log_domain)
        nodes = sum(len(paths.path_of(tree.levels)) for tree in trees)
        rows = sum(len(paths.known(log)) * width for tree in trees for log, width in tree.matrices)
        values = 3 * (shape.weights + shape.terminals + (1 << shape.log_final))
        assert 32 * nodes + 8 * (rows + values) <= most


@pytest.mark.parametrize("names", [["a", "b", "a"], ["a", "b"], ["a", "b", "-c"], ["a", "b", "n" * 121]])
def test_slices_that_are_no_partitions(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(slices=lambda self, partitions: [Slice(name, {}) for name in names])
    with pytest.raises(UsageError, match="partition"):
        system(made, monkeypatch).plan()


@pytest.mark.parametrize(
    ("members", "publics", "says"),
    [
        ({"statement": Statement((("own", 1),), index="own")}, [[0], [2], [2]], "position"),
        ({"statement": Statement((("own", 1),), same=("own",))}, [[0], [0], [1]], "differs"),
        ({"tables": [Meets(FAR, sends=ACROSS, receives=None)]}, [[], [], []], "wrap"),
        ({}, [[], [0], []], "public values"),
    ],
)
def test_a_job_that_cannot_hold_together_ends_at_its_barrier(
    members: dict[str, Any], publics: list[list[int]], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions hold one by one; that they are no job is seen from their commitments, before any is proven."""
    made = system(program(log_heights=unsaid, **members), monkeypatch, queries=300)
    commitments = [Commitment(f"part-{i}", (2,), tuple(public), bytes(32), b"") for i, public in enumerate(publics)]
    with pytest.raises(InvalidProof, match=says):
        made.check_commitments([c.to_bytes() for c in commitments])


def test_a_job_that_ends_in_one_proof_has_no_proof_of_a_partition_in_its_file() -> None:
    """Ten thousand such proofs fit no file, and a job that ends in one was refused for it."""
    options: dict[str, Any] = {"partitions": 10_000, "engine": "multilinear", "hash": "poseidon2"}
    given = StarkOptions("fibonacci", {"rows": 1 << 16}, **options)
    with pytest.raises(UsageError, match="no file of more than 1 GiB is read"):
        StarkSystems.check_job(given)
    StarkSystems.check_job(replace(given, one_proof=True))
