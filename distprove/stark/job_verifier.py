"""The STARK's verifier of whole jobs: partition proofs, what ties them together, and what they state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from distprove.errors import InvalidProof, UsageError
from distprove.expected import JobValue
from distprove.formats.owncode import own_faults
from distprove.proof import TakenWrap
from distprove.stark.engine import AnyKey, engine_of
from distprove.stark.heights import LogHeights
from distprove.stark.output import digest_of
from distprove.stark.program import Program
from distprove.system import PartitionProof


class StarkVerifier:
    """Verifies partition proofs, and whole jobs, under one verifying key.

    Implements `Verifier`, `TakesOutput`, `VerifiesWhole`, `BoundsWork` and `TakesWrap` of `distprove.proof`,
    `VerifiesInPython`, `VerifiesJob`, `Explains`, `Compares` and `KnowsWeakness` of `distprove.system`, and
    `NamesPublic` of `distprove.expected`.
    """

    verifies_in_python = True

    def __init__(
        self,
        key: AnyKey,
        program: Program | None = None,
        output: bytes | None = None,
        asked: Mapping[str, Any] | None = None,
        *,
        node_key: Callable[[Any, Any], Any] | None = None,
        tree_wires: int | None = None,
        wrap: Any = None,
    ) -> None:
        """`program` is the key's program, if it is available, to explain the public values. `output` is the job's, if
        its statement has one of variable length. `asked` are arguments that `compare` compares.
        `node_key` makes the keys of a tree's nodes (`distprove.stark.keyfile`). It is given here, since a verifier
        imports nothing of provers; without it no job that ends in one proof is verified. `tree_wires` bounds what these
        keys cost (`distprove.stark.recursion.work`, which has the default). `wrap` is a `distprove.stark.wrap.files`
        `Wrap` that is verified in place of a root's proof."""
        self.key, self.program, self.output, self.asked = key, program, output, asked or {}
        self._wrap = wrap
        self._node_key, self._tree_wires = node_key, tree_wires
        self._engine = engine_of(key)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _engine=engine_of(state["key"]))

    @property
    def has_output(self) -> bool:
        """Whether the jobs of the key have an output, without which none can be verified."""
        return self.key.statement.output is not None

    def with_output(self, output: bytes) -> StarkVerifier:
        return self._with(output=output)

    def with_tree_wires(self, most: int) -> StarkVerifier:
        return self._with(tree_wires=most)

    def with_wrap(self, beside: Path, key: Path) -> StarkVerifier:
        from distprove.circuits.wrap.statement import READ_NAMES
        from distprove.stark.wrap.files import Wrap

        wrap = Wrap.read(beside, key)
        if len(wrap.public) == len(READ_NAMES):
            raise UsageError("a wrap that a contract reads: `distprove.verify_contract` verifies it, without a list")
        return self._with(wrap=wrap)

    def wrap_taken(self) -> TakenWrap | None:
        taken: TakenWrap | None = None if self._wrap is None else self._wrap.taken()
        return taken

    def weakness(self) -> str | None:
        """Why anybody can forge wraps under the key of the one that is verified, if it shows that."""
        found: str | None = None if self._wrap is None else self._wrap.key.weakness
        return found

    def _with(self, **changed: Any) -> StarkVerifier:
        """A copy with other arguments."""
        given = {"output": self.output, "tree_wires": self._tree_wires, "wrap": self._wrap, **changed}
        return StarkVerifier(self.key, self.program, asked=self.asked, node_key=self._node_key, **given)

    def key_digest(self) -> bytes:
        return self.key.digest

    def verify(self, proof: PartitionProof) -> bool:
        """Whether this partition's own proof holds. Raises FormatError for a malformed proof."""
        parsed, shape = self._engine.parse(proof.data, self.key, proof.name)
        try:
            self._engine.verify(self.key, proof.name, proof.public, parsed, shape)
        except InvalidProof:
            return False
        return True

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(self.verify(proof) for proof in proofs)

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Check all partitions together: that none is missing, and that the global buses balance.

        Each was verified alone, which parsed all of it: only what ties it to the job is parsed again. Raises
        InvalidProof, OutputMissing, FormatError.
        """
        parsed = [self._engine.part(p.data, self.key, p.name) for p in proofs]
        self._engine.verify_job(self.key, [p.name for p in proofs], [p.public for p in proofs], parsed, self.output)

    def verify_whole(self, partitions: Sequence[PartitionProof], whole: dict[str, Any], output: bytes | None) -> None:
        if self._wrap is not None:
            from distprove.stark.wrap.verifier import verify_wrap

            verify_wrap(self.key, self.tree_keys(), partitions, whole, self._wrap, output, self._tree_wires)
            return
        from distprove.stark.recursion.whole import verify_whole

        verify_whole(self.key, self.tree_keys(), partitions, whole, output, self._tree_wires)

    def compare(
        self, proofs: Sequence[PartitionProof], exit_code: int | None, public_input: Path | bytes | None
    ) -> None:
        public = [proof.public for proof in proofs]
        stated = self.key.statement.exit_code(public)
        if stated is None and exit_code is not None:
            raise UsageError(f"an exit code is given, and a proof of {self.key.program} states none")
        if stated is not None and stated != (expected := exit_code or 0):
            raise InvalidProof(
                f"the proof holds, and states exit code {stated}; {expected} is expected (--exit-code, exit_code=)"
            )
        given = {} if public_input is None else {"public": public_input}
        for name, value in {**self.asked, **given}.items():
            if self.program is None or name not in self.program.compared:
                raise UsageError(f"a public input is given, and a proof of {self.key.program} is compared with none")
            with own_faults(self.program.__module__):
                told, meant = self.program.compare(name, value, public)
            if told != meant:
                raise InvalidProof(f"the proof holds, and states {name}: {told}; expected as named here: {meant}")

    def job_values(self) -> list[JobValue]:
        statement = self.key.statement
        return [JobValue(name, count, statement.partition_of_job(name)) for name, count in statement.public]

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        """The program, what was proven, and the security of the job's proof, given proofs that hold.

        Without the program only its name is told, and the names of public values: nothing but the word of the key's
        maker ties the arguments in the key to its tables.
        """
        heights = [self._engine.heights_in(p.data, self.key, p.name) for p in proofs]
        return self._explained(proofs, heights, self._engine.security(self.key, heights).to_record())

    def explain_whole(self, partitions: Sequence[PartitionProof]) -> dict[str, Any]:
        """Explain a job that ends in one proof. Its bits are those of the weakest layer of its tree."""
        from distprove.stark.recursion.whole import heights_of_listed, layers_of, with_layers

        key: Any = self.key  # of the multilinear engine, or no one proof holds
        heights = list(heights_of_listed(key, partitions).values())
        record = self._engine.security(key, heights).to_record()
        layers = layers_of(key, self.tree_keys(), partitions)
        if self._wrap is not None:
            from distprove.stark.wrap.verifier import wrap_layer

            layers = [*layers[:-1], wrap_layer(key, self.tree_keys(), partitions)]
        return self._explained(partitions, heights, with_layers(record, layers))

    def tree_keys(self) -> Callable[[Any, Any], Any]:
        if self._node_key is None:
            raise UsageError("this verifier was made without the keys of trees, and verifies no proof of a whole job")
        return self._node_key

    def _explained(
        self, proofs: Sequence[PartitionProof], heights: Sequence[LogHeights], security: dict[str, Any]
    ) -> dict[str, Any]:
        says: dict[str, str] = {}
        if self.program is not None:
            with own_faults(self.program.__module__):
                says = self.program.explain([p.public for p in proofs], heights)
        stated = self.key.statement.output_public(proofs[0].public)
        output = {"output": {"bytes": stated[0], "keccak256": digest_of(stated[1:]).hex()}} if stated else {}
        code = self.key.statement.exit_code([p.public for p in proofs])
        return {
            **output,
            **({} if code is None else {"exit_code": code}),
            "program": self.key.program,
            "known": self.program is not None,
            "arguments": dict(self.key.arguments) if self.program is not None else {},
            "says": says,
            "public": [list(named) for named in self.key.statement.public],
            "security": security,
        }
