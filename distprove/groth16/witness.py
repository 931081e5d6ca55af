"""Runs circom 2's witness programs (`circuit.wasm`) in wasmtime: inputs in, witness out.

The protocol is that of circom's own witness_calculator.js. A program exchanges one field element at a time through a
shared buffer, word by word; done from Python that costs a foreign call per word, 300,000 of them for a small circuit.
So a second, tiny module of ours (`_BRIDGE`) is linked to the program and loops inside the sandbox: a signal's values
go in with one call, and the whole witness comes out with one.

The program is not trusted. It sees nothing but four callbacks, its memory and its time are bounded, and what it returns
is checked. What it prints (`log()`) is dropped, because that is witness data. wasmtime is called without the
interpreter's lock, so threads generate witnesses in parallel; each call has an instance of its own.

A program is interrupted when nobody waits for it any more (`distprove.wanted`), and when it has had its time. That is
CPU time of its thread: a machine with much else to do fails no honest program, and a loop uses CPU time by nature.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime

from distprove.errors import DistproveError, FormatError, WitnessGenerationError, starved
from distprove.groth16.binfile import Source, load
from distprove.groth16.elements import Words, curve_by_order, first_not_canonical
from distprove.groth16.input_faults import faults_of
from distprove.groth16.inputs import Inputs, flatten, fnv1a, signals
from distprove.groth16.key import LoadableKey
from distprove.groth16.symbols import symbols_beside
from distprove.groth16.wasm_modules import load_module, new_engine
from distprove.groth16.wtns import require_same_circuit
from distprove.wanted import called_off, require_wanted
from kernels.host.units import count_of
from kernels.interface.arrays import Empty
from kernels.maths.curves import Curve, Field

_BRIDGE = """
(module
  (import "circuit" "writeSharedRWMemory" (func $write (param i32 i32)))
  (import "circuit" "readSharedRWMemory" (func $read (param i32) (result i32)))
  (import "circuit" "setInputSignal" (func $set (param i32 i32 i32)))
  (import "circuit" "getWitness" (func $get (param i32)))
  (memory (export "memory") 1)

  ;; Hand over values of `words` words, which lie at 0, as the values `i` to `end` of the signal with hash (high, low).
  (func (export "set") (param $high i32) (param $low i32) (param $i i32) (param $end i32) (param $words i32)
    (local $j i32) (local $from i32)
    (block $done (loop $values
      (br_if $done (i32.ge_u (local.get $i) (local.get $end)))
      (local.set $j (i32.const 0))
      (block $full (loop $copy
        (br_if $full (i32.ge_u (local.get $j) (local.get $words)))
        (call $write (local.get $j) (i32.load (local.get $from)))
        (local.set $from (i32.add (local.get $from) (i32.const 4)))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $copy)))
      (call $set (local.get $high) (local.get $low) (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $values))))

  ;; Fetch `count` wires of `words` words to 0.
  (func (export "get") (param $count i32) (param $words i32)
    (local $i i32) (local $j i32) (local $to i32)
    (block $done (loop $wires
      (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
      (call $get (local.get $i))
      (local.set $j (i32.const 0))
      (block $full (loop $copy
        (br_if $full (i32.ge_u (local.get $j) (local.get $words)))
        (i32.store (local.get $to) (call $read (local.get $j)))
        (local.set $to (i32.add (local.get $to) (i32.const 4)))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $copy)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $wires)))))
"""

_PAGE = 1 << 16
_TICK = 0.05  # seconds; how finely deadlines are kept
_DESCRIBE = 1.0
"""Seconds of CPU time in which a program is loaded and says what it is, at most: circom's do so in milliseconds. Other
keys are loaded behind it."""

_SIGNATURES = {
    "getFieldNumLen32": ((), ("i32",)),
    "getRawPrime": ((), ()),
    "getWitnessSize": ((), ("i32",)),
    "getInputSize": ((), ("i32",)),
    "init": (("i32",), ()),
    "readSharedRWMemory": (("i32",), ("i32",)),
    "writeSharedRWMemory": (("i32", "i32"), ()),
    "setInputSignal": (("i32", "i32", "i32"), ()),
    "getWitness": (("i32",), ()),
}
"""What a program must export, with its parameters and results."""

_OPTIONAL = {
    "getInputSignalSize": (("i32", "i32"), ("i32",)),  # since circom 2.0.4 or so
    "getMessageChar": ((), ("i32",)),  # since circom 2.0.7
}

_FAULTS = {
    1: "the signal is not an input of the circuit",
    2: "too many input signals are set",
    3: "the signal is set already",
    4: "an assertion or constraint of the circuit does not hold for this input",
    5: "the program has not enough memory",
    6: "the signal has more values than the circuit takes",
}
_OTHER_FAULT = "the program failed with a code that circom does not have"
"""The code is not told: a program could make it of its inputs."""
_ASSERTION = 4

_TRACE = re.compile(r"Error in template ([A-Za-z0-9_$]{1,120}) line: [0-9]{1,5}(?![0-9])")
_TEMPLATE = re.compile(rb"Error in template ([A-Za-z0-9_$]{1,120})")
"""Matches the places where a program's own text names its templates."""
_MAX_TRACES = 4
"""Messages passed on, the innermost first, and only of templates that the program's text names: a program could put
values of its inputs into any other text, or into many."""
_MAX_MESSAGE = 4096
_MAX_TABLE = 1 << 20  # function pointers; circom makes one table entry per component


class _Misfit(WitnessGenerationError):
    """The input has other names or sizes than the circuit takes."""


class _Fault(Exception):
    """The program called exceptionHandler."""

    def __init__(self, code: int) -> None:
        self.code = code


class WitnessProgram:
    """A compiled witness program. Thread-safe: it may be shared by threads that generate."""

    def __init__(
        self,
        wasm: Source,
        *,
        name: str | None = None,
        deadline: float = 600.0,
        memory_limit: int = 2 << 30,
        cache_dir: Path | None = None,
        symbols: Path | None = None,
    ) -> None:
        """Compile a program, from a path or from its bytes.

        `symbols` is the circuit's `.sym` file, for the names in errors; by default the one beside the program.
        `deadline` bounds each generation, in seconds of CPU time; `memory_limit` bounds the program's memory, in bytes;
        `cache_dir` holds compiled programs, by default in the user's cache folder.
        Raises FormatError when it is not a circom 2 witness program for BN254 or BLS12-381, or is beyond what a program
        may take to compile.
        """
        data, self.name = load(wasm, name)
        text = data.tobytes()
        self._symbols = symbols or symbols_beside(Path(wasm) if isinstance(wasm, (str, os.PathLike)) else None)
        self._templates = frozenset(found.decode() for found in _TEMPLATE.findall(text))
        self._deadline, self._memory_limit = deadline, memory_limit
        engine = new_engine()
        self._module = load_module(engine, text, self.name, cache_dir)
        self._check_interface()
        self._idle = [_Runtime(engine, self._module)]
        with self._running(min(deadline, _DESCRIBE)) as instance:
            self.curve, self.n_vars, self.n_inputs = instance.describe()

    def check_for(self, circuit: LoadableKey) -> None:
        """Raises CurveMismatch or WitnessMismatch unless this program makes witnesses of `circuit`'s shape."""
        require_same_circuit(f"{self.name}: the program", self.curve, self.n_vars, circuit)

    def generate(self, inputs: Inputs, empty: Empty = np.empty) -> Words:
        """The witness for `inputs` (a file, or signal name -> integer or nested list), made in what `empty` gives:
        (n_vars, limbs) uint64, canonical.

        Raises WitnessGenerationError, which names the signal at fault where one is, and never a value.
        """
        try:
            return self._generate(inputs, empty)
        except _Misfit as error:
            raise self._explained(error, inputs) from None

    def _generate(self, inputs: Inputs, empty: Empty) -> Words:
        field = self.curve.fr
        with self._running(self._deadline) as instance:
            instance.start()
            given = 0
            for part in signals(inputs):
                if not part.goes_on:
                    instance.end_signal()
                    instance.begin_signal(part.signal)
                instance.set_values(part.values, field)
                given += len(part.values)
            instance.end_signal()
            if given < self.n_inputs:
                raise _Misfit(
                    f"{self.name}: the circuit takes {count_of(self.n_inputs, 'input value')}, "
                    f"{count_of(given, 'is', 'are')} given"
                )
            witness = instance.witness(self.n_vars, field.limbs, empty)
        if first_not_canonical(field, witness) is not None:
            raise WitnessGenerationError(f"{self.name}: the program returned a wire that is not below the prime")
        return witness

    def _explained(self, error: _Misfit, inputs: Inputs) -> WitnessGenerationError:
        """An error with all names and sizes that are wrong. A fresh instance is asked, which has seen no values."""
        plain = WitnessGenerationError(str(error))
        try:
            with self._running(min(self._deadline, _DESCRIBE)) as instance:
                if not instance.knows_sizes:
                    return plain
                faults = faults_of(inputs, instance.size_of, self.n_inputs, self._symbols)
        except WitnessGenerationError:  # of the survey alone: what was found first says more
            return plain
        return WitnessGenerationError(f"{self.name}: {faults}") if faults.any else plain

    def _check_interface(self) -> None:
        exports = {e.name: e.type for e in self._module.exports if isinstance(e.type, wasmtime.FuncType)}
        for export, signature in (_SIGNATURES | _OPTIONAL).items():
            if export not in exports:
                if export in _OPTIONAL:
                    continue
                old = " (it was made by circom 1, which is not supported)" if "getPRawPrime" in exports else ""
                raise FormatError(f"{self.name}: not a circom 2 witness program: it does not export {export}{old}")
            found = tuple(tuple(str(t) for t in side) for side in (exports[export].params, exports[export].results))
            if found != signature:
                raise FormatError(f"{self.name}: not a circom 2 witness program: {export} has the type {found}")
        for item in self._module.imports:
            if item.module != "runtime" or not isinstance(item.type, wasmtime.FuncType) or item.type.results:
                raise FormatError(f"{self.name}: not a circom 2 witness program: it imports {item.module}.{item.name}")

    @contextlib.contextmanager
    def _running(self, limit: float) -> Iterator[_Instance]:
        """A fresh instance for so many seconds of CPU time; what wasmtime raises inside becomes a
        WitnessGenerationError. Raises CalledOff."""
        require_wanted()
        try:
            runtime = self._idle.pop()
        except IndexError:
            runtime = _Runtime.like(self._module)
        store = wasmtime.Store(runtime.engine)
        store.set_limits(memory_size=self._memory_limit, table_elements=_MAX_TABLE, instances=2, memories=2)
        store.set_epoch_deadline(1)
        try:
            with _interrupted(runtime.engine, limit):
                yield _Instance(self.name, store, runtime.module, runtime.bridge, self._templates)
        except DistproveError:
            raise
        except _Fault as fault:  # from a start function: later ones are caught where more is known
            raise WitnessGenerationError(f"{self.name}: {_FAULTS.get(fault.code, _OTHER_FAULT)}") from None
        except wasmtime.Trap as trap:
            if trap.trap_code == wasmtime.TrapCode.INTERRUPT:
                require_wanted()
                raise WitnessGenerationError(
                    f"{self.name}: the program ran for {limit:g} s of CPU time, its limit"
                ) from None
            # A trap's text holds the program's function names and addresses only, but ends in a long backtrace.
            reason = getattr(trap.trap_code, "name", "unknown").lower().replace("_", " ")
            raise WitnessGenerationError(f"{self.name}: the program trapped: {reason}") from None
        except wasmtime.WasmtimeError as error:
            said = str(error).splitlines()[0]
            raise starved(said) or WitnessGenerationError(f"{self.name}: the program cannot run: {said}") from None
        finally:
            store.close()
            self._idle.append(runtime)


class _Runtime:
    """An engine with the program and the bridge. One run at a time uses it: an epoch interrupts all of an engine."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module) -> None:
        self.engine, self.module = engine, module
        self.bridge = wasmtime.Module(engine, _BRIDGE)

    @classmethod
    def like(cls, module: wasmtime.Module) -> _Runtime:
        """Another one with the machine code of a program."""
        engine = new_engine()
        return cls(engine, wasmtime.Module.deserialize(engine, module.serialize()))


class _Instance:
    """One run of a program: the instance, the bridge, and what the program said."""

    def __init__(
        self,
        name: str,
        store: wasmtime.Store,
        module: wasmtime.Module,
        bridge: wasmtime.Module,
        templates: frozenset[str],
    ) -> None:
        self._name, self._store, self._templates = name, store, templates
        self._message: list[str] = []
        self._signal, self._key = "", (0, 0)
        self._given = 0
        self._expected: int | None = None
        callbacks = {"exceptionHandler": self._on_exception, "printErrorMessage": self._on_message}
        imports = [
            wasmtime.Func(store, item.type, callbacks.get(item.name, _ignore), access_caller=True)
            for item in module.imports
        ]
        self._exports = wasmtime.Instance(store, module, imports).exports(store)
        self._bridge = wasmtime.Instance(store, bridge, [self._exports[item.name] for item in bridge.imports]).exports(
            store
        )

    def describe(self) -> tuple[Curve, int, int]:
        """The program's curve, number of wires, and number of input values."""
        words = self._call("getFieldNumLen32")
        if not 0 < words <= 64:
            raise FormatError(f"{self._name}: the program's field elements have {count_of(words, 'word')}")
        self._call("getRawPrime")
        prime = sum((self._call("readSharedRWMemory", i) & 0xFFFFFFFF) << (32 * i) for i in range(words))
        try:
            curve = curve_by_order(prime)
        except KeyError:
            raise FormatError(f"{self._name}: the program's prime is neither BN254's nor BLS12-381's") from None
        if words != 2 * curve.fr.limbs:
            raise FormatError(f"{self._name}: the program's field elements have {count_of(words, 'word')}")
        return curve, self._call("getWitnessSize") & 0xFFFFFFFF, self._call("getInputSize") & 0xFFFFFFFF

    def start(self) -> None:
        self._call("init", 0)

    def begin_signal(self, signal: str) -> None:
        """Begin with the values of a signal."""
        key = fnv1a(signal)
        self._signal, self._key = signal, (_signed(key >> 32), _signed(key & 0xFFFFFFFF))
        self._given, self._expected = 0, None
        if self.knows_sizes:
            self._expected = self.size_of(signal)
            if self._expected < 0:
                raise _Misfit(f"{self._name}: {signal!r} is not an input signal of the circuit")

    @property
    def knows_sizes(self) -> bool:
        """Whether the program says how many values a signal takes."""
        return "getInputSignalSize" in self._exports

    def size_of(self, signal: str) -> int:
        """The number of values that the program takes for a signal; 0 or less if it is no input."""
        key = fnv1a(signal)
        return self._call("getInputSignalSize", _signed(key >> 32), _signed(key & 0xFFFFFFFF))

    def set_values(self, values: Sequence[Any], field: Field) -> None:
        """Hand over more values of the signal. The last value of all makes the program run."""
        after = self._given + len(values)
        too_many = self._expected is not None and after > self._expected
        for packed in () if too_many else flatten(self._signal, values, field):
            self._room(len(packed)).write(self._store, packed)
            end = self._given + len(packed) // field.bytes
            try:
                self._bridge["set"](self._store, *self._key, self._given, end, field.bytes // 4)
            except _Fault as fault:
                raise self._failure(fault, self._signal) from None
            self._given = end
        self._given = after

    def end_signal(self) -> None:
        """Raises WitnessGenerationError unless the signal has all its values."""
        if self._expected not in (None, self._given):
            if self._expected == 0:  # what circom's programs say of a signal that they do not have
                raise _Misfit(f"{self._name}: {self._signal!r} is not an input signal of the circuit")
            raise _Misfit(
                f"{self._name}: signal {self._signal!r} takes {count_of(self._expected, 'value')}, "
                f"{count_of(self._given, 'is', 'are')} given"
            )

    def witness(self, n_vars: int, limbs: int, empty: Empty) -> Words:
        size = 8 * limbs * n_vars
        memory = self._room(size)
        try:
            self._bridge["get"](self._store, n_vars, 2 * limbs)
        except _Fault as fault:
            raise self._failure(fault) from None
        witness = empty((n_vars, limbs), np.uint64)
        witness.reshape(-1)[:] = np.frombuffer(memory.get_buffer_ptr(self._store, size, 0), dtype="<u8")
        return witness

    def _room(self, size: int) -> wasmtime.Memory:
        """The bridge's memory, grown to hold `size` bytes."""
        memory = self._bridge["memory"]
        missing = size - memory.data_len(self._store)
        if missing > 0:
            memory.grow(self._store, -(-missing // _PAGE))
        return memory

    def _call(self, export: str, *arguments: int) -> int:
        try:
            return int(self._exports[export](self._store, *arguments) or 0)
        except _Fault as fault:
            raise self._failure(fault) from None

    def _failure(self, fault: _Fault, signal: str | None = None) -> WitnessGenerationError:
        text = _FAULTS.get(fault.code, _OTHER_FAULT)
        if signal is not None and fault.code != _ASSERTION:  # an assertion fails in the run, not in one signal
            text = f"signal {signal!r}: {text}"
        # circom prints the innermost template first.
        found = _TRACE.finditer("".join(self._message))
        traces = [trace[0] for trace in found if trace[1] in self._templates][:_MAX_TRACES]
        return WitnessGenerationError(f"{self._name}: {text}" + (f" ({'; '.join(traces)})" if traces else ""))

    def _on_exception(self, _caller: Any, code: int = 0, *_rest: Any) -> None:
        raise _Fault(code)

    def _on_message(self, caller: wasmtime.Caller, *_rest: Any) -> None:
        read = caller.get("getMessageChar")
        if not isinstance(read, wasmtime.Func) or len(self._message) >= _MAX_MESSAGE:
            return
        while len(self._message) < _MAX_MESSAGE:
            character = read(caller)
            if not isinstance(character, int) or not 0 < character < 128:
                break
            self._message.append(chr(character))
        self._message.append("\n")


def _ignore(*_arguments: Any) -> None:
    """Drop what the program logs: it is witness data."""


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


@contextlib.contextmanager
def _interrupted(engine: wasmtime.Engine, limit: float) -> Iterator[None]:
    """Interrupt what runs on an engine inside the block once this thread has had `limit` seconds of CPU time, or its
    work is called off."""
    clock, is_called_off = time.pthread_getcpuclockid(threading.get_ident()), called_off()
    until, over, lock = time.clock_gettime(clock) + limit, threading.Event(), threading.Lock()

    def look() -> None:
        while not over.wait(_TICK):
            with lock:  # so that the next run on this engine is not interrupted for this one
                if not over.is_set() and (is_called_off() or time.clock_gettime(clock) >= until):
                    engine.increment_epoch()
                    return

    threading.Thread(target=look, name="witness-clock", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
