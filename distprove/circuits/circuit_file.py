"""Built circuits as files of arrays: what computes the witnesses of a circuit, and its constraint system.

Both are tables: each row of "steps" or "parts" says which program or row template it places, and how much of the "runs"
is its own. A file has the form of `distprove.formats.array_file`. Reading one checks every index that native code or a
GPU's kernel would follow, so that a file of other content is refused and never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.circuit import Signal, WitnessProgram
from distprove.circuits.linear import Linear
from distprove.circuits.program import Check, Computed
from distprove.circuits.schedule import Schedule
from distprove.errors import FormatError
from distprove.formats.kept_arrays import Content
from distprove.groth16.r1cs import Counts
from distprove.groth16.templated import TemplatedSystem
from distprove.proof import check_fields
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface.synthesis import Bits, Instances, Products, Program, Sha256Block, check_instances
from kernels.interface.templated import RowTemplate, TemplatedMatrix, TemplatedRows
from kernels.maths.curves import Curve, Field, curve_by_name
from kernels.maths.encoding import pack, unpack

_PRODUCTS, _BITS, _SHA256 = range(3)
"""The kinds of programs in a file."""
_SIDES = ("a", "b", "c")
_WITNESS = {"curve": str, "outputs": list, "inputs": list, "public_inputs": int, "wires": int, "labels": list}
_SYSTEM = {"curve": str, **dict.fromkeys((each.name for each in fields(Counts) if each.name != "curve"), int)}
_INTEGERS = dict.fromkeys(("signal", "steps", "runs", "own_runs", "programs", "checks", "terms", "order"), np.int64)
_INDICES = dict.fromkeys(("row_ptr", "columns", "value_index", "bits"), np.uint32)
_WITNESS_ARRAYS: dict[str, Any] = {
    **_INTEGERS,
    **_INDICES,
    "values": np.uint64,
    "factors": np.uint64,
    "sources": np.int32,
}
_MATRIX_ARRAYS: dict[str, Any] = {
    **dict.fromkeys(("parts", "runs", "templates"), np.int64),
    **dict.fromkeys(("row_ptr", "columns", "value_index", "position"), np.uint32),
    "values": np.uint64,
}
_STORED = {np.dtype(np.int64): np.uint64, np.dtype(np.int32): np.uint32}
"""The types that a file has in place of these."""


# -- what computes witnesses -------------------------------------------------------------------------------------------


def encode_witness_program(circuit: WitnessProgram) -> Content | None:
    """The content of a file. None for a circuit with a step that is no program of a backend: such steps run one by
    one, and no circuit that takes long to make has any."""
    steps = [step for step in circuit.schedule.steps if isinstance(step, Computed)]
    if len(steps) < len(circuit.schedule.steps):
        return None
    programs = list({id(step.program): step.program for step in steps}.values())
    numbers = {id(program): number for number, program in enumerate(programs)}
    checks = circuit.schedule.checks
    terms = [term for check in checks for side in _sides(check) for term in side.terms.items()]
    limbs = circuit.curve.fr.limbs
    signals = (*circuit.outputs, *circuit.inputs)
    arrays = {
        "signal": _flat([s.places for s in signals if s.places is not None]),
        "steps": _table([(numbers[id(s.program)], len(s.where.own_runs), s.where.lanes) for s in steps], 3),
        "runs": _flat([step.where.runs.reshape(-1) for step in steps]).reshape(-1, 2),
        "own_runs": _flat([step.where.own_runs.reshape(-1) for step in steps]).reshape(-1, 2),
        "checks": _table([(c.lanes, *(n for s in _sides(c) for n in (s.lanes, len(s.terms)))) for c in checks], 7),
        "terms": _table([run for run, _ in terms], 2),
        "factors": pack([factor for _, factor in terms], limbs),
        "order": np.empty(0, np.int64) if circuit.order is None else circuit.order,
        **_encode_programs(programs, limbs),
    }
    record = {
        "curve": circuit.curve.name,
        "outputs": [_encode_signal(signal) for signal in circuit.outputs],
        "inputs": [_encode_signal(signal) for signal in circuit.inputs],
        "public_inputs": circuit.public_inputs,
        "wires": circuit.schedule.wires,
        "labels": [check.label for check in checks],
    }
    return record, _stored(arrays)


def decode_witness_program(content: Content) -> WitnessProgram:
    """The witness program of a file. Raises FormatError for content that is none."""
    record, arrays = content[0], _loaded(content[1], _WITNESS_ARRAYS)
    check_fields(record, _WITNESS, "witness program")
    curve, wires, places = _curve(record["curve"]), record["wires"], _Pieces(arrays["signal"], "places")
    outputs, inputs = ([_signal(each, places, wires) for each in record[name]] for name in ("outputs", "inputs"))
    if not 0 <= record["public_inputs"] <= len(inputs):
        raise FormatError("witness program: more public inputs than inputs")
    programs = _programs(arrays, curve.fr)
    checks = _checks(arrays, record["labels"], curve.fr, wires)
    residuals = sum(check.lanes for check in checks)
    order = arrays["order"]
    if len(order) and not np.array_equal(np.sort(order), np.arange(wires)):
        raise FormatError("witness program: no order of its wires")
    schedule = Schedule(_steps(arrays, programs, wires + residuals), checks, wires, residuals)
    places.end()
    return WitnessProgram(
        curve, tuple(outputs), tuple(inputs), record["public_inputs"], schedule, order if len(order) else None
    )


def _sides(check: Check) -> tuple[Linear, Linear, Linear]:
    return check.a, check.b, check.c


def _encode_signal(signal: Signal) -> list[Any]:
    return [signal.name, signal.first, signal.lanes, signal.places is not None]


def _signal(record: Any, places: _Pieces, wires: int) -> Signal:
    if type(record) is not list or list(map(type, record)) != [str, int, int, bool]:
        raise FormatError("witness program: a signal is a name, a wire, a number of lanes, and whether it has places")
    name, first, lanes, placed = record
    own = places.take(lanes) if placed else None
    ends = (first, first + lanes - 1) if own is None or not len(own) else (int(own.min()), int(own.max()))
    if lanes < 1 or ends[0] < 1 or ends[1] >= wires:
        raise FormatError("witness program: a signal has wires that are not there")
    return Signal(name, first, lanes, own)


def _checks(arrays: Mapping[str, NDArray[Any]], labels: list[Any], field: Field, wires: int) -> tuple[Check, ...]:
    table, terms = arrays["checks"].reshape(-1, 7), _Pieces(arrays["terms"].reshape(-1, 2), "terms")
    factors = _Pieces(_elements(arrays["factors"], field), "factors")
    if len(labels) != len(table) or not all(type(label) is str for label in labels):
        raise FormatError("witness program: a label for each check")
    made = []
    for label, (rows, *sides) in zip(labels, table.tolist(), strict=True):
        linear = []
        for lanes, count in zip(sides[::2], sides[1::2], strict=True):
            runs = [(first, stride) for first, stride in terms.take(count).tolist()]
            own = Linear(field, lanes, dict(zip(runs, unpack(factors.take(count)), strict=True)))
            spans = own.spans(rows)
            if lanes not in (1, rows) or any(low < 0 or high >= wires for low, high in spans):
                raise FormatError("witness program: a check of wires that are not there")
            linear.append(own)
        a, b, c = linear
        made.append(Check(a, b, c, rows, label))
    terms.end()
    factors.end()
    return tuple(made)


def _steps(arrays: Mapping[str, NDArray[Any]], programs: Sequence[Program], wires: int) -> tuple[Computed, ...]:
    runs, own = (_Pieces(arrays[name].reshape(-1, 2), name) for name in ("runs", "own_runs"))
    made = []
    for number, placements, lanes in arrays["steps"].reshape(-1, 3).tolist():
        if not 0 <= number < len(programs):
            raise FormatError("witness program: a step of a program that is not there")
        program = programs[number]
        given = runs.take(placements * program.inputs).reshape(placements, program.inputs, 2)
        where = Instances(given, own.take(placements), lanes)
        try:
            check_instances(program, where, wires)
        except SizeError as error:
            raise FormatError(f"witness program: {error}") from None
        made.append(Computed(program, where))
    runs.end()
    own.end()
    return tuple(made)


def _encode_programs(programs: Sequence[Program], limbs: int) -> dict[str, NDArray[Any]]:
    table, found = [], {name: list[NDArray[Any]]() for name in ("row_ptr", "columns", "value_index", "values")}
    sources, bits = list[NDArray[Any]](), list[NDArray[Any]]()
    for program in programs:
        if isinstance(program, Sha256Block):
            table.append((_SHA256, program.inputs, program.own, 0, 0, 0))
            sources.append(program.sources)
            bits.append(program.bits)
            continue
        for name, own in found.items():
            own.append(getattr(program, name).reshape(-1))
        kind, shift = (_BITS, program.shift) if isinstance(program, Bits) else (_PRODUCTS, 0)
        table.append((kind, program.inputs, program.own, len(program.columns), len(program.values), shift))
    arrays = {name: _flat(own, _WITNESS_ARRAYS[name]) for name, own in found.items()}
    return {
        "programs": _table(table, 6),
        **arrays,
        "values": arrays["values"].reshape(-1, limbs),
        "sources": _flat(sources, np.int32),
        "bits": _flat(bits, np.uint32),
    }


def _programs(arrays: Mapping[str, NDArray[Any]], field: Field) -> list[Program]:
    """The programs of a file, their indices checked by native code."""
    pieces = {name: _Pieces(arrays[name], name) for name in ("row_ptr", "columns", "value_index", "sources", "bits")}
    values = _Pieces(_elements(arrays["values"], field), "values")
    made: list[Program] = []
    for kind, inputs, own, nnz, distinct, shift in arrays["programs"].reshape(-1, 6).tolist():
        try:
            if kind == _SHA256:
                block = Sha256Block(field, inputs, pieces["sources"].take(768), pieces["bits"].take(own))
                native.sha256_program(field.name, inputs, _bytes(block.sources), _bytes(block.bits))
                made.append(block)
                continue
            rows = pieces["row_ptr"].take(2 if kind == _BITS else 3 * own + 1)
            entries = rows, pieces["columns"].take(nnz), pieces["value_index"].take(nnz), values.take(distinct)
            if kind == _BITS:
                native.bits_program(field.name, inputs, *map(_bytes, entries), shift, own)
                made.append(Bits(field, inputs, *entries, shift, own))
            elif kind == _PRODUCTS:
                native.products_program(field.name, inputs, *map(_bytes, entries))
                made.append(Products(field, inputs, *entries))
            else:
                raise FormatError("witness program: a program of a kind that is none")
        except (ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"witness program: {error}") from None
    for piece in (*pieces.values(), values):
        piece.end()
    return made


# -- the constraint system ---------------------------------------------------------------------------------------------


def encode_system(system: TemplatedSystem) -> Content:
    """The content of a constraint system's file."""
    counts = {name: getattr(system, name) for name in _SYSTEM if name != "curve"}
    arrays: dict[str, NDArray[Any]] = {}
    for side in _SIDES:
        arrays |= {f"{side} {name}": own for name, own in _encode_matrix(getattr(system, side)).items()}
    return {"curve": system.curve.name, **counts}, _stored(arrays)


def _encode_matrix(matrix: TemplatedMatrix) -> dict[str, NDArray[Any]]:
    templates = list({id(part.template): part.template for part in matrix.parts}.values())
    numbers = {id(template): number for number, template in enumerate(templates)}
    parts = [
        (numbers[id(p.template)], len(p.runs), p.first, p.step, p.lanes, p.row, p.row_step, p.entry, p.entry_step)
        for p in matrix.parts
    ]
    return {
        "parts": _table(parts, 9),
        "runs": _flat([part.runs.reshape(-1) for part in matrix.parts]).reshape(-1, 2),
        "templates": _table([(template.rows, template.nnz) for template in templates], 2),
        **{
            name: _flat([getattr(template, name) for template in templates], np.uint32)
            for name in ("row_ptr", "columns", "value_index")
        },
        "values": matrix.values,
        "position": np.empty(0, np.uint32) if matrix.position is None else matrix.position,
    }


def decode_system(content: Content) -> TemplatedSystem:
    """The constraint system of a file. Raises FormatError for content that is none."""
    record, arrays = content
    check_fields(record, _SYSTEM, "constraint system")
    curve = _curve(record["curve"])
    kinds = {f"{side} {name}": kind for side in _SIDES for name, kind in _MATRIX_ARRAYS.items()}
    loaded = _loaded(arrays, kinds)
    a, b, c = (
        _matrix({name: loaded[f"{side} {name}"] for name in _MATRIX_ARRAYS}, record["n_vars"], curve.fr)
        for side in _SIDES
    )
    counts = {name: record[name] for name in _SYSTEM if name != "curve"}
    wires = 1 + sum(count for name, count in counts.items() if name != "n_vars")
    if not a.rows == b.rows == c.rows or min(counts.values()) < 0 or wires > counts["n_vars"]:
        raise FormatError("constraint system: its sizes")
    return TemplatedSystem(curve, **counts, a=a, b=b, c=c)


def _matrix(arrays: Mapping[str, NDArray[Any]], cols: int, field: Field) -> TemplatedMatrix:
    pieces = {name: _Pieces(arrays[name], name) for name in ("row_ptr", "columns", "value_index")}
    runs = _Pieces(arrays["runs"].reshape(-1, 2), "runs")
    templates = [
        RowTemplate(pieces["row_ptr"].take(rows + 1), *(pieces[name].take(nnz) for name in ("columns", "value_index")))
        for rows, nnz in arrays["templates"].reshape(-1, 2).tolist()
    ]
    parts = []
    for number, inputs, *where in arrays["parts"].reshape(-1, 9).tolist():
        if not 0 <= number < len(templates):
            raise FormatError("constraint system: a part of a template that is not there")
        parts.append(TemplatedRows(templates[number], runs.take(inputs), *where))
    for piece in (*pieces.values(), runs):
        piece.end()
    values, position = _elements(arrays["values"], field), arrays["position"]
    rows = sum(part.rows for part in parts)
    made = TemplatedMatrix(rows, cols, tuple(parts), values, position if len(position) else None)
    try:
        made.check(field)
    except (SizeError, ValueError) as error:
        raise FormatError(f"constraint system: {error}") from None
    return made


# -- arrays ------------------------------------------------------------------------------------------------------------


class _Pieces:
    """An array that is taken piece by piece, in order."""

    def __init__(self, array: NDArray[Any], what: str) -> None:
        self._array, self._what, self._at = array, what, 0

    def take(self, count: int) -> NDArray[Any]:
        """A copy of the next `count` rows: native code wants what it reads aligned. Raises FormatError where there are
        fewer."""
        if not 0 <= count <= len(self._array) - self._at:
            raise FormatError(f"a circuit's {self._what} end early")
        self._at += count
        piece: NDArray[Any] = self._array[self._at - count : self._at].copy()
        return piece

    def end(self) -> None:
        """Raise FormatError where something is left."""
        if self._at < len(self._array):
            raise FormatError(f"a circuit's {self._what} go on beyond their end")


def _flat(arrays: Sequence[NDArray[Any]], kind: Any = np.int64) -> NDArray[Any]:
    """Vectors behind each other."""
    return np.concatenate([np.empty(0, kind), *arrays]).astype(kind, copy=False)


def _table(rows: Sequence[tuple[int, ...]], width: int) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, width)


def _stored(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays in types that a file has."""
    made = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return {name: array.view(_STORED.get(array.dtype, array.dtype)) for name, array in made.items()}


def _loaded(arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays of a file in the types that they had. Tables lose their shape. Raises FormatError."""
    check_fields(dict(arrays), dict.fromkeys(kinds, np.ndarray), "circuit")
    found = {}
    for name, kind in kinds.items():
        array = arrays[name]
        if array.dtype != _STORED.get(np.dtype(kind), kind):
            raise FormatError(f"a circuit's {name} are of another type")
        found[name] = array.reshape(-1).view(kind)
    for name, width in _widths(found):
        if len(found[name]) % width:
            raise FormatError(f"a circuit's {name} have another width")
    return found


def _widths(names: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    widths = {"steps": 3, "runs": 2, "own_runs": 2, "checks": 7, "terms": 2, "programs": 6, "parts": 9, "templates": 2}
    return ((name, widths[name.split()[-1]]) for name in names if name.split()[-1] in widths)


def _elements(words: NDArray[np.uint64], field: Field) -> NDArray[np.uint64]:
    """Words as elements of a field, (n, limbs). Raises FormatError."""
    if len(words) % field.limbs:
        raise FormatError("a circuit's values are no elements")
    return words.reshape(-1, field.limbs)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _curve(name: str) -> Curve:
    try:
        return curve_by_name(name)
    except KeyError:
        raise FormatError("a circuit over a curve that is none") from None
