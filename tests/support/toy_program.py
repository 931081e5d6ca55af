"""A hand-written witness program that speaks circom 2's protocol, with places where a test can put mischief.

It takes one signal, `x` unless said otherwise, with two values, and returns the witness 1, x[0], x[1].
"""

from __future__ import annotations

import wasmtime

from distprove.groth16.inputs import fnv1a
from kernels.maths.curves import BN254, Curve

# Memory: 0 the shared element, 64 the prime, 128 the message, 256 the witness.
_PROGRAM = """
(module
  (import "runtime" "exceptionHandler" (func $fail (param i32)))
  (import "runtime" "printErrorMessage" (func $print))
  {imports}
  (memory (export "memory") {memory})
  (global $cursor (mut i32) (i32.const 128))
  (global $set (mut i32) (i32.const 0))
  (data (i32.const 64) "{prime}")
  (data (i32.const 128) "{message}\\00")
  (data (i32.const 256) "\\01")
  (func (export "getVersion") (result i32) (i32.const 2))
  (func (export "getFieldNumLen32") (result i32) (i32.const {words}))
  (func (export "getRawPrime") (memory.copy (i32.const 0) (i32.const 64) (i32.const 32)))
  (func (export "getWitnessSize") (result i32) (i32.const {wires}))
  (func (export "getInputSize") (result i32) (i32.const 2))
  (func $read (export "readSharedRWMemory") (param i32) (result i32)
    (i32.load (i32.mul (local.get 0) (i32.const 4))))
  (func (export "writeSharedRWMemory") (param i32 i32)
    (i32.store (i32.mul (local.get 0) (i32.const 4)) (local.get 1)))
  (func $is_x (param i32 i32) (result i32)
    (i32.and (i32.eq (local.get 0) (i32.const {high})) (i32.eq (local.get 1) (i32.const {low}))))
  {input_size}
  (func (export "init") (param i32) {init})
  (func (export "setInputSignal") (param i32 i32 i32)
    (if (i32.eqz (call $is_x (local.get 0) (local.get 1))) (then (call $fail (i32.const 1))))
    (memory.copy
      (i32.add (i32.const 288) (i32.mul (local.get 2) (i32.const 32))) (i32.const 0) (i32.const 32))
    (global.set $set (i32.add (global.get $set) (i32.const 1)))
    (if (i32.eq (global.get $set) (i32.const 2)) (then {run})))
  (func (export "getWitness") (param i32)
    (memory.copy (i32.const 0) (i32.add (i32.const 256) (i32.mul (local.get 0) (i32.const 32))) (i32.const 32)))
  (func (export "getMessageChar") (result i32)
    {talk}
    (global.set $cursor (i32.add (global.get $cursor) (i32.const 1)))
    (i32.load8_u (i32.sub (global.get $cursor) (i32.const 1)))))
"""

_INPUT_SIZE = """
  (func (export "getInputSignalSize") (param i32 i32) (result i32)
    (select (i32.const 2) (i32.const {unknown}) (call $is_x (local.get 0) (local.get 1))))
"""

FOREVER = "(loop $forever (br $forever))"
ASSERTION = "(call $print) (call $fail (i32.const 4))"
NON_CANONICAL = "(i64.store (i32.const 312) (i64.const -1))"


def toy_program(
    *,
    signal: str = "x",
    curve: Curve = BN254,
    imports: str = "",
    memory: int = 1,
    message: str = "",
    words: int = 8,
    wires: int = 3,
    talk: str = "",
    init: str = "",
    run: str = "",
    input_size: bool = True,
    size_of_unknown: int = -1,
    prime: int | None = None,
) -> bytes:
    """The program's wasm. `init`, `run`, `talk` are code run by init, when all inputs are set, and for each
    character of the message."""
    key = fnv1a(signal)
    number = (prime or curve.fr.modulus).to_bytes(32, "little")
    text = _PROGRAM.format(
        imports=imports,
        memory=memory,
        message=message,
        words=words,
        wires=wires,
        talk=talk,
        init=init,
        run=run,
        input_size=_INPUT_SIZE.format(unknown=size_of_unknown) if input_size else "",
        prime="".join(f"\\{byte:02x}" for byte in number),
        high=key >> 32,
        low=key & 0xFFFFFFFF,
    )
    return bytes(wasmtime.wat2wasm(text))
