"""Functions of circom's field arithmetic in 64-bit words, in place of the 32-bit words that circom writes.

An element takes 40 bytes: a signed number of 32 bits; flags, of which bit 31 says that the value is long, so not that
number but the four 64-bit words that follow, and bit 30 that these are in Montgomery form, also beside a number.

For all operands, canonical or not, the functions leave what circom's leave: the same values in the same form. Programs
depend on the form too: where they take an input, they count on the flags that the element had before. But comparisons
and bitwise functions leave short operands short, and those and divisions have short results where these fit. circom's
make the operands long, for good: once a program has masked one bit with its constant 1, that is long, and all that
loops count with it after that.
"""

from __future__ import annotations

import functools
import re

import wasmtime

from distprove.groth16.wasm_limits import CODE, HEADER, Reader
from kernels.maths.curves import Field

_PLACES = {
    "int_div": 14,
    "F1m_add": 16,
    "F1m_sub": 17,
    "F1m_mul": 20,
    "F1m_fromMontgomery": 24,
    "isTrue": 35,
    "rawCopyS2L": 36,
    "toMontgomery": 37,
    "toNormal": 38,
    "isNegative": 40,
    "neg": 41,
    "getLsb32": 42,
    "toInt": 43,
    "add": 44,
    "sub": 45,
    "eqR": 46,
    "gtR": 47,
    "eq": 48,
    "neq": 49,
    "gt": 50,
    "geq": 51,
    "lt": 52,
    "leq": 53,
    "mul": 54,
    "idiv": 55,
    "mod": 56,
    "band": 71,
    "bor": 73,
    "bxor": 75,
}
"""Positions among the functions of a program of those that get new bodies, or are called by these."""
_IMPORTED = 4
"""Functions before them: circom's callbacks."""
_LIMBS = range(4)


@functools.cache
def field_bodies(field: Field) -> dict[int, bytes]:
    """The new bodies, by place."""
    text = _text(field)
    names = re.findall(r"\(func \$(\w+)", text)
    text = re.sub(r"call \$(\w+)", lambda call: f"call {_IMPORTED + _PLACES[call[1]]}", text)
    wasm = bytes(wasmtime.wat2wasm(f"(module {text})"))
    program = Reader("field arithmetic", wasm, len(HEADER), len(wasm))
    while program.byte() != CODE:
        program.part()
    code = program.part()
    return {_PLACES[name]: code.part().rest() for name in names[: code.number()]}


# -- pieces of WebAssembly's text, on locals $a0 to $a3, $b0 to $b3, $t0 to $t5, $carry, $factor ----------------------


def _locals(letters: str) -> str:
    limbs = " ".join(f"(local ${letter}{i} i64)" for letter in letters for i in _LIMBS)
    return f"{limbs} (local $t4 i64) (local $t5 i64) (local $carry i64) (local $factor i64)"


def _load(letter: str, pointer: str, offset: int = 0) -> str:
    return "\n".join(
        f"(local.set ${letter}{i} (i64.load offset={8 * i + offset} (local.get {pointer})))" for i in _LIMBS
    )


def _store(pointer: str, offset: int = 0) -> str:
    return "\n".join(f"(i64.store offset={8 * i + offset} (local.get {pointer}) (local.get $t{i}))" for i in _LIMBS)


def _constants(value: int) -> list[str]:
    return [f"(i64.const {value >> (64 * i) & 0xFFFFFFFFFFFFFFFF:#x})" for i in _LIMBS]


def _variables(letter: str) -> list[str]:
    return [f"(local.get ${letter}{i})" for i in _LIMBS]


def _above(left: list[str], right: list[str], equal: int) -> str:
    """1 when `left` is more than `right`, `equal` when it is the same."""
    text = f"(i32.const {equal})"
    for one, other in zip(left, right, strict=True):
        text = f"(if (result i32) (i64.eq {one} {other}) (then {text}) (else (i64.gt_u {one} {other})))"
    return text


def _same(left: list[str], right: list[str]) -> str:
    parts = [f"(i64.xor {one} {other})" for one, other in zip(left, right, strict=True)]
    return "(i64.eqz (i64.or (i64.or {} {}) (i64.or {} {})))".format(*parts)


def _sum(left: list[str], right: list[str]) -> str:
    """t = left + right; $carry is 1 where that is beyond 256 bits."""
    lines = ["(local.set $carry (i64.const 0))"]
    for i in _LIMBS:
        lines.append(f"{left[i]} (i64.const 0) {right[i]} (i64.const 0) i64.add128")
        lines.append(f"(local.get $carry) (i64.const 0) i64.add128 (local.set $carry) (local.set $t{i})")
    return "\n".join(lines)


def _difference(left: list[str], right: list[str]) -> str:
    """t = left - right; $carry is -1 where that is below 0."""
    lines = ["(local.set $carry (i64.const 0))"]
    for i in _LIMBS:
        lines.append(f"{left[i]} (i64.const 0) {right[i]} (i64.const 0) i64.sub128")
        lines.append(f"(local.get $carry) (local.get $carry) i64.add128 (local.set $carry) (local.set $t{i})")
    return "\n".join(lines)


def _below(prime: list[str], beyond: str) -> str:
    """Subtract the prime from t, once, where `beyond` is not 0 or t is not below it."""
    t = _variables("t")
    over = f"(i32.or (i64.ne (local.get {beyond}) (i64.const 0)) {_above(t, prime, 1)})"
    return f"(if {over} (then {_difference(t, prime)}))"


def _add_modulo(prime: list[str]) -> str:
    return _sum(_variables("a"), _variables("b")) + _below(prime, "$carry")


def _subtract_modulo(prime: list[str]) -> str:
    borrowed = "(i64.ne (local.get $carry) (i64.const 0))"
    return f"{_difference(_variables('a'), _variables('b'))} (if {borrowed} (then {_sum(_variables('t'), prime)}))"


def _divide_word(prime: list[str], inverse: int) -> str:
    """t = (t + k p) / 2^64 for the k below 2^64 that makes this a whole number; t has the words up to $t5 before it,
    and up to $t4 after it."""
    lines = [f"(local.set $factor (i64.mul (local.get $t0) (i64.const {inverse:#x})))"]
    for i in _LIMBS:
        lines.append(f"(local.get $factor) {prime[i]} i64.mul_wide_u (local.get $t{i}) (i64.const 0) i64.add128")
        lines.append("(local.get $carry) (i64.const 0) i64.add128" if i else "")
        lines.append("(local.set $carry) " + (f"(local.set $t{i - 1})" if i else "drop"))
    lines.append("(local.get $t4) (local.get $t5) (local.get $carry) (i64.const 0) i64.add128")
    lines.append("(local.set $t4) (local.set $t3)")
    return "\n".join(lines)


def _multiply_modulo(prime: list[str], inverse: int) -> str:
    """t = a b / 2^256 modulo the prime: row by row, each followed by a division by 2^64."""
    lines = ["(local.set $t4 (i64.const 0))", *(f"(local.set $t{i} (i64.const 0))" for i in _LIMBS)]
    for i in _LIMBS:
        lines.append("(local.set $carry (i64.const 0))")
        for j in _LIMBS:
            lines.append(f"(local.get $a{j}) (local.get $b{i}) i64.mul_wide_u")
            lines.append(f"(local.get $t{j}) (i64.const 0) i64.add128")
            lines.append(f"(local.get $carry) (i64.const 0) i64.add128 (local.set $carry) (local.set $t{j})")
        lines.append("(local.get $t4) (i64.const 0) (local.get $carry) (i64.const 0) i64.add128")
        lines.append("(local.set $t5) (local.set $t4)")
        lines.append(_divide_word(prime, inverse))
    return "\n".join([*lines, _below(prime, "$t4")])


# -- the functions ----------------------------------------------------------------------------------------------------

# A header, an element's number and flags, is written as one word, because circom's copy soon reads it as one: a
# processor cannot pass on two writes as one read. $fa and $fb are the flags of long operands, and 0 of short ones.
_MONTGOMERY, _LONG_HEADER = "(i32.const 0x40000000)", "(i64.const 0x8000000000000000)"
_SHORT = "(i32.eqz (i32.or (local.get $fa) (local.get $fb)))"
_THREE = "(param $r i32) (param $a i32) (param $b i32) (local $fa i32) (local $fb i32)"


def _value(element: str) -> str:
    """The address of an element's long value."""
    return f"(i32.add (local.get ${element}) (i32.const 8))"


def _flags(*elements: str) -> str:
    return "\n".join(
        f"(local.set $f{x} (i32.load offset=4 (local.get ${x})))"
        f"(local.set $f{x} (i32.and (local.get $f{x}) (i32.shr_s (local.get $f{x}) (i32.const 31))))"
        for x in elements
    )


def _has(element: str, flag: str) -> str:
    return f"(i32.and (local.get $f{element}) {flag})"


def _normal(element: str) -> str:
    return f"(if {_has(element, _MONTGOMERY)} (then (call $toNormal (local.get ${element}))))"


def _load_any(element: str, prime: list[str]) -> str:
    """The long value of an element, also of a short one, whose flags it overwrites; a long one's as it is."""
    low = f"(local.get ${element}0)"
    high = "".join(
        f"(local.set ${element}{i} (select {prime[i]} (i64.const 0) (local.get $f{element})))" for i in (1, 2, 3)
    )
    return f"""
      (if (local.get $f{element}) (then {_load(element, f"${element}", 8)}) (else
        (local.set ${element}0 (i64.load32_s (local.get ${element})))
        (local.set $f{element} (i64.lt_s {low} (i64.const 0)))
        (if (local.get $f{element}) (then (local.set ${element}0 (i64.add {low} {prime[0]}))))
        {high}))"""


def _make_long(element: str) -> str:
    return f"""
      (if (i32.eqz (local.get $f{element})) (then
        (call $rawCopyS2L {_value(element)} (i64.load32_s (local.get ${element})))
        (i64.store (local.get ${element}) (i64.or (i64.load32_u (local.get ${element})) {_LONG_HEADER}))))"""


def _of_numbers(operation: str) -> str:
    """The result, where both operands are short."""
    return f"""
      (if {_SHORT} (then
        (local.set $n (i64.{operation} (i64.load32_s (local.get $a)) (i64.load32_s (local.get $b))))
        (if (i64.eq (local.get $n) (i64.extend32_s (local.get $n)))
          (then (i64.store (local.get $r) (i64.and (local.get $n) (i64.const 0xffffffff))))
          (else
            (i64.store (local.get $r) {_LONG_HEADER})
            (call $rawCopyS2L {_value("r")} (local.get $n))))
        (return)))"""


def _linear(name: str, modulo: str) -> str:
    """A sum or difference of elements. What is short, or not in Montgomery form, goes by what the other operand is."""

    def convert(element: str) -> str:
        return f"(if (i32.eqz {_has(element, _MONTGOMERY)}) (then (call $toMontgomery (local.get ${element}))))"

    def widen(element: str) -> str:  # to 16, circom's place for it, and so that the value's address becomes that
        return f"""(if (i32.eqz (local.get $f{element})) (then
          (call $rawCopyS2L (i32.const 16) (i64.load32_s (local.get ${element})))
          (local.set ${element} (i32.const 8))))"""

    return f"""
    (func ${name} {_THREE} (local $n i64) (local $form i32) {_locals("abt")}
      {_flags("a", "b")} {_of_numbers(name)}
      (local.set $form (i32.and (i32.or (local.get $fa) (local.get $fb)) (i32.const 0xc0000000)))
      (if (i32.and (local.get $form) {_MONTGOMERY})
        (then {convert("a")} {convert("b")})
        (else {widen("a")} {widen("b")}))
      {_load("a", "$a", 8)} {_load("b", "$b", 8)} {modulo}
      (i64.store (local.get $r) (i64.shl (i64.extend_i32_u (local.get $form)) (i64.const 32)))
      {_store("$r", 8)})"""


def _product(modulo: str) -> str:
    """Short operands get Montgomery form; the product of two long ones without it is brought to it by R^3, at 704."""

    def convert(element: str) -> str:
        return f"""(if (i32.eqz (local.get $f{element})) (then
          (call $toMontgomery (local.get ${element})) (local.set $f{element} {_MONTGOMERY})))"""

    return f"""
    (func $mul {_THREE} (local $n i64) {_locals("abt")}
      {_flags("a", "b")} {_of_numbers("mul")} {convert("a")} {convert("b")}
      {_load("a", "$a", 8)} {_load("b", "$b", 8)} {modulo}
      (i64.store (local.get $r) (select (i64.const 0x8000000000000000) (i64.const 0xc000000000000000)
        (i32.and (i32.xor (local.get $fa) (local.get $fb)) {_MONTGOMERY})))
      {_store("$r", 8)}
      (if (i32.eqz (i32.and (i32.or (local.get $fa) (local.get $fb)) {_MONTGOMERY}))
        (then (call $F1m_mul (i32.const 704) {_value("r")} {_value("r")}))))"""


def _comparison(name: str, operation: str, unequal: str, equal: int) -> str:
    return f"""
    (func ${name} {_THREE}
      {_flags("a", "b")}
      (if {_SHORT}
        (then (i64.store (local.get $r)
          (i64.extend_i32_u (i32.{operation} (i32.load (local.get $a)) (i32.load (local.get $b))))))
        (else (i64.store (local.get $r) (i64.extend_i32_u (if (result i32)
          (call $eqR (local.get $a) (local.get $b)) (then (i32.const {equal})) (else {unequal})))))))"""


def _bitwise(name: str, operation: str, field: Field) -> str:
    """A function that applies `operation` to two values as numbers, cuts the result to the prime's bits and brings it
    below the prime."""
    prime = _constants(field.modulus)
    parts = "\n".join(f"(local.set $t{i} (i64.{operation} (local.get $a{i}) (local.get $b{i})))" for i in _LIMBS)
    mask = f"(local.set $t3 (i64.and (local.get $t3) (i64.const {(1 << (field.bits - 192)) - 1:#x})))"
    top = "(i64.shr_u (local.get $t0) (i64.const 31))"
    high = f"(i64.or (i64.or (local.get $t1) (local.get $t2)) (i64.or (local.get $t3) {top}))"
    return f"""
    (func ${name} {_THREE} {_locals("abt")}
      {_flags("a", "b")} {_normal("a")} {_normal("b")} {_load_any("a", prime)} {_load_any("b", prime)}
      {parts} {mask} {_below(prime, "$carry")}
      (if (i64.eqz {high})
        (then (i64.store (local.get $r) (local.get $t0)))
        (else (i64.store (local.get $r) {_LONG_HEADER}) {_store("$r", 8)})))"""


def _division(name: str, operation: str, results: str) -> str:
    """The quotient or remainder of values as numbers: circom's own, but for short operands that are not negative."""
    low = [f"(i32.load (local.get ${element}))" for element in "ab"]
    return f"""
    (func ${name} {_THREE}
      {_flags("a", "b")}
      (if (i32.and {_SHORT} (i32.and (i32.ge_s {low[0]} (i32.const 0)) (i32.gt_s {low[1]} (i32.const 0)))) (then
        (i64.store (local.get $r) (i64.extend_i32_u (i32.{operation} {low[0]} {low[1]})))
        (return)))
      {_make_long("a")} {_normal("a")} {_make_long("b")} {_normal("b")}
      (i64.store (local.get $r) {_LONG_HEADER})
      (call $int_div {_value("a")} {_value("b")} {results}))"""


def _text(field: Field) -> str:
    """The new functions."""
    prime, half = _constants(field.modulus), _constants(field.modulus >> 1)
    inverse = -pow(field.modulus, -1, 1 << 64) % (1 << 64)
    a, b = _variables("a"), _variables("b")
    add, subtract, multiply = _add_modulo(prime), _subtract_modulo(prime), _multiply_modulo(prime, inverse)
    raw = f"(param $a i32) (param $b i32) (param $r i32) {_locals('abt')} {_load('a', '$a')} {_load('b', '$b')}"
    leave = _divide_word(prime, inverse) * 4 + _below(prime, "$t4")
    above = "(call $gtR (local.get $a) (local.get $b))"
    return f"""
    (func $F1m_add {raw} {add} {_store("$r")})
    (func $F1m_sub {raw} {subtract} {_store("$r")})
    (func $F1m_mul {raw} {multiply} {_store("$r")})
    (func $F1m_fromMontgomery (param $a i32) (param $r i32) {_locals("t")} {_load("t", "$a")} {leave} {_store("$r")})
    (func $toNormal (param $a i32) (local $fa i32)
      {_flags("a")}
      (if {_has("a", _MONTGOMERY)} (then
        (call $F1m_fromMontgomery {_value("a")} {_value("a")})
        (i64.store (local.get $a) (i64.or (i64.load32_u (local.get $a)) {_LONG_HEADER})))))
    (func $isTrue (param $a i32) (result i32) (local $fa i32)
      {_flags("a")}
      (if (result i32) (local.get $fa)
        (then (i64.ne (i64.const 0) (i64.or
          (i64.or (i64.load offset=8 (local.get $a)) (i64.load offset=16 (local.get $a)))
          (i64.or (i64.load offset=24 (local.get $a)) (i64.load offset=32 (local.get $a))))))
        (else (i32.ne (i32.load (local.get $a)) (i32.const 0)))))
    (func $isNegative (param $a i32) (result i32) (local $fa i32) {_locals("a")}
      {_flags("a")}
      (if (result i32) (local.get $fa)
        (then {_normal("a")} {_load("a", "$a", 8)} {_above(a, half, 0)})
        (else (i32.lt_s (i32.load (local.get $a)) (i32.const 0)))))
    (func $getLsb32 (param $a i32) (result i32) (local $fa i32)
      {_flags("a")}
      (if (result i32) (local.get $fa)
        (then {_normal("a")} (i32.load offset=8 (local.get $a)))
        (else (i32.load (local.get $a)))))
    (func $toInt (param $a i32) (result i32) (local $fa i32) {_locals("a")}
      {_flags("a")}
      (if (i32.eqz (local.get $fa)) (then (return (i32.load (local.get $a)))))
      {_normal("a")} {_load("a", "$a", 8)}
      (if (result i32) {_above(a, half, 0)}
        (then
          (call $neg (i32.const 8) (local.get $a))
          (i32.sub (i32.const 0) (call $getLsb32 (i32.const 8))))
        (else (i32.wrap_i64 (local.get $a0)))))
    {_linear("add", add)} {_linear("sub", subtract)} {_product(multiply)}
    (func $eqR (param $a i32) (param $b i32) (result i32) (local $fa i32) (local $fb i32) {_locals("ab")}
      {_flags("a", "b")}
      (if {_SHORT} (then (return (i32.eq (i32.load (local.get $a)) (i32.load (local.get $b))))))
      (if (i32.and (i32.xor (local.get $fa) (local.get $fb)) {_MONTGOMERY}) (then {_normal("a")} {_normal("b")}))
      {_load_any("a", prime)} {_load_any("b", prime)} {_same(a, b)})
    (func $gtR (param $a i32) (param $b i32) (result i32) (local $fa i32) (local $fb i32) {_locals("ab")}
      {_flags("a", "b")}
      (if {_SHORT} (then (return (i32.gt_s (i32.load (local.get $a)) (i32.load (local.get $b))))))
      {_normal("a")} {_normal("b")} {_load_any("a", prime)} {_load_any("b", prime)}
      (local.set $fa {_above(a, half, 0)}) (local.set $fb {_above(b, half, 0)})
      (if (i32.ne (local.get $fa) (local.get $fb)) (then (return (local.get $fb))))
      {_above(a, b, 0)})
    {_bitwise("band", "and", field)} {_bitwise("bor", "or", field)} {_bitwise("bxor", "xor", field)}
    {_division("idiv", "div_u", f"{_value('r')} (i32.const 16)")}
    {_division("mod", "rem_u", f"(i32.const 16) {_value('r')}")}
    {_comparison("eq", "eq", "(i32.const 0)", 1)} {_comparison("neq", "ne", "(i32.const 1)", 0)}
    {_comparison("gt", "gt_s", above, 0)} {_comparison("geq", "ge_s", above, 1)}
    {_comparison("lt", "lt_s", f"(i32.eqz {above})", 0)} {_comparison("leq", "le_s", f"(i32.eqz {above})", 1)}
    """
