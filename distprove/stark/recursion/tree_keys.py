"""Chooses the parameters of a job's tree, and makes the verifying keys of its nodes, each once in a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial

from distprove.errors import UsageError
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_root
from distprove.stark.multilinear.params import LOG_FINAL_IN_CIRCUITS, Parameters
from distprove.stark.multilinear.proving_key import make_verifying_key
from distprove.stark.multilinear.security import choose_parameters
from distprove.stark.recursion import work
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.contract_program import ContractProgram
from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.kept import kept_root, kept_rows
from distprove.stark.recursion.node import MOST_CHILDREN
from distprove.stark.recursion.plan import INNER, ROOT, WRAP, Form, Kind, leaves_of, plan_above
from distprove.stark.recursion.program import CircuitProgram, NodeProgram
from distprove.stark.recursion.security import FEW_BITS, Layer, tree_layers
from distprove.stark.recursion.tree import TreeKeys, TreeParameters, node_child, root_frame, segments_of
from kernels.cpu.backend import CpuBackend
from kernels.interface.backend import Backend
from kernels.interface.tree_hash import TreeHash

MOST_KEYS = 64
"""Verifying keys of nodes that a process keeps, and choices of parameters."""

NODES, ROOTS = (4, TreeHash.POSEIDON2), (64, TreeHash.POSEIDON2_BINARY)
"""Blow-up and hash of nodes, which are verified in circuits, and of the root, whose proof is to be small."""
WRAPS, WRAP_BITS = (64, TreeHash.POSEIDON2_BN254), 126
"""Blow-up and hash of a second root, which a Groth16 circuit verifies; and the most bits of a proof under this hash."""
LOW_BLOWUP = 2
"""Of nodes of fewer than FEW_BITS."""

_LOCK = threading.RLock()
_CHOSEN: OrderedDict[tuple[bytes, tuple[tuple[Form, ...], ...]], tuple[TreeParameters, Frame]] = OrderedDict()
_KEYS: OrderedDict[tuple[bytes, Kind], MultilinearKey] = OrderedDict()


def keys_of_tree(key: MultilinearKey, kind: Kind, backend: Backend) -> TreeKeys:
    """The keys of the tree that has nodes of this kind over partitions of `key`, to be made on a backend. Raises
    UsageError for partitions over which there is no tree of the bits that `key` asks for."""
    return TreeKeys(key, *chosen_tree(key, kind.leaves), backend, partial(second_root, key, kind))


def node_key(key: MultilinearKey, kind: Kind, threads: int = 1) -> MultilinearKey:
    """The verifying key of a node over partitions of `key`, made on so many threads of the CPU. Any thread may call.
    Raises UsageError."""
    place = key.digest, kind
    with _LOCK:
        if place not in _KEYS:
            _KEYS[place] = _node_key(key, kind, threads)
            while len(_KEYS) > MOST_KEYS:
                _KEYS.popitem(last=False)
        _KEYS.move_to_end(place)
        return _KEYS[place]


def _node_key(key: MultilinearKey, kind: Kind, threads: int) -> MultilinearKey:
    params, frame = chosen_tree(key, kind.leaves)
    below = node_child(frame, params.nodes)
    if isinstance(kind.role, int):
        program, own = NodeProgram(segments_of(key, kind.leaves[kind.role]), frame), params.nodes
    elif kind.role == WRAP:
        return made_key(*second_root(key, kind, threads), threads)
    elif kind.role == ROOT:
        program, own = NodeProgram([below], root_frame(frame, params.nodes)), params.root
    else:
        program, own = NodeProgram([below] * MOST_CHILDREN, frame), params.nodes
    return made_key(program, own, threads)


def second_root(key: MultilinearKey, kind: Kind, threads: int = 1) -> tuple[CircuitProgram, Parameters]:
    """The program of a second root above nodes of this kind, over partitions of `key`, and its parameters. Under a key
    with places it is what a contract reads; the key of nodes, a constant there, is made on so many threads. Raises
    UsageError."""
    params, frame = chosen_tree(key, kind.leaves)
    bits, grinding = key.params.security_bits, key.params.grinding_bits
    if key.params.places is None:
        program = NodeProgram([node_child(frame, params.nodes)], root_frame(frame, params.nodes))
        return program, second_root_parameters(frame, params.nodes, bits, grinding)
    form = leaf_of_contract(kind.leaves)
    read = ContractProgram(ContractForm.of(key, form.name_length, node_key(key, kind.of_role(INNER), threads)))
    return read, program_parameters(read, WRAPS, min(bits, WRAP_BITS), grinding)


def leaf_of_contract(leaves: Sequence[tuple[Form, ...]]) -> Form:
    """The one form of all segments below these leaves. Raises UsageError if there are several."""
    forms = {form for leaf in leaves for form in leaf}
    if len(forms) != 1:
        raise UsageError("a contract reads jobs whose segments all have the same heights (Program.levelled)")
    return forms.pop()


def second_root_parameters(frame: Frame, nodes: Parameters, bits: int, grinding: int) -> Parameters:
    """The parameters of a second root above nodes of this frame. Raises UsageError."""
    return parameters(root_frame(frame, nodes), WRAPS, min(bits, WRAP_BITS), grinding)


def wrap_rules(key: MultilinearKey, kind: Kind) -> MultilinearKey:
    """The key of a second root as `node_key` makes it, without the root of its columns, which takes minutes: what its
    bits follow from. Raises UsageError."""
    return compile_key(*second_root(key, kind))


def verifiers_key(key: MultilinearKey, kind: Kind, threads: int = 1) -> MultilinearKey:
    """`node_key`, or of a second root `wrap_rules`: a Groth16 circuit has the root of its columns in place of the
    verifier. Raises UsageError."""
    return wrap_rules(key, kind) if kind.role == WRAP else node_key(key, kind, threads)


def made_key(program: CircuitProgram, params: Parameters, threads: int = 1) -> MultilinearKey:
    """The verifying key of a circuit's program, made on so many threads of the CPU; its root is kept."""

    def root() -> bytes:
        with CpuBackend(threads=threads) as backend:
            return make_verifying_key(program, params, backend).preprocessed_root

    return with_root(compile_key(program, params), kept_root(program, params, root))


def chosen_tree(key: MultilinearKey, leaves: tuple[tuple[Form, ...], ...]) -> tuple[TreeParameters, Frame]:
    """`choose_tree`, whose choices are kept."""
    place = key.digest, leaves
    with _LOCK:
        if place not in _CHOSEN:
            _CHOSEN[place] = choose_tree(key, leaves)
            while len(_CHOSEN) > MOST_KEYS:
                _CHOSEN.popitem(last=False)
        return _CHOSEN[place]


def choose_tree(key: MultilinearKey, leaves: Sequence[tuple[Form, ...]]) -> tuple[TreeParameters, Frame]:
    """Parameters under which nodes and root have the bits that `key` asks for, and the lowest frame with room for all
    these leaves and for nodes. Raises InvalidProof for heights that no partition can have, UsageError."""
    each = [kept_rows(segments_of(key, leaf)) for leaf in leaves]
    return tree_with_room(key.params, {kind: max(own[kind] for own in each) for kind in KINDS})


def tree_with_room(asked: Parameters, rows: Mapping[str, int]) -> tuple[TreeParameters, Frame]:
    """Parameters under which nodes and root have the bits that `asked` names, and the lowest frame with room for leaves
    of so many rows of each kind, and for nodes. Raises UsageError."""
    while True:
        frame = Frame.fitting(rows)
        params = parameters(frame, NODES, asked.security_bits, asked.grinding_bits)
        own = kept_rows([node_child(frame, params)] * MOST_CHILDREN)
        if frame.has_room(own):
            break
        rows = {kind: max(rows[kind], own[kind]) for kind in KINDS}
    return parameters_of(frame, asked.security_bits, asked.grinding_bits), frame


def parameters_of(frame: Frame, bits: int, grinding: int) -> TreeParameters:
    """The parameters of nodes of this frame, and of the root above them. Raises UsageError."""
    nodes = parameters(frame, NODES, bits, grinding)
    return TreeParameters(nodes, parameters(root_frame(frame, nodes), ROOTS, bits, grinding))


def planned_layers(key: MultilinearKey, partitions: Sequence[Form]) -> list[Layer]:
    """The layers of a tree over partitions of these forms, before any key of a node is made. Raises UsageError."""
    each = leaves_of(partitions)
    params, frame = choose_tree(key, list(dict.fromkeys(each)))
    node, low = node_child(frame, params.nodes).shape.key, root_frame(frame, params.nodes)
    root = compile_key(NodeProgram((), low), params.root)
    nodes = len(plan_above([[str(number)] for number in range(len(each))])) - 1
    return tree_layers(key, [form.log_heights for form in partitions], [(node, nodes), (root, 1)])


def planned_wires(key: MultilinearKey, partitions: Sequence[Form]) -> tuple[int, int]:
    """The estimated wires of the circuits of a tree over partitions of these forms, and how many of them provers and
    verifiers take unless they are told otherwise. Raises TooMuchWork if a circuit would be larger than any can be."""
    return work.tree_wires(key, list(dict.fromkeys(leaves_of(partitions)))), work.MOST_TREE_WIRES


def parameters(frame: Frame, form: tuple[int, TreeHash], bits: int, grinding: int) -> Parameters:
    """Parameters under which nodes of this frame have so many bits, of a form such as `NODES`. Raises UsageError."""
    return program_parameters(NodeProgram((), frame), form, bits, grinding)


def program_parameters(program: CircuitProgram, form: tuple[int, TreeHash], bits: int, grinding: int) -> Parameters:
    """`parameters` of the program of any circuit. Raises UsageError."""
    blowup, hash = form
    blowup = LOW_BLOWUP if bits < FEW_BITS else blowup
    return choose_parameters(
        program, 1, blowup=blowup, security=bits, grinding=grinding, hash=hash.value, log_final=LOG_FINAL_IN_CIRCUITS
    )
