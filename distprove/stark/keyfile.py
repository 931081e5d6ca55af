"""Gets a verifier's key: from a key file, or from the program itself when it ships with distprove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from distprove.entry import OwnProgram
from distprove.errors import DistproveError, FormatError, InputError, InvalidProof, UsageError
from distprove.formats import canonical
from distprove.formats.files import read_bounded
from distprove.formats.owncode import names_code, own_faults
from distprove.host.machine import usable_threads
from distprove.proof import KEY_FILE, check_fields
from distprove.stark import proving_key
from distprove.stark.engine import MULTILINEAR, AnyKey, engine_of, engine_of_record
from distprove.stark.key_front import MAX_BYTES
from distprove.stark.multilinear.key import check_engine
from distprove.stark.multilinear.proving_key import make_verifying_key
from distprove.stark.program import Program
from distprove.stark.programs import PROGRAMS, find_program, load_program
from distprove.stark.verifying_key import check_version
from kernels.cpu.backend import CpuBackend

FORMAT = "distprove.stark-key"
BEGINS = b"\x82\xa6format\xb3" + FORMAT.encode()
"""The first bytes of every key file: a map of two entries, the first of which is the format."""
LOG_SHARED = 14
"""log2 of the rows from which the commitment to a table's columns is shared out among threads. Below, it takes
milliseconds, as starting them does."""


def key_content(key: AnyKey) -> bytes:
    """The content of a key file, for those who verify without the program."""
    return canonical.encode({"format": FORMAT, "key": key.to_record()})


def read_key(path: Path) -> AnyKey:
    """Read a key file. Raises InputError, FormatError."""
    return parse_key(read_bounded(path, MAX_BYTES, begins=BEGINS, kind=f"a {KEY_FILE}"), str(path))


def parse_key(data: bytes, what: str) -> AnyKey:
    """Parse the content of a key file. Raises FormatError."""
    content = canonical.decode(data, what)
    check_fields(content, {"format": str, "key": dict}, what)
    if content["format"] != FORMAT:
        raise FormatError(f"{what}: not a STARK's verifying key")
    key: AnyKey = engine_of_record(content["key"]).key.from_record(content["key"], what)  # type: ignore[attr-defined]
    return key


def shipped_key(named: Any) -> tuple[AnyKey, Program]:
    """The key that a proof file names (`VerifyingKey.named`), and its program.

    Only programs that ship are made: a proof file must not choose what code a verifier runs. The last few keys are
    cached, so that a verifier of many proofs compiles a program once. Raises FormatError, also if `named` is not
    exactly what the key says of itself, and InputError for a program that does not ship.
    """
    _check_named(named)
    name = named["program"]
    if name not in PROGRAMS:
        raise InputError(
            f"the program {name!r} does not ship with distprove: verify with --vk and its verifying key, "
            "which `distprove export` writes for whoever has the run, or with --program MODULE:CLASS if you have the "
            "program"
        )
    try:
        arguments = PROGRAMS[name].make(named["arguments"], proving=False).arguments
        key, program = _made(name, tuple(arguments.items()), _parameters(named))
    except UsageError as error:
        raise FormatError(f"verification key: {error}") from None
    if not key.is_named(named):
        raise FormatError(f"verification key: not the arguments of {name} as its key states them: {key.arguments}")
    return key, program


def difference(stated: Any, named: Mapping[str, Any]) -> str:
    """In words, the first difference between what a proof file says of its key and what another key says of itself."""
    if not isinstance(stated, dict) or {n: type(v) for n, v in stated.items()} != {
        n: type(v) for n, v in named.items()
    }:
        return "it is of another engine, or of no key"
    mine, theirs = (_call(each["program"], each["arguments"]) for each in (named, stated))
    if mine != theirs:
        return f"it is of {theirs}, and the key of {mine}"
    made, given = stated["params"], named["params"]
    parts = [f"{name} = {made.get(name)!r}, not {given[name]!r}" for name in given if made.get(name) != given[name]]
    return (
        f"it is of the same program, made with {'; '.join(parts) or 'another version'}. `distprove key` makes the key "
        "of such a job from the job's own input and options"
    )


def own_key(named: Any, own: OwnProgram) -> tuple[AnyKey, Program]:
    """The key of the program that the caller names, its own or one that ships, under the parameters in `named`, which a
    proof file says of its key.

    Nothing else is taken from the file: program and arguments are the caller's, and no value of the file reaches the
    program's code before its proof is verified. Raises InvalidProof if the file names another program or arguments,
    FormatError, UsageError, also for an argument that neither key nor public values (`Program.compared`) depend on, and
    CodeFault.
    """
    _check_named(named)
    params = _parameters(named)
    if names_code(own.name):
        program = load_program(own.name, own.arguments)
    else:
        entry = find_program(own.name)
        program = entry.make(own.arguments, proving=False)
        _refuse_unbound(own.name, [name for name in entry.unbound(own.arguments) if name not in program.compared])
    with own_faults(program.__module__):
        key = key_of(program, params)
    if names_code(own.name):
        left = [name for name in own.arguments if name not in program.compared]
        _refuse_unbound(own.name, [name for name in left if _does_without(own, name, key)])
    # Only the key has all arguments: some follow from the preprocessed columns (`Program.key_arguments`).
    if (named["program"], named["arguments"]) != (key.program, key.arguments):
        raise InvalidProof(
            f"the proof is of {_call(named['program'], named['arguments'])}, and not of "
            f"{_call(key.program, key.arguments)} as named here (--program, --with)"
        )
    if not key.is_named(named):
        raise FormatError("verification key: not what its key says of itself")
    return key, program


def _refuse_unbound(program: str, names: Sequence[str]) -> None:
    """Raise UsageError if there are such arguments: the proof would seem to be of these, and may be of any others."""
    if names:
        raise UsageError(
            f"a proof of {program} cannot be held to {', '.join(names)}, on which neither its key nor its public "
            "values depend: leave that out, and compare what the verified proof says"
        )


def _does_without(own: OwnProgram, name: str, key: AnyKey) -> bool:
    """Whether the caller's program has the same key without this argument."""
    if name in key.arguments:
        return False
    try:
        program = load_program(own.name, {other: value for other, value in own.arguments.items() if other != name})
        with own_faults(program.__module__):
            return key_of(program, key.params).digest == key.digest
    except DistproveError:  # it needs the argument
        return False


def _call(program: str, arguments: Mapping[str, object]) -> str:
    return f"{program}({', '.join(f'{name} = {value}' for name, value in arguments.items())})"


def _check_named(named: Any) -> None:
    """Raise FormatError for what is not the map that names a key of this version (`VerifyingKey.named`)."""
    fields = {"version": int, "program": str, "arguments": dict, "params": dict}
    if engine_of_record(named).name == MULTILINEAR:
        check_fields(named, {"engine": str, **fields}, "verification key")
        check_engine(named["engine"], named["version"], "the proof")
        return
    check_fields(named, fields, "verification key")
    check_version(named["version"], "the proof")


def _parameters(named: Any) -> Any:
    """The parameters in the map that names a key. Raises FormatError."""
    return engine_of_record(named).parameters.from_record(named["params"])  # type: ignore[attr-defined]


@lru_cache(maxsize=8)
def _made(name: str, arguments: tuple[tuple[str, int | str], ...], params: Any) -> tuple[AnyKey, Program]:
    program = PROGRAMS[name].make(dict(arguments), proving=False)
    return key_of(program, params), program


def key_of(program: Program, params: Any) -> AnyKey:
    """Make the verifying key of a program under the parameters of either engine, on all threads of the CPU where its
    preprocessed columns are tall. Raises UsageError."""
    engine = engine_of(params)
    root = program.preprocessed_root
    if root is not None:
        changes: dict[str, Any] = {"preprocessed_root": root}
        key: AnyKey = replace(engine.compile_key(program, params), **changes)
        key.check(f"program {program.name}")
        return key
    tall = max(dict(program.fixed_heights).values(), default=0) >= LOG_SHARED
    with CpuBackend(threads=usable_threads() if tall else 1) as backend:
        if engine.name == MULTILINEAR:
            return make_verifying_key(program, params, backend)
        made: AnyKey = proving_key.make_key(program, params, backend).key
        return made


def program_of(key: AnyKey) -> Program | None:
    """The program that ships with exactly this key; None for any other key."""
    try:
        made, program = shipped_key(key.named())
    except InputError:
        return None
    return program if made.digest == key.digest else None


def node_key(key: Any, kind: Any) -> Any:
    """The key of a node of the tree over partitions under `key`: `distprove.stark.recursion.tree_keys.verifiers_key`,
    which few verifiers need and import, on all threads."""
    from distprove.stark.recursion.tree_keys import verifiers_key

    return verifiers_key(key, kind, usable_threads())


def jobs_keys(jobs: Any) -> Any:
    """The keys of the tree over the roots of jobs: `distprove.stark.recursion.jobs_keys.jobs_verifying_keys`, on all
    threads."""
    from distprove.stark.recursion.jobs_keys import jobs_verifying_keys

    return jobs_verifying_keys(jobs, usable_threads())
