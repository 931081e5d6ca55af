"""A program whose jobs a contract reads, and the last node of the tree over one, made without a scheduler.

No rule ties a segment's public values to its rows. So segments that state anything are proven, each by itself, and what
the circuit for a contract checks of all of them is all that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from distprove.stark.air import Air, Bus, Table
from distprove.stark.barrier import Commitment
from distprove.stark.multilinear.job_challenge import multilinear_job_challenge
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.prover import commit, prove
from distprove.stark.multilinear.proving_key import make_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.output import DIGEST_VALUES, output_public, output_stream
from distprove.stark.program import Cut, Fits, Program, Slice, Trace
from distprove.stark.recursion.contract import ProgramRecord, Read
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.node import Identity, Proven
from distprove.stark.recursion.plan import INNER, ROOT, Form, TreeNode, in_fours, kinds_of, plan_above, plan_tree
from distprove.stark.recursion.tree import TreeKeys
from distprove.stark.recursion.tree_keys import keys_of_tree
from distprove.stark.statement import Boundary, Constant, Output, PublicRef, Statement
from distprove.steps import Steps
from kernels.interface.backend import Backend
from tests.support.one_proofs import FEW

OUTPUT = Bus("output", fields=("place", "word"), scope="global")
GIVEN = Bus("given", fields=("segment", "value"), scope="global")
LOG_ROWS = 4
ENTRY = 77
PUBLIC = (
    ("segment", 1),
    ("start", 1),
    ("end", 1),
    ("final", 1),
    ("exit_code", 1),
    ("inputs", 1),
    ("length", 1),
    ("digest", DIGEST_VALUES),
    ("count", 1),
    ("stated", 1),
)
PLACE = {name: sum(size for _, size in PUBLIC[:at]) for at, (name, _) in enumerate(PUBLIC)}


class SendsAir(Air):
    """Sends any words of an output, and any pairs."""

    name = "sends"
    main: ClassVar = {"times": 1, "place": 1, "word": 1, "gives": 1, "segment": 1, "value": 1}

    def define(self, t: Table) -> None:
        row = t.this
        t.boolean(row.times)
        t.boolean(row.gives)
        t.send(OUTPUT, {"place": row.place, "word": row.word}, times=row.times)
        t.send(GIVEN, {"segment": row.segment, "value": row.value}, times=row.gives)


@dataclass(frozen=True)
class Segment:
    """What a segment states and sends, true or not."""

    public: tuple[int, ...]
    words: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int], ...]

    def stating(self, **values: int) -> Segment:
        """The segment with other public values, by name."""
        public = list(self.public)
        for name, value in values.items():
            public[PLACE[name]] = value
        return replace(self, public=tuple(public))


def true_segments(count: int, output: bytes, *, exit_code: int = 0, entry: int = ENTRY) -> list[Segment]:
    """The segments of a job that holds: a chain from `entry` on, each with a pair; the last one sends the output."""
    made = []
    for number in range(count):
        last = number == count - 1
        state = (entry + number, entry + number + 1)
        numbers = (number, *state, int(last), exit_code if last else 0, 0)
        words = tuple(enumerate(output_stream(output).tolist())) if last else ()
        given = 1000 + number
        made.append(Segment((*numbers, *output_public(output), count, given), words, ((number, given),)))
    return made


class Reads(Program):
    """A job of segments that say anything."""

    name = "test-reads"

    def __init__(self, segments: Sequence[Segment] = (), output: bytes = b"", entry: int = ENTRY) -> None:
        self.segments, self.content, self.entry = list(segments), output, entry

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"entry": self.entry}

    @property
    def tables(self) -> Sequence[Air]:
        return (SendsAir(),)

    @property
    def buses(self) -> Sequence[Bus]:
        return (OUTPUT, GIVEN)

    @property
    def statement(self) -> Statement:
        return Statement(
            public=PUBLIC,
            index="segment",
            count="count",
            same=("digest",),
            chain=(("end", "start"),),
            boundary=(Boundary(GIVEN.name, (PublicRef("segment"), PublicRef("stated")), -1),),
            constants=(Constant("start", (self.entry,), "first"), Constant("final", (1,), "last")),
            output=Output(OUTPUT.name, "length", "digest"),
        )

    def log_heights(self, partitions: int) -> Sequence[Sequence[int]]:
        return [(LOG_ROWS,)] * partitions

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        return replace(super().cut(partitions, fits), output=self.content)

    def slices(self, partitions: int) -> list[Slice]:
        return [
            Slice(f"part-{i:02}", {"words": own.words, "pairs": own.pairs, "public": own.public})
            for i, own in enumerate(self.segments)
        ]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, np.ndarray]:
        rows = np.zeros((6, 1 << LOG_ROWS), dtype=np.uint64)
        for first, tuples in ((0, source["words"]), (3, source["pairs"])):
            if tuples:
                rows[first, : len(tuples)] = 1
                rows[first + 1 : first + 3, : len(tuples)] = np.array(tuples, dtype=np.uint64).T
        return {"rows": rows, "public": np.array(source["public"], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Any], backend: Any) -> Trace:
        return Trace([inputs["rows"]], tuple(map(int, backend.to_host(inputs["public"]))))


@dataclass(frozen=True)
class ReadJob:
    """The last node below the root of a tree over segments, with what a contract would read."""

    key: MultilinearKey
    node: MultilinearKey
    """The key of nodes."""
    form: ContractForm
    record: ProgramRecord
    segments: list[Commitment]
    read: Read
    below: Proven
    leaves: list[Proven]


class ReadJobs:
    """Makes such jobs on a backend; keys are kept."""

    def __init__(self, backend: Backend, places: int) -> None:
        self._backend, self._places = backend, places
        self._trees: dict[tuple[bytes, object], TreeKeys] = {}

    def prove(
        self,
        segments: Sequence[Segment],
        output: bytes,
        *,
        names: Sequence[str] | None = None,
        bound: bytes | None = None,
        exit_code: int | None = None,
        entry: int = ENTRY,
    ) -> ReadJob:
        """The tree over these segments, each proven. `bound` is the output that their challenge is drawn from, if it is
        another one."""
        program = Reads(segments, output, entry)
        options = {**FEW, "known": program.log_heights(self._places)}
        params = replace(choose_parameters(program, self._places, **options), places=self._places)
        pk = make_key(program, params, self._backend)
        slices = program.slices(len(segments))
        slices = [replace(own, name=name) for own, name in zip(slices, names or [s.name for s in slices], strict=True)]
        committed = [commit(pk, own.name, program.inputs(own.source), Steps()) for own in slices]
        listed = [own.commitment for own in committed]
        challenge = multilinear_job_challenge(pk.key, listed, output if bound is None else bound)
        proofs: list[MultilinearProof] = [prove(pk, own, challenge, Steps()) for own in committed]
        made = {
            f"{number}": Proven(own.name, own.public, proof)
            for number, (own, proof) in enumerate(zip(listed, proofs, strict=True))
        }
        keys, heights = self.keys(pk.key, listed), listed[0].log_heights
        nodes = plan_above(in_fours([str(number) for number in range(len(listed))]))[:-1]
        for node in nodes:
            made[node.name] = keys.prove(node, [made[name] for name in node.children], challenge, Steps())
        forms = [Form.of(own.name, own.log_heights) for own in listed]
        leaf = Identity.of(keys.leaf(forms[:1]).key)
        form = ContractForm.of(pk.key, forms[0].name_length, keys.node.key)
        record = ProgramRecord.of(form.digest(), pk.key, heights, leaf)
        code = segments[-1].public[PLACE["exit_code"]] if exit_code is None else exit_code
        read = Read(record.digest(), code, output)
        leaves = [made[node.name] for node in nodes if node.is_leaf]
        return ReadJob(pk.key, keys.node.key, form, record, listed, read, made[nodes[-1].name], leaves)

    def keys(self, key: MultilinearKey, listed: Sequence[Commitment]) -> TreeKeys:
        heights = {own.name: own.log_heights for own in listed}
        kind = kinds_of(plan_tree(heights), heights)[ROOT].of_role(INNER)
        if (key.digest, kind.leaves) not in self._trees:
            self._trees[key.digest, kind.leaves] = keys_of_tree(key, kind, self._backend)
        return self._trees[key.digest, kind.leaves]

    def node_over(self, job: ReadJob, children: Sequence[Proven], challenge: bytes) -> Proven:
        """A node of the job's tree over nodes."""
        node = TreeNode("node-9-00000", tuple(child.name for child in children))
        return self.keys(job.key, job.segments).prove(node, children, challenge, Steps())
