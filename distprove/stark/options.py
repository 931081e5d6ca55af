"""The options of the STARK: the part of a job file that belongs to it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from distprove.errors import UsageError
from distprove.formats.files import real, require_file
from distprove.formats.owncode import names_code
from distprove.options import MAX_PARTITIONS, SECURITY_BITS, InputFile, Options, setting
from distprove.stark.params import BLOWUPS, ENGINES, MAX_BLOWUP
from kernels.interface.tree_hash import TreeHash

MANY = 16
"""Number of partitions from which a second prover for each GPU may save more than its start takes: a second or so, in
which one prover is done with a dozen small partitions."""

MOST_GRINDING = 32
"""Maximum bits of proof of work that a job may ask for, some minutes of a core for each partition. A verifier takes
more, but a prover at work on 40 bits is lost to others for a day, and is not called off within a step."""


@dataclass(frozen=True)
class StarkOptions(Options):
    """A STARK program with its arguments, the number of partitions, and the parameters that give its security."""

    program: str = setting("what to prove: a program that ships, or one of your own as module:Class", MISSING)
    arguments: Mapping[str, int | str] = setting("the program's own; paths are relative to the job file", dict)
    """All arguments of the program, checked, with absolute paths; a user's own program checks its arguments itself."""
    partitions: int | None = setting(
        "partitions to cut it into; by default as the program's execution or memory tells",
        bounds=(1, MAX_PARTITIONS),
        flag="--partitions",
        auto=True,
    )
    engine: str = setting(
        "fri, or multilinear: smaller proofs, tables of at least 2^4 rows", "fri", choices=ENGINES, flag="--engine"
    )
    prefer: str = setting(
        "speed: larger proofs, faster; size: smaller ones, slower, of the same security", "speed", flag="--prefer"
    )
    blowup: int | None = setting(
        "2, 4 or 8; by default 2 for speed and 4 for size, or what the tables need",
        bounds=(2, MAX_BLOWUP),
        flag="--blowup",
    )
    security: int = setting("proven bits; queries follow", SECURITY_BITS, bounds=(1, 128), flag="--security")
    grinding: int = setting(
        "bits of proof of work before the queries", 16, bounds=(0, MOST_GRINDING), flag="--grinding"
    )
    queries: int | None = setting(
        "queries, for programs that do not say how tall they are", bounds=(1, 1024), flag="--queries"
    )

    hash: str = setting(
        "keccak256, or poseidon2 for proofs that a circuit can verify, which take longer to make, or poseidon2-bn254 "
        "for those that a Groth16 circuit can verify (multilinear engine, at most 126 bits)",
        TreeHash.KECCAK.value,
        flag="--hash",
    )
    one_proof: bool = setting(
        "end in one proof of all partitions, which a tree of further ones makes; needs engine multilinear and hash "
        "poseidon2",
        False,
        flag="--one-proof",
    )
    wrap: bool = setting(
        "wrap the one proof in a Groth16 proof over BN254, for contracts: proof.json, public.json and calldata.hex in "
        "the run; implies `one_proof`, and needs `wrap_key` or `insecure_dev`",
        False,
        flag="--wrap",
    )
    contract: bool = setting(
        "wrap it so that a contract reads program, exit code and output: of a RISC-V guest without public input, at "
        "most 32 segments and 32 bytes of output; implies `wrap`",
        False,
        flag="--contract",
    )
    wrap_key: Path | None = setting(
        "the wrap's proving key, a .zkey for the circuit of `distprove setup wrap`", flag="--wrap-key"
    )
    insecure_dev: bool = setting(
        "make the wrap's key here, without a ceremony: who made it can forge proofs", False, flag="--insecure-dev"
    )
    tree_wires: int | None = setting(
        "of one proof: the most wires of circuits that verifiers make, 6 million by default; beyond that they need it, "
        "too",
        bounds=(1, 1 << 40),
        flag="--tree-wires",
    )

    @property
    def likely_provers(self) -> int:
        """Two where `StarkSystem.provers_per_gpu` may say so, as far as the options tell."""
        return 2 if self.partitions is None or self.partitions >= MANY else 1

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The files that the program reads, each named after the argument that holds its path. "" is no file."""
        given = {name: str(self.arguments[name]) for name in _path_arguments(self.program)}
        return tuple(InputFile(name, Path(path)) for name, path in given.items() if path)

    @property
    def names_all_files(self) -> bool:
        return not names_code(self.program)

    @classmethod
    def with_files(cls, table: Mapping[str, Any], named: Callable[[str], str]) -> dict[str, Any]:
        given, program = table.get("arguments", {}), table.get("program")
        files = [] if program is None else [name for name in _path_arguments(program) if given.get(name)]
        moved = {name: named(given[name]) for name in files if isinstance(given[name], str)}
        return {**super().with_files(table, named), **({"arguments": {**given, **moved}} if moved else {})}

    def completed(self, base: Path) -> StarkOptions:
        arguments = _arguments(self.program, self.arguments, base, self.prefer)
        wrap = self.wrap or self.contract
        return replace(self, arguments=arguments, wrap=wrap, one_proof=self.one_proof or wrap)

    def check(self) -> None:
        from distprove.stark.programs import load_program

        self.check_as_client()
        if not names_code(self.program):
            load_program(self.program, self.arguments)  # it refuses what no job can prove

    def check_as_client(self) -> None:
        if self.prefer not in BLOWUPS:
            raise UsageError(f"prefer must be {' or '.join(BLOWUPS)}, not {self.prefer!r}")
        if self.blowup not in (None, 2, 4, 8):
            raise UsageError(f"blowup must be 2, 4 or 8, not {self.blowup}")
        if (self.wrap_key is not None) + self.insecure_dev != self.wrap:
            raise UsageError("`wrap` takes either `wrap_key` or `insecure_dev`, and these are for `wrap` alone")
        super().check()
        if self.one_proof:
            check_one_proof(self.engine, self.hash)
        elif self.tree_wires is not None:
            raise UsageError("`tree_wires` is for jobs that end in one proof (`one_proof`)")
        for source in self.sources:
            require_file(source.name, source.path)


def check_one_proof(engine: str, hash: str) -> None:
    """Raise UsageError unless proofs of this engine and hash can be verified in a circuit."""
    if engine != ENGINES[1] or hash != TreeHash.POSEIDON2.value:
        raise UsageError("`one_proof` needs `engine` multilinear and `hash` poseidon2")


def _arguments(program: str, given: Mapping[str, Any], base: Path, prefer: str) -> dict[str, int | str]:
    """The program's arguments with absolute paths, checked against its registry entry. Raises UsageError."""
    from distprove.stark.programs import find_program

    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise UsageError(f"`arguments.{name}` must be an integer or a string")
    if names_code(program):
        return dict(given)
    values = find_program(program).values(given, prefer=prefer)
    paths = {name: str(values[name]) for name in _path_arguments(program)}
    return {**values, **{name: str(real(base / path)) for name, path in paths.items() if path}}


def _path_arguments(program: str) -> list[str]:
    from distprove.stark.programs import find_program

    return [] if names_code(program) else [a.name for a in find_program(program).arguments if a.kind == "path"]
