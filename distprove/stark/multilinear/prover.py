"""The prover of one partition. `prove` reads from top to bottom, and `verifier.verify` has the same steps in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.formats.owncode import own_faults
from distprove.stark import logup
from distprove.stark.arithmetic import NUMBERS
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import pack
from distprove.stark.field import Ext, Words, ext_powers
from distprove.stark.heights import LogHeights
from distprove.stark.multilinear.bus_prover import build_layers, prove_layers
from distprove.stark.multilinear.buses import block_weights, shared_point
from distprove.stark.multilinear.challenges import ProofTranscript, anchor_challenges, global_challenges
from distprove.stark.multilinear.commitment import Stacked, anchor_of, commit_stack
from distprove.stark.multilinear.memory import choose
from distprove.stark.multilinear.opening_prover import prove_opening
from distprove.stark.multilinear.proof import MultilinearProof
from distprove.stark.multilinear.proving_key import MultilinearProvingKey
from distprove.stark.multilinear.reduction_prover import main_stack, preprocessed_stack, prove_reduction
from distprove.stark.multilinear.row_prover import Cells, bind_rules, multilinear_rounds, univariate_round
from distprove.stark.multilinear.rules import leaf_scalars, scalars_of_all
from distprove.stark.multilinear.shape import Shape, heights_fit
from distprove.stark.plan import MemoryPlan, usable
from distprove.stark.program import SHOWN_BY, Program, Trace, whole_trace
from distprove.stark.trace_shape import check_trace_shape
from distprove.steps import Steps
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.multilinear import LeafPlace, LeafTask


@dataclass
class Committed:
    """A committed partition, after its first round. It holds secret columns and never leaves the prover. It is proven
    once: the proof takes it apart."""

    commitment: Commitment
    shape: Shape
    plan: MemoryPlan
    columns: list[Array] = field(repr=False)
    """The present tables' main columns (width, rows); in a proof, those among the cells."""
    stacked: Stacked
    anchor: Ext
    peak: int | None = None
    """Peak memory of the commitment in bytes; None where the backend does not count it."""
    on_host: bool = False
    """Whether columns and nodes are in host memory, which is not the backend's."""
    trace_seconds: float = 0.0
    """Time that its trace took. A device may have been at it for longer."""

    @property
    def nbytes(self) -> int:
        """Memory of the device that it holds in bytes."""
        return 0 if self.on_host else sum(int(m.nbytes) for m in self.columns) + self.stacked.nbytes

    def drop_codewords(self) -> bool:
        """Keep columns and nodes alone; whether there was more."""
        more = self.stacked.coefficients is not None or self.stacked.codewords is not None
        if more:
            self.stacked.drop_codewords()
            self.stacked.drop_coefficients()
        return more

    def drop_columns(self) -> bool:
        """Keep nodes alone; whether there was more."""
        more = bool(self.columns)
        self.drop_codewords()
        self.columns = []
        return more

    def drop_by_plan(self) -> None:
        """Keep what its plan keeps between commitment and proof."""
        if self.plan.streamed:
            self.drop_codewords()
        elif self.plan.lean:
            self.stacked.drop_coefficients()

    def to_host(self, backend: Backend) -> None:
        """Keep columns and nodes, or nodes alone, in host memory. It holds no more by now."""
        self._move(backend.to_host)
        self.on_host = True

    def to_device(self, backend: Backend) -> None:
        if self.on_host:
            self._move(backend.to_device)
            self.on_host = False

    def _move(self, move: Callable[[Array], Array]) -> None:
        assert self.stacked.codewords is None, "codewords are not moved"
        self.columns = [move(columns) for columns in self.columns]
        self.stacked.tree = self.stacked.tree.over((), move(self.stacked.tree.nodes))

    def __repr__(self) -> str:
        return f"Committed({self.commitment.name})"


def commit(
    pk: MultilinearProvingKey,
    name: str,
    inputs: Mapping[str, NDArray[Any]],
    steps: Steps,
    *,
    held: int = 0,
    expected: Sequence[int | None] | None = None,
    program: Program | None = None,
) -> Committed:
    """Make the trace of a partition, stack and encode it, commit to it and anchor it.

    Drops at once what its plan makes again. `held` is the number of bytes of the device that other partitions keep.
    `expected` is log2 of each table's rows, if known: what cannot fit is refused before its trace is made. `program` is
    the job's, unless its arguments are those that the key was made with. Raises UsageError for a trace of the wrong
    shape, OutOfMemory for one that the device cannot hold.
    """
    backend, program = pk.backend, program or pk.program
    budget = usable(backend.info().memory_budget) - held
    if expected is not None and heights_fit(pk.key, tuple(expected)):
        choose(Shape(pk.key, tuple(expected)), budget)
    began = time.perf_counter()
    trace, log_heights = make_trace(pk, inputs, steps, program)
    trace_seconds = time.perf_counter() - began
    shape = Shape(pk.key, log_heights)
    plan = choose(shape, budget)
    with steps("main_stack"):
        columns = [m for m in trace.main if m is not None]
        stacked = commit_stack(backend, shape.main, dict(enumerate(columns)), pk.key.params, main=True)
        root = stacked.tree.root
        if plan.streamed:
            stacked.drop_codewords()
    with steps("anchor"):
        eta, delta = anchor_challenges(NUMBERS, shape, pk.key.digest, name.encode(), _words(trace.public), root)
        anchor = anchor_of(backend, stacked, eta, delta)
    value = pack(np.array(anchor, dtype=np.uint64))
    commitment = Commitment(name, log_heights, trace.public, root, value)
    committed = Committed(commitment, shape, plan, columns, stacked, anchor, trace_seconds=trace_seconds)
    committed.drop_by_plan()
    return committed


def make_trace(
    pk: MultilinearProvingKey, inputs: Mapping[str, NDArray[Any]], steps: Steps, program: Program
) -> tuple[Trace, LogHeights]:
    """Make the trace of a partition, and log2 of its tables' rows. Raises UsageError for one of the wrong shape."""
    with steps("trace"), own_faults(program.__module__, secret=True, told_by=SHOWN_BY):
        given = {key: pk.backend.to_device(value) for key, value in inputs.items()}
        trace = whole_trace(program, given, pk.fixed_columns, pk.backend)
    return trace, check_trace_shape(pk.key, trace, heights_fit)


def restore_columns(
    pk: MultilinearProvingKey, committed: Committed, inputs: Mapping[str, NDArray[Any]], steps: Steps, program: Program
) -> bool:
    """Make the columns of a partition again, of which the nodes of its tree were kept; whether they are those that it
    has committed to, by its anchor. Their coefficients stay unless its plan is lean. Raises UsageError, OutOfMemory."""
    committed.to_device(pk.backend)
    trace, log_heights = make_trace(pk, inputs, steps, program)
    commitment, shape, stacked = committed.commitment, committed.shape, committed.stacked
    if (log_heights, tuple(trace.public)) != (shape.log_heights, tuple(commitment.public)):
        return False
    columns = [m for m in trace.main if m is not None]
    with steps("anchor"):
        told = commitment.name.encode(), _words(commitment.public), commitment.main_root
        stacked.interpolate(pk.backend, dict(enumerate(columns)))
        found = anchor_of(pk.backend, stacked, *anchor_challenges(NUMBERS, shape, pk.key.digest, *told))
        if committed.plan.lean:
            stacked.drop_coefficients()
    if found != committed.anchor:
        return False
    committed.columns = columns
    return True


def prove(pk: MultilinearProvingKey, committed: Committed, challenge: bytes, steps: Steps) -> MultilinearProof:
    """Prove a committed partition under the job's challenge.

    A trace that violates a constraint gives a proof that does not verify, so callers must verify the proof.
    """
    backend, shape = pk.backend, committed.shape
    name, public, root = committed.commitment.name, committed.commitment.public, committed.commitment.main_root
    with steps("cells"):
        committed.to_device(backend)
        committed.drop_by_plan()
        programs = [pk.programs[number] for number in shape.numbers]
        fixed = [pk.fixed_columns(number) for number in shape.numbers]
        cells = Cells.of(backend, programs, fixed, committed.columns)
        committed.columns = cells.main()

    # 1. Bind the statement and the anchor, which fixes one trace, and draw the challenges of the buses.
    words = _words(public)
    transcript = ProofTranscript(NUMBERS, shape, pk.key.digest, challenge, name.encode(), words, root, committed.anchor)
    buses = logup.BusChallenges(transcript.bus_challenges(), global_challenges(challenge, shape.key.params.tree_hash))

    # 2. The buses: from the sums of their fractions to one claim about all leaves.
    def leaves() -> list[Array]:
        return leaves_of(backend, shape, cells, public, buses)

    with steps("leaves"):
        layers = build_layers(backend, shape, leaves, keep_leaves=not committed.plan.lean)
    with steps("gkr"):
        totals, proved_layers, claim = prove_layers(backend, shape, layers, leaves, transcript)
        del layers
    xi = shared_point(shape, claim, transcript)

    # 3. The univariate round over constraints and leaves, then a multilinear one for each row variable.
    weights = block_weights(NUMBERS, shape, claim)
    lambda_, kappa = transcript.constraint_challenges()
    given = NUMBERS.elements(NUMBERS.embed(words))
    with steps("univariate"):
        # The round takes the cells apart, and the columns with them.
        committed.stacked.interpolate(backend, dict(enumerate(committed.columns)))
        committed.columns = []
        rules = bind_rules(backend, cells, scalars_of_all(NUMBERS, shape, given, buses, weights, lambda_, kappa))
        vectors, made = univariate_round(backend, shape, cells, rules, xi, transcript)
    with steps("rounds"):
        rows = multilinear_rounds(backend, cells, vectors, made, transcript)
        del vectors, made

    # 4. At the point, the rules of all tables follow from the opened values of their columns.
    sigma = transcript.openings(rows.openings)

    # 5. All opened values and the anchor become one value of each stacked column.
    with steps("reduction"):
        batch = ext_powers(sigma, shape.openings + 1)
        eta, delta = anchor_challenges(NUMBERS, shape, pk.key.digest, name.encode(), words, root)
        stacks = [main_stack(backend, shape, committed.stacked, rows.point, batch, eta, delta)]
        if pk.fixed is not None:
            stacks.append(preprocessed_stack(backend, shape, pk.fixed, rows.point, batch))
        reduction, rho, values = prove_reduction(backend, shape, stacks, transcript)
        del stacks  # and their memory
        mu = transcript.stacked(values)

    # 6. WHIR: the stacked columns have these values.
    with steps("opening"):
        opening = prove_opening(backend, shape, committed.stacked, pk.fixed, rho, mu, transcript)
    return MultilinearProof(
        challenge,
        shape.log_heights,
        root,
        committed.anchor,
        np.array(totals, dtype=np.uint64).reshape(-1, 3),
        tuple(proved_layers),
        rows.quotient,
        rows.leaves,
        rows.rounds,
        rows.openings,
        reduction,
        np.array(values, dtype=np.uint64),
        opening.folds,
        opening.roots,
        opening.samples,
        opening.nonces,
        opening.final,
        opening.trees,
    )


def leaves_of(
    backend: Backend, shape: Shape, cells: Cells, public: Sequence[int], buses: logup.BusChallenges[Ext]
) -> list[Array]:
    """The fractions of each used scope's interactions, (3, 2, leaves): numerators and denominators."""
    kernels, fractions = backend.multilinear, []
    places: dict[tuple[int, int], LeafPlace] = {}
    for blocks in shape.leaves.scopes.values():
        fractions.append(kernels.fractions(sum(1 << block.log_height for block in blocks)))
        places |= {(block.table, block.use): LeafPlace(fractions[-1], block.offset) for block in blocks}
    given = [(i, table.programs.leaves) for i, table in enumerate(cells.tables)]
    found = [(i, program) for i, program in given if program is not None]
    if found:
        bound = kernels.bind([(program, leaf_scalars(shape.tables[i], public, buses)) for i, program in found])
        uses = [range(len(shape.tables[i].uses)) for i, _ in found]
        kernels.leaves(
            [
                LeafTask(own, cells.tables[i].base, [places.get((i, use)) for use in numbers])
                for (i, _), own, numbers in zip(found, bound, uses, strict=True)
            ]
        )
    return fractions


def _words(public: Sequence[int]) -> Words:
    return np.array(public, dtype=np.uint64)
