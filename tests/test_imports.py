"""Imports point one way, and in no circle; what is imported lazily or for types alone counts too.

    kernels  <-  distprove (proof systems)  <-  actors  <-  cluster  <-  distprove/cli, measure, api.py
    kernels: errors, maths  <-  source, interface  <-  host  <-  {cpu | cuda}

What a verifier reaches and should not is listed. An entry that is no longer true fails, so that the list only shrinks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache

import pytest

from distprove.registry import SYSTEMS
from tests.support import ROOT

LAYERS = ("kernels", "distprove", "actors", "cluster", "top")
TOP = ("distprove.cli", "distprove.measure", "distprove.api", "distprove.aio", "distprove.__main__")
KERNELS = ({"errors", "maths"}, {"source", "interface"}, {"host"}, {"cpu", "cuda"})

NOT_FOR_VERIFIERS = (
    "kernels.cuda",
    "kernels.host.arena",
    "distprove.groth16.prover",
    "distprove.groth16.aggregate.prover",
    "distprove.stark.air.check",
    "distprove.stark.proving_key",
    "distprove.stark.prover",
    "distprove.stark.multilinear.proving_key",
    "distprove.stark.multilinear.prover",
    "distprove.stark.multilinear.vectors",
    "distprove.stark.recursion.circuit_cache",
    "distprove.stark.recursion.columns",
    "distprove.stark.recursion.contract_program",
    "distprove.stark.recursion.evaluation",
    "distprove.stark.recursion.jobs_keys",
    "distprove.stark.recursion.jobs_tree",
    "distprove.stark.recursion.layout",
    "distprove.stark.recursion.program",
    "distprove.stark.recursion.tree",
    "distprove.stark.wrap.contract_prover",
    "distprove.stark.wrap.kept",
    "distprove.stark.wrap.prover",
)
"""What a verifier does not import, be it later; for types alone it may."""
REACHED = {
    "distprove.groth16.verifier": set[str](),
    "distprove.groth16.aggregate.jobs": set[str](),
    "distprove.stark.job_verifier": set[str](),
    "distprove.stark.openvm.verifier": set[str](),
    "distprove.stark.recursion.root": set[str](),
    "distprove.stark.recursion.contract_proof": set[str](),
    "distprove.stark.recursion.jobs_root": set[str](),
    "distprove.stark.aggregate.verifier": set[str](),
}
RECURSION, WRAP = "distprove.stark.recursion", "distprove.stark.wrap"
DOORS = {
    ("distprove.stark.systems", f"{RECURSION}.system"),
    ("distprove.stark.programs.row_texts", f"{RECURSION}.columns"),
    ("distprove.stark.job_verifier", f"{RECURSION}.whole"),
    ("distprove.stark.keyfile", f"{RECURSION}.tree_keys"),
    ("distprove.stark.keyfile", f"{RECURSION}.jobs_keys"),
    ("distprove.stark.aggregate.file", f"{RECURSION}.jobs_root"),
    *(("distprove.stark.aggregate.verifier", f"{RECURSION}.{name}") for name in ("jobs_root", "security", "work")),
    ("distprove.stark.aggregate.prover", f"{RECURSION}.jobs_tree"),
    ("distprove.cli.programs", f"{RECURSION}.levelling"),
    *(("distprove.cli.security", f"{RECURSION}.{name}") for name in ("plan", "tree_keys", "whole")),
    *((f"{WRAP}.verifier", f"{RECURSION}.{name}") for name in ("node_proof", "plan", "root", "security", "whole")),
    *((f"{WRAP}.system", f"{RECURSION}.{name}") for name in ("plan", "system", "tree_keys")),
    *((f"{WRAP}.listed", f"{RECURSION}.{name}") for name in ("contract", "plan", "tree_keys", "whole")),
    *((f"{WRAP}.kept", f"{RECURSION}.{name}") for name in ("circuit_cache", "node")),
    *((f"{WRAP}.prover", f"{RECURSION}.{name}") for name in ("node", "plan", "system", "tree_keys")),
    *((f"{WRAP}.{name}", f"{RECURSION}.plan") for name in ("partition", "program_file")),
    *(
        (f"{WRAP}.contract_prover", f"{RECURSION}.{name}")
        for name in ("contract_proof", "node", "node_proof", "plan", "program", "system")
    ),
    *(
        (f"{WRAP}.contract_system", f"{RECURSION}.{name}")
        for name in ("contract", "contract_proof", "node_proof", "plan", "system", "tree_keys")
    ),
    *(
        (f"{WRAP}.contract_verifier", f"{RECURSION}.{name}")
        for name in ("contract", "contract_proof", "node", "node_proof", "plan", "security", "whole", "work")
    ),
}
"""A room of its own: what else imports it, each when a job ends in one proof, or several do."""


@cache
def graph(types: bool = True) -> dict[str, set[str]]:
    """Modules of the packages, and what each imports; with what it imports for types alone, or without."""
    paths = [path for package in LAYERS[:-1] for path in sorted((ROOT / package).rglob("*.py"))]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in names.items()}
    found = {name: {*modules_of(imported(tree, types), names)} - {name} for name, tree in trees.items()}
    found["distprove.registry"] |= {*SYSTEMS.values()}  # by name, when a system is first used
    return found


def imported(node: ast.AST, types: bool) -> Iterable[tuple[str, str]]:
    """Module, and what is taken from it or "", of each import."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "a relative import"
        yield from ((str(node.module), alias.name) for alias in node.names)
    elif types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
        for child in ast.iter_child_nodes(node):
            yield from imported(child, types)


def modules_of(imports: Iterable[tuple[str, str]], names: Iterable[str]) -> Iterable[str]:
    for module, name in imports:
        inner = f"{module}.{name}"
        if inner in names:
            yield inner
        elif module in names or module.split(".")[0] in ("ray", "tests"):
            yield module


def layer(module: str) -> str:
    if module == "distprove" or any(module == top or module.startswith(f"{top}.") for top in TOP):
        return "top"  # `distprove` re-exports the API, lazily
    return module.split(".")[0]


def edges() -> set[tuple[str, str]]:
    return {(module, used) for module, imports in graph().items() for used in imports}


def closure(module: str) -> set[str]:
    """What a module imports, at once or later, with the packages on the way, but for the API of `distprove`."""
    reached: set[str] = set()
    open_ = [module]
    while open_:
        name = open_.pop()
        if name not in reached and name in graph(types=False) and layer(name) != "top":
            reached.add(name)
            open_ += graph(types=False)[name]
            open_ += [name.rsplit(".", 1)[0]] if "." in name else []
    return reached


def circles() -> set[frozenset[str]]:
    """The strongly connected parts of the graph that are more than one module (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for used in graph().get(module, ()):
            if used not in numbers:
                visit(used)
            if used in path:
                lowest[module] = min(lowest[module], lowest[used])
        if lowest[module] == numbers[module]:
            at = path.index(module)
            found.add(frozenset(path[at:]))
            del path[at:]

    for module in graph():
        if module not in numbers:
            visit(module)
    return {part for part in found if len(part) > 1}


def test_layers() -> None:
    found = {(a, b) for a, b in edges() if layer(b) in LAYERS and LAYERS.index(layer(a)) < LAYERS.index(layer(b))}
    assert found == set()


def test_ray_is_known_to_actors_and_cluster() -> None:
    assert {layer(a) for a, b in edges() if b.split(".")[0] == "ray"} <= {"actors", "cluster", "top"}


def test_parts_of_kernels() -> None:
    rank = {name: number for number, names in enumerate(KERNELS) for name in names}

    def part(module: str) -> str:
        return module.split(".")[1]

    inner = {(a, b) for a, b in edges() if a.startswith("kernels.") and b.startswith("kernels.")}
    assert {part(a) for a in graph() if a.startswith("kernels.")} <= rank.keys()
    assert {(a, b) for a, b in inner if part(a) != part(b) and rank[part(a)] <= rank[part(b)]} == set()


def test_no_tests_are_imported() -> None:
    assert {a for a, b in edges() if b.split(".")[0] == "tests"} == set()


def test_no_circles() -> None:
    assert circles() == set()


@pytest.mark.parametrize("verifier", REACHED)
def test_a_verifier_reaches_nothing_of_a_prover(verifier: str) -> None:
    found = {m for m in closure(verifier) if any(m == no or m.startswith(f"{no}.") for no in NOT_FOR_VERIFIERS)}
    assert found == REACHED[verifier]


def test_recursion_is_reached_through_its_doors() -> None:
    def within(module: str) -> bool:
        return module == RECURSION or module.startswith(f"{RECURSION}.")

    assert {(a, b) for a, b in edges() if within(b) and not within(a)} == DOORS


def private_parts(tree: ast.AST) -> Iterable[str]:
    """What a module takes of Ray that Ray does not document: modules whose names begin with an underscore, what is
    generated, and private attributes of Ray's modules and of handles of actors."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for module, name in imported(node, types=True):
                parts = [*module.split("."), name]
                if parts[0] == "ray" and any(part.startswith("_") or part in ("core", "generated") for part in parts):
                    yield ".".join(parts)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of = ast.unparse(node.value)
            if of.split(".")[0] == "ray" or of.split(".")[-1] in HANDLES:
                yield f"{of}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"ray\.(\w+\.)*_", node.value):
            yield node.value


HANDLES = {"actor", "governor", "ref", "reference", "job_config", "context"}
"""Names of what is Ray's in our modules."""


@pytest.mark.parametrize(
    "code",
    [
        "import ray._private.worker",
        "from ray import _raylet",
        "from ray._private.worker import global_worker",
        "from ray.core.generated.gcs_pb2 import ActorTableData",
        "def late():\n    from ray._raylet import GcsClient",
        "if TYPE_CHECKING:\n    from ray._private.node import Node",
        "self.actor._get_local_state()",
        "ray._private.worker.global_worker",
        "ray.util._x",
        "import_module('ray._private.worker')",
    ],
)
def test_a_private_part_of_ray_is_seen(code: str) -> None:
    assert list(private_parts(ast.parse(code)))


def test_nothing_private_of_ray_is_used() -> None:
    paths = [path for package in LAYERS[:-1] for path in sorted((ROOT / package).rglob("*.py"))]
    found = {
        (str(path.relative_to(ROOT)), part)
        for path in paths
        for part in private_parts(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
