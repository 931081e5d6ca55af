"""A STARK's proof taken apart: its verifying key, and the proof of each partition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from distprove.entry import Exported
from distprove.errors import InputError, InvalidProof
from distprove.formats import canonical
from distprove.formats.folder import Folder
from distprove.formats.names import unique
from distprove.options import SECURITY_BITS
from distprove.proof import KEY_FILE, OUTPUT_FILE, PROOF_FILE, Proof, encode_partition
from distprove.stark.engine import AnyKey
from distprove.stark.key_front import MAX_BYTES
from distprove.stark.keyfile import key_content, parse_key, shipped_key
from distprove.stark.programs import PROGRAMS

WHOLE_FILE = "one_proof.msgpack"
"""Name of the file of the one proof of a job that ends in one."""
WRAP_FOLDER = "wrap"
"""Name of the folder of a job's wrap: all that its verifier reads."""


def export(proof: Proof, run: Path, folder: Path) -> Exported:
    """Write what `verify` needs without the run: the job's proof, the verifying key, and the job's output, if one lies
    beside the proof. Also each partition's proof as the map that stands in proof.msgpack, canonically encoded, and the
    one proof of a job that ends in one. If the job has a wrap, its files are in a folder with the list of partitions
    and without their one proof, or without both if a contract reads it.

    Raises InvalidProof when the proof is of another key, InputError and FormatError for a bad wrap.
    """
    shipped = str(proof.verification_key.get("program")) in PROGRAMS
    key = shipped_key(proof.verification_key)[0] if shipped else key_in(run)
    if key.digest != proof.key_digest:
        raise InvalidProof("the key is not that of the proof")
    taken = [Path(name).stem for name in (KEY_FILE, PROOF_FILE, WHOLE_FILE)[: 2 if proof.whole is None else 3]]
    names = unique([*taken, *(partition.name for partition in proof.partitions)])[len(taken) :]
    with Folder.make(folder, private=False) as out:
        out.write_new(KEY_FILE, key_content(key))
        out.write_new(PROOF_FILE, proof.to_bytes())
        for name, partition in zip(names, proof.partitions, strict=True):
            out.write_new(f"{name}.msgpack", encode_partition(partition))
        if proof.whole is not None:
            out.write_new(WHOLE_FILE, canonical.encode(proof.whole))
        if proof.output is not None:
            out.write_new(OUTPUT_FILE, proof.output)
        if proof.salt is not None and proof.whole is not None:
            _write_wrap(proof, proof.whole, run, out)
        elif proof.whole is not None:
            _write_read_wrap(run, out)
    command = ["distprove", "verify", str(folder / PROOF_FILE), "--vk", str(folder / KEY_FILE)]
    if key.params.security_bits < SECURITY_BITS:
        command += ["--security", f"{key.params.security_bits:g}"]
    code = key.statement.exit_code([partition.public for partition in proof.partitions])
    if code:
        command += ["--exit-code", str(code)]
    return Exported(names, tuple(command), checks_all=True, own_key=not shipped)


def _write_wrap(proof: Proof, whole: dict[str, Any], run: Path, out: Folder) -> None:
    """Write the wrap that lies in a run or beside a file, if it is there, as a folder that `verify --wrap-vk` reads."""
    from distprove.stark.wrap.files import KEY, PROOF, Wrap

    beside = run if run.is_dir() else run.parent
    if not (beside / PROOF).is_file():
        return
    wrap = Wrap.read(run, beside / KEY)
    with out.folder(WRAP_FOLDER) as inner:
        inner.write_new(PROOF_FILE, replace(proof, whole={**whole, "proof": {}}).to_bytes())
        for name, content in wrap.contents().items():
            inner.write_new(name, content)
        if proof.output is not None:
            inner.write_new(OUTPUT_FILE, proof.output)


def _write_read_wrap(run: Path, out: Folder) -> None:
    """Write the wrap that a contract reads, if one lies in a run or beside a file, as a folder that `verify --wrap-vk`
    reads: without the list of partitions."""
    from distprove.stark.wrap.files import KEY, Wrap
    from distprove.stark.wrap.program_file import PROGRAM, ProgramFile

    beside = run if run.is_dir() else run.parent
    if not (beside / PROGRAM).is_file():
        return
    program, wrap = ProgramFile.read(beside / PROGRAM), Wrap.read(run, beside / KEY)
    with out.folder(WRAP_FOLDER) as inner:
        inner.write_new(PROGRAM, program.to_bytes())
        for name, content in wrap.contents().items():
            inner.write_new(name, content)


def key_in(run: Path) -> AnyKey:
    """The key that lies in a run whose program does not ship: no program is imported."""
    if not run.is_dir():
        raise InputError(f"the program of {run} does not ship with distprove: name the run folder, which holds its key")
    with Folder.open(run) as folder:
        return parse_key(folder.read(KEY_FILE, MAX_BYTES), str(run / KEY_FILE))
