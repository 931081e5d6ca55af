"""The quotient of a Groth16 proof, in the basis of the key's H points: see `distprove.groth16.prover`."""

from __future__ import annotations

from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.curves import Field


def quotient_scalars(backend: Backend, field: Field, monomial: bool, a: Array, b: Array) -> Array:
    """The scalars for the H points, (domain, 4) canonical integers: the evaluations of A B - C on the odd coset,
    or with `monomial` the coefficients of the quotient (A B - C) / t, the last of which is zero.

    `a` and `b` are A w and B w, (domain, 4) in Montgomery form; both are overwritten.
    """
    vectors, log_domain = backend.vectors, len(a).bit_length() - 1
    shift = field.root_of_unity(log_domain + 1)

    c = vectors.mul(field, a, b)  # for a satisfied witness C w = A w * B w
    # Transforms of one kind follow each other: the tables of a kind take as much memory as a vector.
    for vector in (a, b) if monomial else (a, b, c):
        vectors.ntt(field, vector, inverse=True, bit_reversed_output=True)
    if monomial:
        vectors.ntt(field, c, inverse=True)
    for vector in (a, b) if monomial else (a, b, c):
        vectors.ntt(field, vector, coset=shift, bit_reversed_input=True)
    if not monomial:
        h = vectors.mul_sub(field, a, b, c, out=a)
    else:
        # With A B = low + high x^n, C is A B modulo x^n - 1, low + high; and from the values on the coset, where
        # x^n = -1, comes A B modulo x^n + 1, low - high. The quotient is high: six transforms, where to divide on the
        # coset and to transform back takes seven.
        d = vectors.mul(field, a, b, out=a)
        vectors.ntt(field, d, inverse=True, coset=shift)
        h = vectors.sub(field, c, d, out=c)
        vectors.scale_powers(field, h, 1, pow(2, -1, field.modulus), out=h)
    return vectors.from_montgomery(field, h, out=h)
