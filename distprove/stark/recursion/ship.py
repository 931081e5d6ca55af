"""Makes the roots that ship (`recursion.shipped`) again: `python -m distprove.stark.recursion.ship`.

Without an argument it writes the file anew, where circuits have changed since. With --check it makes every root again
and compares. It takes some 30 s of a core for each tree of 128 bits. A second root takes as long again with AVX-512
IFMA, and minutes without it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from distprove.host.machine import usable_threads
from distprove.stark.multilinear.key import MultilinearKey, compile_key, with_root
from distprove.stark.multilinear.params import Parameters
from distprove.stark.multilinear.proving_key import make_verifying_key
from distprove.stark.recursion.contract import PLACES
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.contract_program import ContractProgram
from distprove.stark.recursion.frame import Frame
from distprove.stark.recursion.node import MOST_CHILDREN
from distprove.stark.recursion.program import CircuitProgram, NodeProgram
from distprove.stark.recursion.shipped import CONTRACT, FILE, KEYS, content_of, shipped_trees
from distprove.stark.recursion.tree import node_child, root_frame
from distprove.stark.recursion.tree_keys import (
    WRAP_BITS,
    WRAPS,
    parameters_of,
    program_parameters,
    second_root_parameters,
)
from distprove.stark.riscv.guest import Guest
from distprove.stark.riscv.program import RiscV
from distprove.stark.riscv.segment import LEAST_LOG_ROWS
from kernels.cpu.backend import CpuBackend
from kernels.interface.tree_hash import TreeHash

GUESTS = "riscv"
"""What the names of trees over segments of a guest begin with."""


def programs_of(tree: Mapping[str, Any]) -> dict[str, tuple[CircuitProgram, Parameters]]:
    """The programs of a tree's keys with their parameters, by the names of `KEYS`, and of a tree over segments of a
    RISC-V guest whose key of nodes has a root that of `CONTRACT`. `tree` is of `shipped_trees`."""
    frame = Frame(tree["frame"])
    params = parameters_of(frame, tree["bits"], tree["grinding"])
    below = node_child(frame, params.nodes)
    node = NodeProgram([below] * MOST_CHILDREN, frame)
    root = NodeProgram([below], root_frame(frame, params.nodes))
    wrap = second_root_parameters(frame, params.nodes, tree["bits"], tree["grinding"])
    made: list[tuple[CircuitProgram, Parameters]] = [(node, params.nodes), (root, params.root), (root, wrap)]
    found = dict(zip(KEYS, made, strict=True))
    if not tree["name"].startswith(GUESTS) or "node" not in tree:
        return found
    key = with_root(compile_key(node, params.nodes), bytes.fromhex(tree["node"]["root"]))
    read = ContractProgram(machine_form(key))
    return {**found, CONTRACT: (read, program_parameters(read, WRAPS, min(tree["bits"], WRAP_BITS), tree["grinding"]))}


def machine_form(node: MultilinearKey) -> ContractForm:
    """The form of the circuit that a contract reads, in trees with this key of nodes over segments of any guest."""
    program = RiscV(guest=str(Guest(bytes(32), 0, LEAST_LOG_ROWS, LEAST_LOG_ROWS)))
    params = Parameters(1, 0, (1,), 0, 0, tree_hash=TreeHash.POSEIDON2, places=PLACES)
    return ContractForm.of(compile_key(program, params), program.name_bytes, node)


def made_root(program: CircuitProgram, params: Parameters, threads: int) -> bytes:
    """The root of a program's preprocessed columns, made anew."""
    with CpuBackend(threads=threads) as backend:
        return make_verifying_key(program, params, backend).preprocessed_root


def renewed(tree: Mapping[str, Any], *, check: bool, threads: int) -> dict[str, Any]:
    """A tree with the digests and roots of its keys as they are now. A known root is taken unless `check` is set."""
    made = {name: tree[name] for name in tree if name not in (*KEYS, CONTRACT)}
    for name, (program, params) in programs_of(tree).items():
        content, known = content_of(program, params).hex(), tree.get(name, {})
        if check or known.get("content") != content:
            known = {"content": content, "root": made_root(program, params, threads).hex()}
        made[name] = known
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="make every root again, and write nothing")
    parser.add_argument("--threads", type=int, default=usable_threads())
    given = parser.parse_args(arguments)
    failed, trees = 0, []
    for tree in shipped_trees():
        trees.append(renewed(tree, check=given.check, threads=given.threads))
        same = trees[-1] == tree
        failed += not same
        said = "as it ships" if same else "other than what ships" if given.check else "made anew"
        print(f"{tree['name']}: {said}", flush=True)
    if given.check:
        return int(failed > 0)
    FILE.write_text(json.dumps(trees, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
