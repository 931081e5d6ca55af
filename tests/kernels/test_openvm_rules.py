"""The kernels of OpenVM's constraints on the GPU, run on the host, against those of the CPU in NumPy.

The golden proofs of tests/stark/openvm judge both, with small traces. Here are more rows than a block has, long code
that is cut into pieces, and values that find no place in shared memory.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pytest

from distprove.stark.openvm.transcript import Transcript
from kernels.cpu.openvm.kernels import CpuOpenVm
from kernels.cuda.backend import CudaBackend
from kernels.cuda.openvm import graph_code
from kernels.cuda.openvm.graph_code import AHEAD, RELOADED, GraphCode
from kernels.cuda.openvm.instructions import ACCUMULATES, EMIT, FAR, LOADS, MUL, NONE, SUB
from kernels.errors import SizeError
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_rules import BoundForms, GraphProgram, NodeKind, RuleTable
from kernels.maths.babybear import Elements, P
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.numpy_babybear import NumpyBabyBear

CPU = CpuOpenVm(NumpyBabyBear())
WIDTHS = {-1: 2, 0: 3, 1: 5}
PUBLIC = (5, P - 1)

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")


@pytest.fixture(scope="module")
def gpu() -> Iterator[OpenVmKernels]:
    with CudaBackend(EmulatedDevice()) as backend:
        yield backend.openvm


@pytest.fixture(scope="module")
def small_pieces() -> Iterator[OpenVmKernels]:
    """With pieces and near slots as few as can be, and items as large."""
    with CudaBackend(EmulatedDevice()) as backend:
        rules = backend.openvm.rules
        rules.piece, rules.round_piece, rules.near, rules.coset_near, rules.warp_items = 16, 16, 2, 2, 0
        yield backend.openvm


@pytest.fixture
def forgetful() -> Iterator[OpenVmKernels]:
    """Whose cells are loaded anew if few steps did not read them."""
    with mock.patch.object(graph_code, "RELOADED", 3), CudaBackend(EmulatedDevice()) as backend:
        yield backend.openvm


def drawn(rng: np.random.Generator, *shape: int) -> Elements:
    """Random elements with the ends of the range among them."""
    found = rng.integers(0, P, shape).astype(np.uint32)
    found.reshape(-1)[::5], found.reshape(-1)[3::7] = P - 1, 0
    return found


def graph(rng: np.random.Generator, size: int) -> Elements:
    """Every kind of node, and random operations."""
    nodes = [(NodeKind.MAIN, column, part, ahead) for part in (0, 1) for column in range(3) for ahead in (0, 1)]
    nodes += [(NodeKind.PREPROCESSED, 1, 0, 0), (NodeKind.PREPROCESSED, 1, 0, 1), (NodeKind.PUBLIC, 1, 0, 0)]
    nodes += [(kind, 0, 0, 0) for kind in (NodeKind.IS_FIRST, NodeKind.IS_LAST, NodeKind.IS_TRANSITION)]
    nodes += [(NodeKind.CONSTANT, value, 0, 0) for value in (0, 1, P - 1, 77)]
    for _ in range(size):
        kind = (NodeKind.ADD, NodeKind.SUB, NodeKind.MUL, NodeKind.NEG)[rng.integers(4)]
        a, b = rng.integers(max(0, len(nodes) - 40), len(nodes), 2).tolist()
        nodes.append((kind, a, 0 if kind == NodeKind.NEG else b, 0))
    return np.array(nodes, dtype=np.uint32)


def bound(rng: np.random.Generator, nodes: Elements, forms: int, terms: int) -> BoundForms:
    """Forms of random nodes. The first has the constants too, and the second has no node."""
    chosen = [np.unique(rng.integers(0, len(nodes), terms)) for _ in range(forms)]
    if forms:
        chosen[0] = np.unique(np.concatenate((chosen[0], np.arange(14, 22))))
    if forms > 1:
        chosen[1] = np.zeros(0, dtype=np.int64)
    coefficients, constants = drawn(rng, sum(map(len, chosen)), 4), drawn(rng, forms, 4)
    return BoundForms(GraphProgram(nodes, tuple(chosen)), coefficients, constants)


def table(rng: np.random.Generator, log_height: int) -> dict[int, Elements]:
    return {part: drawn(rng, width, 1 << log_height) for part, width in WIDTHS.items()}


def on(kernels: OpenVmKernels, parts: dict[int, Elements]) -> RuleTable:
    loaded = {part: kernels.load(columns) for part, columns in parts.items()}
    return RuleTable(loaded, parts[1].shape[1], PUBLIC)


CASES = [
    (0, (8, 3, 0)),
    (1, (4, 1, 0, 0)),
    (2, (9, 7, 2, 1, 0)),
    (4, (10, 9, 4, 3, 0)),
    (5, (9, 5, 2)),
]
"""log_skip, and log2 of the tables' heights."""


@pytest.mark.parametrize(("log_skip", "heights"), CASES)
def test_fractions(log_skip: int, heights: tuple[int, ...], gpu: OpenVmKernels) -> None:
    rng = np.random.default_rng(log_skip)
    nodes = graph(rng, 30)
    parts, forms = [table(rng, n) for n in heights], [bound(rng, nodes, 2 * (i % 3), 6) for i in range(len(heights))]
    starts, end = [], 0
    for n, each in zip(heights, forms, strict=True):
        starts.append(end)
        end += len(each.constants) // 2 << max(n, log_skip)
    found = [
        [k.download(each) for each in k.rules.fractions([on(k, each) for each in parts], forms, starts, end, log_skip)]
        for k in (CPU, gpu)
    ]
    assert [each.shape for each in found[0]] == [(end,), (end, 4)]
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    assert all(each.any() for each in found[0])


@pytest.mark.parametrize(("log_skip", "heights"), CASES)
@pytest.mark.parametrize("which", ["gpu", "small_pieces", "forgetful"])
def test_a_sumcheck(log_skip: int, heights: tuple[int, ...], which: str, request: pytest.FixtureRequest) -> None:
    gpu: OpenVmKernels = request.getfixturevalue(which)
    rng = np.random.default_rng(100 + log_skip)
    programs = [graph(rng, 60 + 20 * i) for i in range(len(heights))]
    parts = [table(rng, n) for n in heights]
    sums = [bound(rng, nodes, 3, 20) for nodes in programs]
    one = [bound(rng, nodes, 1, 12 * (i != 1)) for i, nodes in enumerate(programs)]
    counts = np.array([(6, 5, 1), (0, 0, 0), (2, 0, 3), (0, 1, 1), (4, 2, 4)][: len(heights)])
    further = [i % 2 == 0 for i in range(len(heights))]
    cube = drawn(rng, max(0, heights[0] - log_skip), 4)
    weights = drawn(rng, 1 << log_skip, 4)
    both = [k.rules.rounds([on(k, each) for each in parts], log_skip, cube) for k in (CPU, gpu)]

    ours, theirs = (each.coset_sums(sums, counts) for each in both)
    assert ours.shape == theirs.shape == (len(heights), 3, 6, 1 << log_skip, 4)
    for which_sum, count in np.ndenumerate(counts):
        assert np.array_equal(ours[which_sum][:count], theirs[which_sum][:count])
    for each in both:
        each.bind_univariate(weights, one)
    sponges, claim = (Transcript(), Transcript()), drawn(rng, 4)
    ours_sent, theirs_sent = (each.prove(own, claim, 4) for each, own in zip(both, sponges, strict=True))
    assert ours_sent[0].shape == (len(cube), 5, 4)
    assert ours_sent[1].shape == (len(cube), 4)
    for one_sent, other_sent in zip(ours_sent, theirs_sent, strict=True):
        assert np.array_equal(one_sent, other_sent)
    assert sponges[0].state == sponges[1].state
    ours_opened, theirs_opened = (each.openings(further) for each in both)
    for own, other, given, reads_next in zip(ours_opened, theirs_opened, parts, further, strict=True):
        assert own.keys() == other.keys() == given.keys()
        for part in own:
            assert own[part].shape == (WIDTHS[part], 1 + reads_next, 4)
            assert np.array_equal(own[part], other[part])


def test_code_is_cut_and_values_wait_far() -> None:
    rng = np.random.default_rng(7)
    nodes = graph(rng, 100)
    program = bound(rng, nodes, 3, 20).program
    whole, cut = GraphCode(program, 1 << 20, 64, False), GraphCode(program, 16, 2, False)
    assert len(whole.pieces) == 1
    assert whole.far == 0
    assert len(cut.pieces) > 10
    assert cut.near == 2
    assert cut.far > 0
    assert any(word >> 44 & FAR for word in cut.code.tolist())
    assert all(cut.code[piece.first + piece.instructions - 1] & np.uint64(15) == EMIT for piece in cut.pieces)


@pytest.mark.parametrize(("between", "loads"), [(RELOADED // 2 - 3, 2), (RELOADED // 2 - 2, 3)])
def test_a_cell_is_loaded_anew_after_many_steps(between: int, loads: int) -> None:
    """In place of a far slot: a square of another cell, then its powers, take two steps each."""
    nodes = [(NodeKind.MAIN, column, 1, 0) for column in range(2)]
    nodes += [(NodeKind.MUL, 0, 0, 0), (NodeKind.MUL, 1, 1, 0)]
    nodes += [(NodeKind.MUL, len(nodes) + i - 1, 1, 0) for i in range(between)]
    nodes.append((NodeKind.MUL, 0, 2, 0))
    terms = np.arange(2, len(nodes), dtype=np.int64)
    code = GraphCode(GraphProgram(np.array(nodes, dtype=np.uint32), (terms,)), 1 << 20, 64, False)
    assert len(code.loads) - AHEAD == loads
    assert code.far == 0


def test_an_instruction_loads_computes_and_adds() -> None:
    """Products of two cells take an instruction for each cell, and SUB takes its load on either side."""
    cells = [(NodeKind.MAIN, column, 1, 0) for column in range(4)]
    nodes = np.array([*cells, (NodeKind.MUL, 0, 1, 0), (NodeKind.SUB, 4, 2, 0), (NodeKind.SUB, 3, 4, 0)], np.uint32)
    product, either = (np.array(terms, dtype=np.int64) for terms in ([4], [5, 6]))
    first, second = (GraphCode(GraphProgram(nodes, (form,)), 1 << 20, 64, False) for form in (product, either))
    kinds = [
        [(word & 3, bool(word & LOADS), bool(word & ACCUMULATES)) for word in c.code.tolist()] for c in (first, second)
    ]
    end = [(NONE, False, False)] * 2
    assert kinds[0] == [(NONE, True, False), (MUL, True, True), *end]
    assert kinds[1] == [(NONE, True, False), (MUL, True, False), (SUB, True, True), (SUB, True, True), *end]
    assert [word >> 24 & 1 for word in second.code.tolist()[2:4]] == [0, 1]  # y - x


@pytest.mark.parametrize("which", ["cpu", "gpu"])
def test_what_is_made_of_a_program_goes_with_it(which: str, request: pytest.FixtureRequest) -> None:
    """A service takes up many keys: nothing that is kept for a program may refer to it."""
    kernels = CPU if which == "cpu" else request.getfixturevalue(which)
    rng = np.random.default_rng(5)
    forms = bound(rng, graph(rng, 20), 4, 6)
    tables = [on(kernels, table(rng, 3))]
    kernels.rules.fractions(tables, [forms], [0], 2 * tables[0].rows(1), 1)
    rounds = kernels.rules.rounds(tables, 1, drawn(rng, 2, 4))
    sums = bound(rng, graph(rng, 20), 3, 6)
    rounds.coset_sums([sums], np.array([[2, 2, 2]]))
    programs = weakref.ref(forms.program), weakref.ref(sums.program)
    del forms, sums, rounds, tables
    gc.collect()
    assert [program() for program in programs] == [None, None]


def test_runs_have_a_bound_on_the_gpu(gpu: OpenVmKernels) -> None:
    with pytest.raises(SizeError, match="at most 2\\^5"):
        gpu.rules.rounds([], 6, np.zeros((0, 4), dtype=np.uint32))
