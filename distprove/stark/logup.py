"""LogUp: challenges as scalars of an AIR's programs, the auxiliary columns, and the sums that must vanish.

`distprove.stark.air.compiler` explains the terms and makes the constraints. Prover and verifier both take their scalars
from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic

import numpy as np

from distprove.errors import InputError, InvalidProof
from distprove.stark import field
from distprove.stark.air.compiled import EXTENSION_DEGREE, SCOPES, CompiledAir, UsesBuses
from distprove.stark.air.definition import Bus
from distprove.stark.arithmetic import NUMBERS, Arithmetic, E
from distprove.stark.field import Ext, P, Words
from distprove.stark.output import MAX_OUTPUT_TUPLES, OUTPUT_WIDTH, output_stream
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend


@dataclass(frozen=True)
class BusChallenges(Generic[E]):
    """The challenges z and beta of the local buses and of the global ones; None for those that no table uses."""

    local: tuple[E, E] | None = None
    global_: tuple[E, E] | None = None


Terminals = tuple[Ext | None, Ext | None]
"""The terminals T of the local and of the global scope; None for a scope without interactions."""


@dataclass(frozen=True)
class BoundaryTerm:
    """A tuple that the statement itself sends on a global bus (times > 0) or receives from it (times < 0)."""

    bus_number: int
    values: tuple[int, ...]
    times: int


StatedTuples = tuple[int, int, int, int]
"""Tuples of the statement without their values: bus number, width, times, and how many there are."""


# -- scalars ----------------------------------------------------------------------------------------------------------


def constraint_scalars(
    air: CompiledAir, public: Sequence[int], buses: BusChallenges[Ext], terminals: Terminals, *, n: int, alpha: Ext
) -> Words:
    """The scalars of `air.constraints` for a table of height n, (air.constraints.scalars, 3).

    `public` holds all public values of the partition, canonical. Challenges and terminals of a scope that the AIR does
    not use are ignored. Raises InputError when one that it uses is missing, or `public` has a wrong length.
    """
    inverse_height = pow(n, -1, P)
    parts = challenge_scalars(air, public, buses)
    for scope, used, terminal in zip(SCOPES, (air.has_local, air.has_global), terminals, strict=True):
        if used:
            if terminal is None:
                raise InputError(f"{air.name}: the terminal of its buses of scope {scope!r} is missing")
            parts.append(field.e_scale(terminal, inverse_height))
    if air.uses:
        parts += [(0, 1, 0), (0, 0, 1)]
    return np.concatenate((_words(parts), field.ext_powers(alpha, len(air.constraint_names))))


def interaction_scalars(air: CompiledAir, public: Sequence[int], buses: BusChallenges[Ext]) -> Words:
    """The scalars of `air.interactions`, (air.interactions.scalars, 3), from arguments as of `constraint_scalars`."""
    return _words([*challenge_scalars(air, public, buses), field.ZERO])


def challenge_scalars(air: UsesBuses, public: Sequence[int], buses: BusChallenges[Ext]) -> list[Ext]:
    """The public values and the challenges of the scopes that a table uses, as its programs number them."""
    if len(public) != air.public_count:
        raise InputError(f"{air.name}: {count_of(len(public), 'public value')}, expected {air.public_count}")
    if not all(0 <= value < P for value in public):
        raise InputError(f"{air.name}: a public value is not a canonical field element")
    return [*[(value, 0, 0) for value in public], *scope_scalars(NUMBERS, air, buses)]


def scope_scalars(f: Arithmetic[E], air: UsesBuses, buses: BusChallenges[E]) -> list[E]:
    """The challenges of the scopes that a table uses, as its programs number them. Raises InputError."""
    parts: list[E] = []
    widths, drawn = (air.local_width, air.global_width), (buses.local, buses.global_)
    for scope, width, challenges in zip(SCOPES, widths, drawn, strict=True):
        if width:
            if challenges is None:
                raise InputError(f"{air.name}: the challenges of its buses of scope {scope!r} are missing")
            z, beta = challenges
            parts += [z, *f.powers(beta, width + 1)[1:]]
    return parts


def _words(parts: Sequence[Ext]) -> Words:
    return np.array(parts, dtype=np.uint64).reshape(-1, EXTENSION_DEGREE)


# -- the prover's columns ---------------------------------------------------------------------------------------------


def aux_columns(
    backend: Backend, air: CompiledAir, preprocessed: Array | None, main: Array, scalars: Words
) -> tuple[Array, Terminals]:
    """The auxiliary columns (aux_width, n) of a trace, in the backend's memory, and the terminals of its scopes.

    `preprocessed` (None for an AIR without) and `main` are (width, n) on the trace's domain; `scalars` come from
    `interaction_scalars`. The AIR must have interactions.
    """
    if air.interactions is None:
        raise InputError(f"{air.name} has no interactions, so no auxiliary columns")
    kernels = backend.goldilocks
    n = main.shape[-1]
    fractions = kernels.evaluate(air.interactions, [preprocessed, main], scalars).reshape(-1, n)
    width = EXTENSION_DEGREE * len(air.groups)
    quotients = kernels.divide(fractions[:width], fractions[width:])
    del fractions  # before `aux` is allocated: at most three times the groups' columns are alive at once
    aux = backend.empty((air.aux_width, n), np.uint64)
    aux[:width] = quotients
    del quotients
    terminals: list[Ext | None] = []
    start, row = 0, width
    for scope in SCOPES:
        stop = start + EXTENSION_DEGREE * sum(group.scope == scope for group in air.groups)
        if stop == start:
            terminals.append(None)
            continue
        aux[row : row + EXTENSION_DEGREE], terminal = kernels.running_sum(aux[start:stop])
        terminals.append(terminal)
        start, row = stop, row + EXTENSION_DEGREE
    return aux, (terminals[0], terminals[1])


# -- sums that must vanish --------------------------------------------------------------------------------------------


def boundary_sum(terms: Iterable[BoundaryTerm], z: Ext, beta: Ext) -> Ext:
    """The sum of times / fingerprint over the boundary, which is added to the terminals of the global scope. The
    fingerprint of the tuple (t_1, .., t_w) of a bus is z + bus number + beta t_1 + .. + beta^w t_w.

    Raises InvalidProof when a fingerprint is zero, which has a negligible probability for a random z.
    """
    left, found = iter(terms), field.ZERO
    while block := list(islice(left, _BOUNDARY_BLOCK)):
        found = field.e_add(found, _block_sum(block, z, beta))
    return found


_BOUNDARY_BLOCK = 1 << 12
"""Number of tuples of the boundary that are in memory at once, at some 650 bytes each."""


def _block_sum(terms: Sequence[BoundaryTerm], z: Ext, beta: Ext) -> Ext:
    by_width: dict[int, list[BoundaryTerm]] = {}
    for term in terms:
        by_width.setdefault(len(term.values), []).append(term)
    parts = []
    for width, alike in by_width.items():
        tuples = np.array([(term.bus_number, *(v % P for v in term.values)) for term in alike], dtype=np.uint64)
        fingerprints = np.broadcast_to(np.array(z, dtype=np.uint64), (len(alike), 3))
        for values, power in zip(tuples.T, field.e_powers(beta, width + 1), strict=True):
            fingerprints = field.add(fingerprints, field.mul(np.array(power, dtype=np.uint64), values[:, None]))
        if not fingerprints.any(axis=1).all():
            raise InvalidProof("a tuple of the public boundary has the fingerprint zero")
        times = np.array([term.times % P for term in alike], dtype=np.uint64)
        parts += field.ext_scale(field.ext_inverse(fingerprints), times).tolist()
    return field.e_sum(parts)


def output_sum(bus_number: int, output: bytes, z: Ext, beta: Ext) -> Ext:
    """The sum of -1 / fingerprint over the tuples of an output, which the statement receives once each. It is added to
    the terminals as `boundary_sum` is, and fails likewise."""
    stream = output_stream(output)
    start = np.array(field.e_add(z, (bus_number, 0, 0)), dtype=np.uint64)
    powers = [np.array(power, dtype=np.uint64) for power in field.e_powers(beta, OUTPUT_WIDTH + 1)[1:]]
    parts = []
    for begin in range(0, len(stream), _OUTPUT_BLOCK):
        words = stream[begin : begin + _OUTPUT_BLOCK]
        places = np.arange(begin, begin + len(words), dtype=np.uint64)
        fingerprints = start
        for values, power in zip((places, words), powers, strict=True):
            fingerprints = field.add(fingerprints, field.mul(power, values[:, None]))
        if not fingerprints.any(axis=1).all():
            raise InvalidProof("a tuple of the output has the fingerprint zero")
        parts += [field.total(field.ext_inverse(fingerprints)).tolist()]
    return field.e_sub(field.ZERO, field.e_sum(parts))


_OUTPUT_BLOCK = 1 << 13
"""Number of words whose fingerprints are inverted at once, so that they stay in a cache."""


def balanced(terminals: Sequence[Ext | None], boundary: Ext = field.ZERO) -> bool:
    """Whether the terminals of one scope (None for a table without) and the boundary's sum add up to zero."""
    return field.e_add(field.e_sum([t for t in terminals if t is not None]), boundary) == field.ZERO


def check_multiplicities(
    airs: Sequence[UsesBuses],
    partitions: Sequence[Sequence[int | None]],
    stated: Iterable[StatedTuples] = (),
    output_bus: int | None = None,
) -> None:
    """Check that no bus can be balanced by multiplicities that wrap around the field.

    `partitions` holds log2 of the rows of each of `airs`, None for an absent table, for every partition that shares the
    buses; `stated` are the statement's tuples, and `output_bus` is the number of the bus on which it receives an
    output. On each bus one side, senders or receivers, must be bounded in all tables, and its multiplicities must sum
    up to less than p. Then a tuple that the other side never has cannot cancel modulo p, so that it cannot occur on the
    bounded side at all. Prover and verifier both check this.

    Raises InputError that names the bus that fails, or whose width or scope differs between tables.
    """
    declared: dict[int, Bus] = {}
    for use in (use for air in airs for use in air.uses):
        if declared.setdefault(use.number, use.bus) != use.bus:
            raise InputError(f"a bus number is declared in two ways: {declared[use.number]} and {use.bus}")
    totals: dict[int, list[int | None]] = {number: [0, 0] for number in declared}  # receivers, senders; None: unbounded
    for index, air in enumerate(airs):
        rows = sum(1 << height for heights in partitions if (height := heights[index]) is not None)
        for use in air.uses if rows else ():
            sides = totals[use.number]
            so_far, most = sides[use.sends], use.at_most
            sides[use.sends] = None if so_far is None or most is None else so_far + rows * most
    output = [] if output_bus is None else [(output_bus, OUTPUT_WIDTH, -1, MAX_OUTPUT_TUPLES)]
    for number, width, times, count in chain(stated, output):
        bus = declared.get(number)
        if bus is None or bus.scope != "global" or bus.width != width:
            raise InputError(f"the public boundary uses bus number {number}, which no table has as it does")
        sides = totals[number]
        so_far = sides[times > 0]
        sides[times > 0] = None if so_far is None else so_far + count * abs(times)
    for number, (received, sent) in totals.items():
        if not any(total is not None and total < P for total in (received, sent)):
            raise InputError(
                f"bus {declared[number].name}: multiplicities could wrap around the field: neither its senders nor its "
                "receivers are bounded to less than p in total (see at_most)"
            )
