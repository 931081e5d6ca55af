"""The family of operations on field vectors: elementwise ones, and transforms.

A field vector has shape (..., n, limbs) and dtype uint64: little-endian limbs, Montgomery form unless said otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

from kernels.errors import SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.maths.curves import Field

Elementwise = Literal["add", "sub", "mul", "mul_sub", "to_montgomery", "from_montgomery", "batch_inverse"]


class Transform(NamedTuple):
    """One transform, as `Vectors.ntt` defines it; `coset` is None or an element that is not zero."""

    log_n: int
    inverse: bool
    coset: int | None
    bit_reversed_input: bool
    bit_reversed_output: bool


class TransformBytes(NamedTuple):
    """Bytes of a backend's memory that transforms of one size take."""

    scratch: int
    """Bytes beside the vector, given back after each transform."""
    tables: int
    """Bytes that are kept from one transform to the next, for as long as no other size needs them."""


class Vectors(ABC):
    """Field vectors of one backend. An `out` is a contiguous array of the result's shape; it may be an operand.

    Raises SizeError for arrays that do not fit, BackendError for a field without kernels.
    """

    def __init__(self, empty: Callable[..., Array]) -> None:
        """`empty` makes an uninitialised array of a shape and dtype in the backend's memory."""
        self._empty = empty

    def add(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._apply("add", field, (a, b), out)

    def sub(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._apply("sub", field, (a, b), out)

    def mul(self, field: Field, a: Array, b: Array, out: Array | None = None) -> Array:
        return self._apply("mul", field, (a, b), out)

    def mul_sub(self, field: Field, a: Array, b: Array, c: Array, out: Array | None = None) -> Array:
        """Return a * b - c, elementwise."""
        return self._apply("mul_sub", field, (a, b, c), out)

    def to_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._apply("to_montgomery", field, (a,), out)

    def from_montgomery(self, field: Field, a: Array, out: Array | None = None) -> Array:
        return self._apply("from_montgomery", field, (a,), out)

    def batch_inverse(self, field: Field, a: Array, out: Array | None = None) -> Array:
        """Return 1 / a[i], elementwise; zero stays zero."""
        return self._apply("batch_inverse", field, (a,), out)

    def bits(self, field: Field, a: Array, count: int, out: Array | None = None) -> Array:
        """Return the `count` low bits of the integers in `a`, (n, limbs), as elements, (count, n, limbs)."""
        preconditions.elements(field, a, "a")
        if a.ndim != 2 or not 0 <= count <= 64 * field.limbs:
            raise SizeError(f"an element has up to {64 * field.limbs} bits, not {count}; they are taken of one vector")
        shape = (count, *a.shape)
        if out is None:
            out = self._empty(shape, a.dtype)
        preconditions.writable(out, shape)
        if out.size:
            self._bits(field, a, count, out)
        return out

    def scale_powers(self, field: Field, a: Array, base: int, first: int = 1, out: Array | None = None) -> Array:
        """Return a[i] * first * base^i for one vector; `base` and `first` are integers in standard form."""
        n = preconditions.elements(field, a, "a")
        if a.ndim != 2:
            raise SizeError(f"scale_powers takes one vector, shape (n, {field.limbs}), not {a.shape}")
        out = self._output(a, out)
        self._scale_powers(field, n, a, base, first, out)
        return out

    def equal(self, a: Array, b: Array) -> bool:
        """Whether two contiguous arrays hold the same words. Copies one flag to the host."""
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        preconditions.contiguous(a, "a")
        preconditions.contiguous(b, "b")
        if a.nbytes % 8:
            raise SizeError(f"equal compares 64-bit words; {a.nbytes} bytes are not a whole number of them")
        return a.nbytes == 0 or self._equal(a, b)

    def ntt(
        self,
        field: Field,
        a: Array,
        *,
        inverse: bool = False,
        coset: int | None = None,
        bit_reversed_input: bool = False,
        bit_reversed_output: bool = False,
    ) -> Array:
        """Transform each length-n vector of `a`, shape (n, limbs) or (batch, n, limbs), in place.

        Forward: out[i] = sum_j a[j] (coset * w^i)^j, with w = field.root_of_unity(log2 n). The inverse undoes exactly
        that, 1/n included. n is 2^0 to 2^two_adicity. `coset` is an integer in standard form. Returns `a`.
        """
        preconditions.elements(field, a, "a")
        n = int(a.shape[-2])
        log_n = n.bit_length() - 1
        if a.ndim not in (2, 3) or n == 0 or n != 1 << log_n or log_n > field.two_adicity:
            raise SizeError(
                f"a transform over {field.name} takes (n, {field.limbs}) or (batch, n, {field.limbs}) with n a power "
                f"of two up to 2^{field.two_adicity}, not {a.shape}"
            )
        preconditions.writable(a, a.shape)
        if coset is not None:
            coset %= field.modulus
            if coset == 0:
                raise SizeError("a coset's shift cannot be zero")
        self._ntt(field, a, Transform(log_n, inverse, coset, bit_reversed_input, bit_reversed_output))
        return a

    def transform_bytes(self, field: Field, log_n: int, kinds: int) -> TransformBytes:
        """Predict the memory of transforms of 2^log_n elements, where `kinds` different directions and cosets take
        turns. It is 0 for a backend that computes in host memory."""
        return TransformBytes(0, 0)

    def _apply(self, operation: Elementwise, field: Field, inputs: tuple[Array, ...], out: Array | None) -> Array:
        n = preconditions.elements(field, inputs[0], "operand 0")
        for i, other in enumerate(inputs[1:], 1):
            preconditions.elements(field, other, f"operand {i}")
            if other.shape != inputs[0].shape:
                raise SizeError(f"operands of different shapes: {other.shape} and {inputs[0].shape}")
        out = self._output(inputs[0], out)
        self._elementwise(operation, field, n, inputs, out)
        return out

    def _output(self, like: Array, out: Array | None) -> Array:
        if out is None:
            return self._empty(like.shape, like.dtype)
        preconditions.writable(out, like.shape)
        return out

    # -- what a backend implements, on checked arguments; n is the number of elements --------------------------------

    @abstractmethod
    def _elementwise(
        self, operation: Elementwise, field: Field, n: int, inputs: tuple[Array, ...], out: Array
    ) -> None: ...

    @abstractmethod
    def _scale_powers(self, field: Field, n: int, a: Array, base: int, first: int, out: Array) -> None: ...

    @abstractmethod
    def _bits(self, field: Field, a: Array, count: int, out: Array) -> None: ...

    @abstractmethod
    def _equal(self, a: Array, b: Array) -> bool: ...

    @abstractmethod
    def _ntt(self, field: Field, a: Array, transform: Transform) -> None: ...
