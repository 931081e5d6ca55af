"""The shape of a proof: what follows from the key, the traces that are present and their heights. Lengths are checked
against it, so that no step of the verifier meets an array of another length."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

from distprove.errors import InvalidProof
from distprove.stark.openvm.key import OpenVmAir, OpenVmKey
from distprove.stark.openvm.layout import Layout
from distprove.stark.openvm.proof import OpenVmProof, TraceShape
from kernels.host.units import count_of
from kernels.maths.babybear import DEGREE, Elements
from kernels.maths.poseidon2_babybear import DIGEST


@dataclass(frozen=True)
class Trace:
    """A trace that is present."""

    number: int
    """Number of its AIR in the key."""
    air: OpenVmAir
    log_height: int
    log_skip: int
    cached_roots: Elements
    """(parts, 8)"""

    @property
    def n(self) -> int:
        """log2 of the height, less log_skip. Negative for a trace that is shorter than the univariate domain."""
        return self.log_height - self.log_skip

    @property
    def n_lift(self) -> int:
        """Multilinear variables of its columns. A shorter trace is lifted: repeated up to 2^log_skip rows."""
        return max(0, self.n)

    @property
    def log_rows(self) -> int:
        """log2 of the rows after the lift."""
        return max(self.log_height, self.log_skip)

    @property
    def own_roots(self) -> list[Elements]:
        """Commitments to its preprocessed part, if there is one, and to its cached parts."""
        fixed = [] if self.air.preprocessed is None else [self.air.preprocessed.root]
        return [*fixed, *self.cached_roots]


@dataclass(frozen=True)
class Shape:
    """The shape of a proof."""

    key: OpenVmKey
    traces: tuple[Trace, ...]
    """In descending order of heights, and in the key's order for equal ones."""

    @classmethod
    def of(cls, key: OpenVmKey, traces: Sequence[TraceShape | None]) -> Shape:
        """The shape of a proof with these traces, one for each AIR of the key.

        Raises InvalidProof if such a proof cannot be: a trace that is missing or too tall, commitments of another
        number, heights that the key does not allow, or more stacked columns than the parameters allow.
        """
        params = key.params
        if len(traces) != len(key.airs):
            raise InvalidProof(
                f"the proof is of a key with {count_of(len(traces), 'AIR')}, and this key has {len(key.airs)}"
            )
        present = list[Trace]()
        for number, (air, trace) in enumerate(zip(key.airs, traces, strict=True)):
            if trace is None:
                if air.is_required:
                    raise InvalidProof(f"no trace of AIR {number}, {air.name}, which must be present")
                continue
            if trace.cached_roots.shape != (len(air.widths.cached), DIGEST):
                raise InvalidProof(
                    f"{count_of(len(trace.cached_roots), 'commitment')} to cached traces of AIR {number}, which has "
                    f"{len(air.widths.cached)} under this key"
                )
            if trace.log_height > params.log_height:
                raise InvalidProof(f"a trace of 2^{trace.log_height} rows, above 2^{params.log_height}")
            if air.preprocessed is not None and trace.log_height != air.preprocessed.n + params.log_skip:
                raise InvalidProof(f"the trace of AIR {number} is not as tall as its preprocessed part")
            present.append(Trace(number, air, trace.log_height, params.log_skip, trace.cached_roots))
        if not present:
            raise InvalidProof("no trace is present")
        shape = cls(key, tuple(sorted(present, key=lambda trace: -trace.log_height)))
        for constraint in key.height_constraints:
            if sum(constraint.coefficients[t.number] << t.log_rows for t in shape.traces) >= constraint.threshold:
                raise InvalidProof("the traces are taller together than the key allows")
        if (width := sum(layout.width for layout in shape.layouts)) > params.w_stack:
            raise InvalidProof(f"{count_of(width, 'stacked column')}, above {params.w_stack}")
        return shape

    @cached_property
    def interactions(self) -> int:
        """Number of fractions that LogUp adds: interactions of all rows after the lift."""
        return sum(len(trace.air.graph.interactions) << trace.log_rows for trace in self.traces)

    @property
    def n_logup(self) -> int:
        """Multilinear variables of the stack of all fractions; 0 without any. The stack has more places than them."""
        return self.interactions.bit_length() - self.key.params.log_skip if self.interactions else 0

    @property
    def bus_layers(self) -> int:
        """Layers of the tree of fractions below its root; 0 without interactions."""
        return self.interactions.bit_length()

    @property
    def n_max(self) -> int:
        """Multilinear variables of the tallest trace: rounds of the batched constraints."""
        return self.traces[0].n_lift

    @property
    def n_global(self) -> int:
        """Multilinear variables of the point that constraints and fractions share."""
        return max(self.n_max, self.n_logup)

    @property
    def constraint_coefficients(self) -> int:
        """Coefficients of the univariate round of the batched constraints."""
        return self.key.params.round_degree * ((1 << self.key.params.log_skip) - 1) + 1

    @property
    def stacking_coefficients(self) -> int:
        """Coefficients of the univariate round of the stacked reduction."""
        return 2 * ((1 << self.key.params.log_skip) - 1) + 1

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of all commitments: of all common parts, then of each trace's preprocessed and cached parts."""
        log_skip, log_stacked = self.key.params.log_skip, self.key.params.log_height
        common = Layout.of(log_skip, log_stacked, [(t.air.widths.common, t.log_height) for t in self.traces])
        return (
            common,
            *(
                Layout.of(log_skip, log_stacked, [(width, trace.log_height)])
                for trace in self.traces
                for width in trace.air.part_widths[1:]
            ),
        )

    @cached_property
    def layout_traces(self) -> tuple[tuple[Trace, ...], ...]:
        """The traces whose columns each layout places, in its order."""
        own = tuple((trace,) for trace in self.traces for _ in trace.air.part_widths[1:])
        return (self.traces, *own)

    def roots(self, main_root: Elements) -> list[Elements]:
        """The roots of all commitments, in the order of `layouts`."""
        return [main_root, *(root for trace in self.traces for root in trace.own_roots)]


def check_lengths(shape: Shape, proof: OpenVmProof) -> None:
    """Raise InvalidProof unless every array of a proof has the length that its shape asks for."""
    _check_public_values(shape, proof)
    _check_sumchecks(shape, proof)
    _check_openings(shape, proof)
    _check_whir(shape, proof)


def _need(array: Elements, expected: tuple[int, ...], what: str) -> None:
    if array.shape != expected:
        raise InvalidProof(f"{what} of the shape {array.shape}, not {expected}")


def _need_count(items: Sized, expected: int, what: str) -> None:
    if len(items) != expected:
        raise InvalidProof(f"{len(items)} {what}, not {expected}")


def _check_public_values(shape: Shape, proof: OpenVmProof) -> None:
    _need_count(proof.public_values, len(shape.key.airs), "lists of public values")
    for air, trace, values in zip(shape.key.airs, proof.traces, proof.public_values, strict=True):
        _need(values, (0 if trace is None else air.public_values,), "public values")


def _check_sumchecks(shape: Shape, proof: OpenVmProof) -> None:
    params, traces, layers = shape.key.params, len(shape.traces), shape.bus_layers
    buses, constraints, stacking = proof.buses, proof.constraints, proof.stacking
    _need(buses.root_denominator, (DEGREE,), "the denominator of the buses")
    _need(buses.layers, (layers, 4, DEGREE), "layers of the buses")
    _need_count(buses.rounds, max(0, layers - 1), "layers with rounds")
    for j, rounds in enumerate(buses.rounds, 1):
        _need(rounds, (j, 3, DEGREE), "rounds of a layer")
    _need(constraints.numerators, (traces, DEGREE), "numerators")
    _need(constraints.denominators, (traces, DEGREE), "denominators")
    _need(constraints.univariate, (shape.constraint_coefficients, DEGREE), "coefficients of the constraints")
    if shape.n_max:
        _need(constraints.rounds, (shape.n_max, params.round_degree, DEGREE), "rounds of the constraints")
    else:
        _need_count(constraints.rounds, 0, "rounds of the constraints")
    _need(stacking.univariate, (shape.stacking_coefficients, DEGREE), "coefficients of the stacked reduction")
    _need(stacking.rounds, (params.n_stack, 2, DEGREE), "rounds of the stacked reduction")


def _check_openings(shape: Shape, proof: OpenVmProof) -> None:
    openings = proof.constraints.openings
    _need_count(openings, len(shape.traces), "traces with openings")
    for trace, parts in zip(shape.traces, openings, strict=True):
        widths, each = trace.air.part_widths, 2 if trace.air.needs_next else 1
        _need_count(parts, len(widths), "parts with openings")
        for values, width in zip(parts, widths, strict=True):
            _need(values, (each * width, DEGREE), "openings of a part")
    _need_count(proof.stacking.openings, len(shape.layouts), "commitments with openings")
    for values, layout in zip(proof.stacking.openings, shape.layouts, strict=True):
        _need(values, (layout.width, DEGREE), "openings of a stack")


def _check_whir(shape: Shape, proof: OpenVmProof) -> None:
    params, whir, commitments = shape.key.params, proof.whir, len(shape.layouts)
    rounds, folds, size = params.whir.rounds, params.whir.folds, 1 << params.whir.log_fold
    _need(whir.rounds, (folds, 2, DEGREE), "rounds of WHIR's sumchecks")
    _need(whir.roots, (rounds - 1, DIGEST), "roots of codewords")
    _need(whir.samples, (rounds - 1, DEGREE), "out-of-domain values")
    _need(whir.folding_pow_witnesses, (folds,), "witnesses of folds")
    _need(whir.query_pow_witnesses, (rounds,), "witnesses of queries")
    _need(whir.final, (1 << params.log_final, DEGREE), "coefficients of the final polynomial")
    for items, count in ((whir.rows, commitments), (whir.row_paths, commitments)):
        _need_count(items, count, "commitments that are opened")
    for items, count in ((whir.words, rounds - 1), (whir.word_paths, rounds - 1)):
        _need_count(items, count, "codewords that are opened")
    for rows, paths, layout in zip(whir.rows, whir.row_paths, shape.layouts, strict=True):
        _need(rows, (params.whir.queries[0], size, layout.width), "rows of a stack")
        _need(paths, (params.whir.queries[0], params.log_leaves(0), DIGEST), "paths of a stack")
    for i, (word, paths) in enumerate(zip(whir.words, whir.word_paths, strict=True), 1):
        _need(word, (params.whir.queries[i], size, DEGREE), "elements of a codeword")
        _need(paths, (params.whir.queries[i], params.log_leaves(i), DIGEST), "paths of a codeword")
