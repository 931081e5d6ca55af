"""The operations that the multilinear verifier is written over: field, comparison, transcript and proof of work.

`NUMBERS` computes with numbers, so that the verifier verifies. `distprove.stark.recursion` computes with symbols, so
that the same code emits a circuit. An *element* is one of F. Arrays of elements have a last axis that holds one element
(three words, or one symbol); arrays of *scalars*, elements of F_p, have no such axis. Both are indexed alike.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark import field
from distprove.stark.air.point import PointProgram
from distprove.stark.field import Ext, P, root_of_unity
from distprove.stark.field_operations import ArrayOperations, NumberOperations
from distprove.stark.field_operations import E as E
from distprove.stark.field_operations import Elements as Elements
from distprove.stark.field_operations import Indices as Indices
from distprove.stark.field_operations import Scalars as Scalars
from distprove.stark.transcript import DuplexTranscript, Transcript, make_transcript, work_is_done
from kernels.interface.tree_hash import TreeHash


class Arithmetic(ArrayOperations[E]):
    """Operations on elements of type `E`, arrays of them and transcripts."""

    p = P
    root_of_unity = staticmethod(root_of_unity)

    # -- arrays -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def embed(self, a: Scalars) -> Elements:
        """Scalars (...) as elements (..., element)."""

    @abstractmethod
    def weighted(self, weights: Sequence[E], rows: Scalars) -> Elements:
        """The sums over the last axis of `rows` (..., w) of weight times scalar, (..., element)."""

    def powers_array(self, base: E, count: int) -> Elements:
        """The first `count` powers, (count, element)."""
        return self.array(self.powers(base, count))

    def dot(self, a: Elements, b: Elements) -> E:
        """The sum of the products of two arrays (n, element)."""
        return self.sum(self.elements(self.muls(a, b)))

    def paired(self, factors: Elements, points: Elements, alphas: Sequence[E]) -> tuple[Elements, Elements]:
        """Factors times 1 + alpha y for each alpha, y being the points, then their squares, and so on. And the powers
        of the points that come next."""
        one = self.array([self.one])
        for alpha in alphas:
            factors = self.muls(factors, self.adds(one, self.muls(points, self.array([alpha]))))
            points = self.muls(points, points)
        return factors, points

    @abstractmethod
    def program_at(self, program: PointProgram, this: Sequence[Any], next_: Sequence[Any], scalars: Elements) -> E:
        """The value of a fold program from the values of the matrices' columns, as `PointProgram` takes them."""

    # -- conditions -------------------------------------------------------------------------------------------------

    @abstractmethod
    def need_all_equal(self, a: Elements, b: Elements, otherwise: str) -> None: ...

    # -- hashing ----------------------------------------------------------------------------------------------------

    def at_offsets(self, folds: Sequence[E]) -> Callable[[int, int], E]:
        """Return a function of a first number and an offset: the product of the folds from that number on at the set
        bits of the offset."""

        def product(first: int, offset: int) -> E:
            found = self.one
            for i in range(first, len(folds)):
                if offset >> i & 1:
                    found = self.mul(found, folds[i])
            return found

        return product

    @abstractmethod
    def transcript(self, purpose: bytes, tree_hash: TreeHash) -> Transcript:
        """A new transcript."""

    @abstractmethod
    def drawn(self, transcript: Transcript, label: bytes) -> E:
        """Draw an element from a transcript of this arithmetic."""

    @abstractmethod
    def drawn_scalars(self, transcript: Transcript, label: bytes, count: int) -> Scalars:
        """Draw scalars from a duplex transcript of this arithmetic."""

    @abstractmethod
    def nonce_bytes(self, nonce: Any) -> Any:
        """The eight bytes of a nonce."""

    @abstractmethod
    def need_work(self, seed: Any, nonce: Any, bits: int, tree_hash: TreeHash, otherwise: str) -> None:
        """The nonce must do the proof of work of so many bits."""


class Numbers(NumberOperations[Ext], Arithmetic[Ext]):
    """The arithmetic of numbers, with NumPy. A condition that fails raises InvalidProof."""

    word, degree = np.uint64, 3
    zero = field.ZERO
    one = field.ONE
    add = staticmethod(field.e_add)
    sub = staticmethod(field.e_sub)
    mul = staticmethod(field.e_mul)
    scale = staticmethod(field.e_scale)
    powers = staticmethod(field.e_powers)
    sum = staticmethod(field.e_sum)
    adds = staticmethod(field.add)
    subs = staticmethod(field.sub)
    scales = staticmethod(field.ext_scale)
    scalar_muls = staticmethod(field.mul)
    inverses = staticmethod(field.inverse)
    powers_array = staticmethod(field.ext_powers)
    embed = staticmethod(field.embed)
    transcript = staticmethod(make_transcript)

    def constant(self, value: int) -> Ext:
        return value, 0, 0

    @lru_cache(maxsize=8)  # noqa: B019 - `NUMBERS` is the only instance
    def lagrange(self, point: Ext, log_size: int) -> tuple[Ext, ...]:
        return super().lagrange(point, log_size)

    def muls(self, a: Elements, b: Elements) -> Elements:
        """Where b has base elements alone, as points of a domain are, there are three products in place of nine."""
        return field.ext_mul(a, b) if b[..., 1:].any() else field.ext_scale(a, b[..., 0])

    def paired(self, factors: Elements, points: Elements, alphas: Sequence[Ext]) -> tuple[Elements, Elements]:
        """The first point is any element, and the others mostly base elements."""
        if len(points) < 2 or points[1:, 1:].any():
            return super().paired(factors, points, alphas)
        ((factor,), (point,)), rest, y = map(self.elements, (factors[:1], points[:1])), factors[1:], points[1:, 0]
        for alpha in alphas:
            factor = field.e_mul(factor, field.e_add(field.ONE, field.e_mul(point, alpha)))
            point = field.e_mul(point, point)
            weights = field.ext_scale(np.array([alpha], dtype=np.uint64), y)
            weights[:, 0] = field.add(weights[:, 0], np.uint64(1))
            rest, y = field.ext_mul(rest, weights), field.mul(y, y)
        return np.concatenate([self.array([factor]), rest]), np.concatenate([self.array([point]), field.embed(y)])

    def weighted(self, weights: Sequence[Ext], rows: Scalars) -> Elements:
        out = np.zeros((*rows.shape[:-1], 3), dtype=np.uint64)
        for column, weight in enumerate(weights):
            out = field.add(out, field.mul(np.array(weight, dtype=np.uint64), rows[..., column, None]))
        return out

    def dot(self, a: Elements, b: Elements) -> Ext:
        return field.element(field.total(field.ext_mul(a, b)))

    def at_offsets(self, folds: Sequence[Ext]) -> Callable[[int, int], Ext]:
        """Offsets that have their upper bits in common share the product of these."""
        known = {0: field.ONE}

        def above(offset: int) -> Ext:
            if offset not in known:
                low = offset & -offset
                known[offset] = field.e_mul(folds[low.bit_length() - 1], above(offset ^ low))
            return known[offset]

        whole = (1 << len(folds)) - 1
        return lambda first, offset: above((offset & whole) >> first << first)

    def program_at(self, program: PointProgram, this: Sequence[Any], next_: Sequence[Any], scalars: Elements) -> Ext:
        return program(this, next_, scalars)

    def powers_at(self, base: int, exponents: Indices, bits: int) -> Scalars:
        return field.powers_at(base, exponents, max(1, bits))

    def need_all_equal(self, a: Elements, b: Elements, otherwise: str) -> None:
        if not np.array_equal(a, b):
            raise InvalidProof(otherwise)

    def drawn(self, transcript: Transcript, label: bytes) -> Ext:
        return transcript.extension(label)

    def drawn_scalars(self, transcript: Transcript, label: bytes, count: int) -> Scalars:
        assert isinstance(transcript, DuplexTranscript), "bytes are no scalars"
        return np.array(transcript.scalars(label, count), dtype=np.uint64)

    def nonce_bytes(self, nonce: int) -> bytes:
        return nonce.to_bytes(8, "little")

    def need_work(self, seed: bytes, nonce: int, bits: int, tree_hash: TreeHash, otherwise: str) -> None:
        if not work_is_done(seed, nonce, bits, tree_hash):
            raise InvalidProof(otherwise)


NUMBERS = Numbers()
