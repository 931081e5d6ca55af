"""What follows from a wrap's circuit, in the user's private cache: its tape, and a development key.

Both depend on the key of the proof that the circuit verifies, and on this package's code, which are in the names of
files. Recording a circuit takes half a minute, and making a key takes minutes; whoever makes a key keeps the tape of
the same recording. A tape or a key that is damaged or someone else's is made again (`kernels.host.cache`). A key is
digested once, and then known by its file's identity. A development key proves nothing to others in any case.

A process keeps the last tapes in memory.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

import distprove.circuits
from distprove.circuits.builder import CircuitBuilder
from distprove.circuits.circuit import Signal
from distprove.circuits.wrap.tape import ARRAYS, FIELD, TEMPLATE, WIDTH, Tape, record
from distprove.circuits.wrap.verifier import verifier_circuit
from distprove.errors import FormatError, InputError, ResourceError, typed
from distprove.formats import canonical
from distprove.groth16.r1cs import R1cs
from distprove.groth16.setup import setup
from distprove.host.collector import collecting_seldom
from distprove.proof import check_fields
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.shape import Shape
from distprove.stark.recursion.circuit_cache import code, name_of
from distprove.stark.recursion.node import NODE, NODE_CHALLENGE
from kernels.host import cache as files
from kernels.host.loaded_code import as_loaded, digest_of, sources
from kernels.host.private import NotPrivate, require_private
from kernels.interface.backend import Backend

BOUND = files.Bound(bytes=1 << 31, files=16)
"""Of the folder of tapes. One takes 0.2 GB."""
KEYS_BOUND = files.Bound(bytes=1 << 36, files=2)
"""Of the folder of development keys. One takes gigabytes."""
KEY_PATIENCE = 3600.0
"""Seconds that one who needs a development key waits for another who makes one, and that a job waits for one."""
MOST_INPUTS = 1 << 20
"""Most inputs of a template, as in kernels/cpu/src/wrap_witness.cpp."""
MOST_TAPES = 2
"""Tapes that a process keeps in memory, some 0.2 GB each."""
_SUFFIX, _KEY_SUFFIX = ".tape", ".zkey"
_TAPES: OrderedDict[str, Tape] = OrderedDict()
_LOCK = threading.Lock()
_FIELDS: dict[str, type] = {
    "wires": int,
    "outputs": list,
    "inputs": list,
    "labels": list,
    "arrays": dict,
    "templates": list,
}


def wrap_shape(key: MultilinearKey) -> Shape:
    """The shape of the proofs that the circuit of a second root's key verifies."""
    return Shape(key, tuple(key.fixed_heights))


def wrap_circuit(key: MultilinearKey) -> CircuitBuilder:
    """The circuit of the proofs under a second root's key. Raises UsageError."""
    with collecting_seldom():
        b, _ = verifier_circuit(wrap_shape(key), NODE, NODE_CHALLENGE)
    return b


def resident_tape(key: MultilinearKey) -> Tape:
    """`kept_tape`, which this process keeps in memory, too. Any thread may call."""
    name = circuit_name(key)
    with _LOCK:
        if name not in _TAPES:
            _TAPES[name] = kept_tape(key)
            while len(_TAPES) > MOST_TAPES:
                _TAPES.popitem(last=False)
        _TAPES.move_to_end(name)
        return _TAPES[name]


def kept_tape(key: MultilinearKey, folder: Path | None = None) -> Tape:
    """The witness program of `wrap_circuit`. `folder` is the cache's by default."""
    folder, name = folder or _tape_folder(), circuit_name(key)
    found = _read(folder, name)
    if found is None:
        with files.making(folder, "tapes"):
            found = _read(folder, name) or _keep_tape(wrap_circuit(key), folder, name)
    return found


def _tape_folder() -> Path:
    return files.user_cache_dir("wraps")


def require_key_folder(folder: Path | None = None) -> Path:
    """The folder of development keys, by default the cache's, made if it is not there. Raises InputError for one that
    somebody else can change, or that cannot be made."""
    folder = folder or files.user_cache_dir("wrap-keys")
    try:
        require_private(folder, create=True)
    except (NotPrivate, OSError) as error:
        reason = typed(error, folder)
        told = f"the development key of a wrap needs a folder of your own, and {folder} is none: {reason}"
        raise InputError(f"{told}; XDG_CACHE_HOME names another cache") from None
    return folder


def kept_key(key: MultilinearKey, folder: Path | None = None) -> Path | None:
    """The file of a development key of `wrap_circuit` that is kept whole on this machine, or None. Raises InputError
    as `require_key_folder`."""
    return _found_key(require_key_folder(folder), circuit_name(key))


def development_key(key: MultilinearKey, backend: Backend, folder: Path | None = None) -> Path:
    """The file of an insecure Groth16 key of `wrap_circuit`, made on a backend if it is not there. Raises InputError
    as `require_key_folder`, ResourceError."""
    folder, name = require_key_folder(folder), circuit_name(key)
    with files.making(folder, "keys", KEY_PATIENCE):
        return _found_key(folder, name) or _made_key(key, backend, folder, name)


def _found_key(folder: Path, name: str) -> Path | None:
    found = files.find(folder, name, _KEY_SUFFIX, large=True)
    if found is None:
        return None
    with found:
        return Path(found.name)


def _made_key(key: MultilinearKey, backend: Backend, folder: Path, name: str) -> Path:
    built = keep_recorded(key)

    def fill(file: IO[bytes]) -> None:
        try:
            setup(built, insecure_dev=True, backend=backend, out=file.name)
            os.chmod(file.name, 0o600)  # whatever the umask, or it is not taken for ours
        except OSError as error:  # which a cache takes for a reason to keep nothing
            raise typed(error, folder) from None

    made = files.keep(folder, name, _KEY_SUFFIX, fill, KEYS_BOUND, large=True)
    if made is None:
        raise ResourceError(f"{folder}: the development key that was made cannot be kept there")
    with made:
        return Path(made.name)


def keep_recorded(key: MultilinearKey) -> R1cs:
    """The constraint system of `wrap_circuit`. The tape of the same recording is kept, unless there is one."""
    circuit, folder, name = wrap_circuit(key), _tape_folder(), circuit_name(key)
    if _read(folder, name) is None:
        _keep_tape(circuit, folder, name)
    return circuit.system().r1cs()


def circuit_name(key: MultilinearKey) -> str:
    """A digest of what a wrap's circuit depends on, as hexadecimal digits."""
    told = [name_of(()), digest_of(_circuits()), key.digest, key.preprocessed_root]
    return hashlib.sha256(canonical.encode(told)).hexdigest()


def _circuits() -> tuple[Path, ...]:
    return sources(distprove.circuits.__path__)


def _keep_tape(circuit: CircuitBuilder, folder: Path, name: str) -> Tape:
    tape = record(circuit)
    if not as_loaded((*code(), *_circuits())):
        return tape
    data = encode_tape(tape)
    kept = files.keep(folder, name, _SUFFIX, lambda file: file.write(data), BOUND)
    if kept is not None:
        kept.close()
    return tape


def _read(folder: Path, name: str) -> Tape | None:
    file = files.find(folder, name, _SUFFIX)
    if file is None:
        return None
    with file:
        try:
            return decode_tape(file.read())
        except FormatError:
            return None


def encode_tape(tape: Tape) -> bytes:
    """The content of a tape's file."""
    return canonical.encode(
        {
            "wires": tape.wires,
            "outputs": list(tape.outputs),
            "inputs": [[signal.name, signal.first, signal.lanes] for signal in tape.inputs],
            "labels": list(tape.labels),
            "arrays": {name: tape.arrays[name].astype(kind).tobytes() for name, kind in ARRAYS.items()},
            "templates": [
                [inputs, *(own.astype(kind).tobytes() for own, kind in zip(arrays, TEMPLATE.values(), strict=True))]
                for inputs, arrays in tape.templates
            ],
        }
    )


def decode_tape(data: bytes) -> Tape:
    """The tape of a file. Raises FormatError for bytes that are no tape."""
    record = canonical.decode(data, "tape")
    check_fields(record, _FIELDS, "tape")
    check_fields(record["arrays"], dict.fromkeys(ARRAYS, bytes), "tape")
    try:
        arrays = {name: np.frombuffer(record["arrays"][name], dtype=kind) for name, kind in ARRAYS.items()}
        arrays |= {"operations": arrays["operations"].reshape(-1, WIDTH), "values": _elements(arrays["values"])}
        templates = tuple(_template(own) for own in record["templates"])
        inputs = tuple(Signal(name, first, lanes) for name, first, lanes in record["inputs"])
        return Tape(record["wires"], tuple(record["outputs"]), inputs, tuple(record["labels"]), arrays, templates)
    except (ValueError, TypeError) as error:
        raise FormatError(f"tape: {error}") from None


def _template(record: Any) -> tuple[int, tuple[Any, ...]]:
    inputs, *arrays = record
    if type(inputs) is not int or not 0 <= inputs <= MOST_INPUTS:
        raise ValueError("a template's inputs are no number, or too many")
    found = {n: np.frombuffer(own, dtype=TEMPLATE[n]) for n, own in zip(TEMPLATE, arrays, strict=True)}
    return inputs, (*list(found.values())[:-1], _elements(found["values"]))


def _elements(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return words.reshape(-1, FIELD.limbs)
