"""Witness programs made faster: the same witnesses, from functions that leave what circom's leave."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from distprove.errors import FormatError
from distprove.groth16 import wasm_modules
from distprove.groth16.inputs import read_input
from distprove.groth16.wasm_field import _PLACES
from distprove.groth16.wasm_limits import CODE, HEADER, Reader, leb128
from distprove.groth16.wasm_modules import new_engine
from distprove.groth16.wasm_rewrite import with_fast_field
from distprove.groth16.witness import WitnessProgram
from kernels.maths.curves import BLS12_381, BN254, Field
from tests.support.toy_program import toy_program

_EXPORT = 7
_IMPORTED, _COUNT = 4, 81
_OTHERS = {"F1m_neg": 18, "toLongNormal": 39, "shl": 68, "shr": 69, "inv": 57, "land": 78, "lnot": 80}
"""Functions that stay as they are, and call others."""
_OTHER_FORMS = {"idiv", "mod", "band", "bor", "bxor", "eqR", "gtR", "eq", "neq", "gt", "geq", "lt", "leq", "shl", "shr"}
"""Functions that leave the same values as circom's, but in forms of their own: comparisons, and what calls them."""
_AT = 30 * 1024


def _sections(wasm: bytes) -> list[tuple[int, bytes]]:
    program, found = Reader("it", wasm, len(HEADER), len(wasm)), []
    while program.at < program.end:
        found.append((program.byte(), program.part().rest()))
    return found


def _program(sections: list[tuple[int, bytes]]) -> bytes:
    return HEADER + b"".join(bytes([kind]) + leb128(len(part)) + part for kind, part in sections)


class _Functions:
    """A program's field arithmetic, callable."""

    def __init__(self, wasm: bytes) -> None:
        sections = []
        for kind, part in _sections(wasm):
            if kind == _EXPORT:
                names = Reader("it", part, 0, len(part))
                count = leb128(names.number() + _COUNT)
                ours = (f"f{place}".encode() for place in range(_COUNT))
                added = (leb128(len(n)) + n + b"\0" + leb128(_IMPORTED + i) for i, n in enumerate(ours))
                part = count + names.rest() + b"".join(added)
            sections.append((kind, part))
        engine = new_engine()
        self._store = wasmtime.Store(engine)
        self._store.set_epoch_deadline(1)
        module = wasmtime.Module(engine, _program(sections))
        imports = [wasmtime.Func(self._store, item.type, lambda *_: None) for item in module.imports]
        self._exports = wasmtime.Instance(self._store, module, imports).exports(self._store)
        self._memory = self._exports["memory"]

    def types(self, place: int) -> list[str]:
        return [str(kind) for kind in self._exports[f"f{place}"].type(self._store).params]

    def __call__(self, place: int, elements: bytes, arguments: list[int]) -> tuple[int | str | None, bytes]:
        self._memory.write(self._store, elements, _AT)
        try:
            result = self._exports[f"f{place}"](self._store, *arguments)
        except wasmtime.Trap as trap:  # of a division by zero
            return trap.trap_code.name, bytes(len(elements))
        return result, bytes(self._memory.read(self._store, _AT, _AT + len(elements)))


def _long(random: random.Random, prime: int) -> int:
    """A number of 256 bits, often one at an edge."""
    near = [0, 1, 2**32, 2**64 - 1, 2**192, prime >> 1, prime, 2**255, 2**256 - 1]
    kinds: list[Callable[[], int]] = [
        lambda: random.getrandbits(256),
        lambda: random.choice(near) + random.choice([-1, 0, 1]),
        lambda: prime - random.getrandbits(33),
        lambda: sum(random.choice([0, 2**64 - 1, random.getrandbits(64)]) << (64 * i) for i in range(4)),
    ]
    return random.choice(kinds)() % 2**256


def _element(random: random.Random, field: Field) -> bytes:
    number = random.choice([0, 1, -1, 2**31 - 1, -(2**31), random.randrange(-(2**31), 2**31)])
    flags = random.choice([0, 0x40000000, 0x80000000, 0xC0000000])
    value = _long(random, field.modulus) % field.modulus
    if flags == 0x40000000:
        value = number * field.r % field.modulus
    return number.to_bytes(4, "little", signed=True) + flags.to_bytes(4, "little") + value.to_bytes(32, "little")


def _meaning(element: bytes) -> tuple[bytes, bytes, bytes]:
    """What counts of an element: flags, and the number, the long value, or both."""
    flags = element[4:8]
    return flags, b"" if flags[3] & 0x80 else element[:4], element[8:] if flags[3] else b""


def _value(element: bytes, field: Field) -> int:
    value, flags = int.from_bytes(element[8:], "little"), element[7]
    if not flags & 0x80:
        return int.from_bytes(element[:4], "little", signed=True) % field.modulus
    return (value * pow(field.r, -1, field.modulus) if flags & 0x40 else value) % field.modulus


@pytest.mark.parametrize(("circuit", "field"), [("tiny", BN254.fr), ("chain_bls12381", BLS12_381.fr)])
def test_the_functions_leave_what_circoms_leave(shared_data: Path, circuit: str, field: Field) -> None:
    """On random operands and such at the edges, in every form, also where results and operands are the same place."""
    wasm = (shared_data / "circom" / circuit / "circuit.wasm").read_bytes()
    theirs, ours = _Functions(wasm), _Functions(with_fast_field(wasm))
    rng = random.Random(circuit)
    for name, place in sorted((_PLACES | _OTHERS).items()):
        if name == "int_div":  # stays as it is
            continue
        raw = name.startswith("F1m")
        for _ in range(150):
            elements = [_element(rng, field) for _ in range(3)]
            if raw:
                elements = [_long(rng, field.modulus).to_bytes(40, "little") for _ in range(3)]
            if name in ("shl", "shr"):
                elements[2] = rng.choice([0, 5, 253, 300]).to_bytes(40, "little")
            where = rng.choice([(0, 1, 2), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 0, 0)])
            if name == "mod":  # circom's is wrong where the result takes the divisor's place
                where = (0, 1, 2)
            numbers = [rng.choice([-(2**62), -7, 0, rng.getrandbits(40)]) for _ in range(3)]
            arguments = [
                _AT + 40 * where[i] if kind == "i32" else numbers[i] for i, kind in enumerate(theirs.types(place))
            ]
            found = []
            for functions in (theirs, ours):
                result, after = functions(place, b"".join(elements), arguments)
                left = [after[40 * i : 40 * i + 40] for i in range(3)]
                if name in _OTHER_FORMS:
                    found.append((result, [_value(element, field) for element in left]))
                else:
                    found.append((result, left if raw else [_meaning(element) for element in left]))
            assert found[0] == found[1], (name, [element.hex() for element in elements], arguments)


@pytest.mark.parametrize("circuit", ["reputation", "chain_bls12381"])
def test_witnesses_are_those_of_the_program_as_it_is(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, circuit: str
) -> None:
    folder = shared_data / "circom" / circuit
    inputs = read_input(sorted((folder / "inputs").iterdir())[0])
    wasm = (folder / "circuit.wasm").read_bytes()
    fast = with_fast_field(wasm)
    assert fast != wasm
    assert (len(fast) > len(wasm) + 5000) == (circuit != "chain_bls12381"), "tables of constants are written at once"
    ours = WitnessProgram(wasm, cache_dir=tmp_path / "ours").generate(inputs)
    monkeypatch.setattr("distprove.groth16.witness.load_module", lambda engine, text, *_: wasmtime.Module(engine, text))
    assert np.array_equal(ours, WitnessProgram(wasm).generate(inputs))


def test_programs_that_are_not_circoms_stay_as_they_are(shared_data: Path) -> None:
    toy = toy_program()
    assert with_fast_field(toy) == toy
    wasm = (shared_data / "circom" / "tiny" / "circuit.wasm").read_bytes()
    assert with_fast_field(wasm) != wasm
    sections = _sections(wasm)
    at = next(i for i, (kind, _) in enumerate(sections) if kind == CODE)
    code = sections[at][1]
    assert b"\x42\xff\xff\xff\xff\x0e" in code, "the factor of Montgomery's reduction"
    changed = code.replace(b"\xff\xff\xff\xff\x0e", b"\xff\xff\xff\xfd\x0e", 1)
    sections[at] = (CODE, changed)
    other = _program(sections)
    wasmtime.Module.validate(wasmtime.Engine(), other)
    assert with_fast_field(other) == other
    with pytest.raises(FormatError, match="ends in the middle"):
        with_fast_field(wasm[:-1])


def test_code_made_by_other_functions_is_not_taken_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = toy_program()
    before = wasm_modules._key(toy)
    assert before == wasm_modules._key(toy)
    monkeypatch.setattr(wasm_modules.inspect, "getsource", lambda module: f"another {module.__name__}")
    assert wasm_modules._key(toy) != before
