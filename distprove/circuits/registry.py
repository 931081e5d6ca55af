"""The circuits that ship by name, and a user's own as "module:function". The function makes a `CircuitBuilder`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

from distprove.errors import UsageError
from distprove.formats.nearest import nearest
from distprove.formats.owncode import import_named, names_code, own_faults
from distprove.host.collector import collecting_seldom

if TYPE_CHECKING:
    from distprove.circuits.builder import CircuitBuilder
    from distprove.circuits.circuit import WitnessProgram
    from distprove.groth16.templated import TemplatedSystem


@dataclass(frozen=True)
class CircuitEntry:
    """The entry of a circuit that ships. Its modules are imported when it is made."""

    name: str
    module: str
    """The module of the function that makes it."""
    function: str
    inputs: str
    """The function of `filecoin.inputs` that makes random inputs."""
    arguments: tuple[Any, ...]
    """The arguments of both functions."""
    partitions: int = 1
    """Partitions of a sector."""
    sizes: tuple[int, int] | None = None
    """Wires with the constant 1, and public wires without it: they tell a key of another circuit before this one is
    built."""

    def make(self) -> CircuitBuilder:
        made: CircuitBuilder = _function(self.module, self.function)(*self.arguments)
        return made

    def random_inputs(self, random: Random) -> dict[str, list[int]]:
        """Inputs without a sector, which satisfy the circuit."""
        made: dict[str, list[int]] = _function("inputs", self.inputs)(*self.arguments, random)
        return made


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"distprove.circuits.filecoin.{module}"), name)
    return found


_TREES: dict[str, tuple[int, ...]] = {
    "1KiB": (8, 4),
    "2KiB": (8, 8),
    "8MiB": (8,) * 6,
    "512MiB": (8,) * 8,
    "32GiB": (8,) * 10,
    "64GiB": (*(8,) * 10, 2),
}
"""The arities of tree R by size of the sector."""
_PRODUCTION = ("32GiB", "64GiB")
_WINDOW = {"32GiB": 2349, "64GiB": 2300}
"""Sectors of a window's partition; two of other sizes."""


_SIZES = {
    "snap-deals-1KiB": (1_247_314, 4),
    "snap-deals-poseidon-1KiB": (32_459, 4),
    "porep-2KiB": (2_685_713, 39),
    "winning-post-2KiB": (91_807, 132),
    "window-post-2KiB": (22_151, 22),
    "snap-deals-2KiB": (1_703_574, 4),
    "snap-deals-poseidon-2KiB": (36_839, 4),
    "porep-8MiB": (3_842_489, 39),
    "winning-post-8MiB": (233_575, 132),
    "window-post-8MiB": (65_111, 22),
    "snap-deals-8MiB": (9_998_044, 4),
    "snap-deals-poseidon-8MiB": (400_253, 4),
    "porep-512MiB": (4_420_877, 39),
    "winning-post-512MiB": (304_459, 132),
    "window-post-512MiB": (86_591, 22),
    "snap-deals-512MiB": (57_401_319, 4),
    "snap-deals-poseidon-512MiB": (18_165_342, 4),
    "porep-32GiB": (130_170_221, 327),
    "winning-post-32GiB": (375_343, 132),
    "window-post-32GiB": (126_928_216, 25_839),
    "snap-deals-32GiB": (80_978_493, 4),
    "snap-deals-poseidon-32GiB": (22_593_324, 4),
    "porep-64GiB": (131_076_971, 327),
    "winning-post-64GiB": (396_133, 132),
    "window-post-64GiB": (131_525_501, 25_300),
    "snap-deals-64GiB": (84_931_225, 4),
    "snap-deals-poseidon-64GiB": (23_889_516, 4),
}
"""Wires and public wires of each circuit."""


def _entries() -> dict[str, CircuitEntry]:
    made: dict[str, CircuitEntry] = {}

    def add(kind: str, size: str, module: str, arguments: tuple[Any, ...], partitions: int = 1) -> None:
        name, what = f"filecoin/{kind}-{size}", kind.replace("-deals", "").replace("-", "_")
        circuit = "post" if module == "post" else what
        inputs = what if kind == "winning-post" else circuit
        made[name] = CircuitEntry(
            name, module, f"{circuit}_circuit", f"{inputs}_inputs", arguments, partitions, _SIZES[f"{kind}-{size}"]
        )

    for size, tree in _TREES.items():
        production = size in _PRODUCTION
        if size != "1KiB":
            add("porep", size, "porep", (18, 11, tree) if production else (2, 2, tree), 10 if production else 1)
            add("winning-post", size, "post", (66, 1, tree))
            add("window-post", size, "post", (_WINDOW.get(size, 2), 10, tree))
        add("snap-deals", size, "snap", (tree,), {"1KiB": 1, "2KiB": 1, "8MiB": 4}.get(size, 16))
        add("snap-deals-poseidon", size, "snap", (tree,))
    return made


CIRCUITS = _entries()


def find_circuit(name: str) -> CircuitEntry:
    """The entry of a circuit that ships. Raises UsageError."""
    if name not in CIRCUITS:
        hint = nearest(name, CIRCUITS) or f"; there are {', '.join(CIRCUITS)}, and your own as MODULE:FUNCTION"
        raise UsageError(f"there is no circuit {name!r}{hint}")
    return CIRCUITS[name]


def check_circuit(name: str) -> None:
    """Raise UsageError for a name that no circuit has. A user's own is not imported."""
    if not names_code(name):
        find_circuit(name)


def known_sizes(name: str) -> tuple[int, int] | None:
    """Wires and public wires of a circuit that ships, known without building it; None for a user's own. Raises
    UsageError."""
    if names_code(name):
        return None
    return find_circuit(name).sizes


def circuit_maker(name: str) -> Callable[[], CircuitBuilder]:
    """What makes a circuit that ships, or a user's own, whose module is imported: then it raises CodeFault for an error
    in the user's code. Raises UsageError, CodeFault."""
    if not names_code(name):
        return find_circuit(name).make
    found = import_named(name)
    if not callable(found):
        raise UsageError(f"{name} is not a function that makes a CircuitBuilder")
    return partial(_own, name, found)


def _own(name: str, function: Callable[[], Any]) -> CircuitBuilder:
    from distprove.circuits.builder import CircuitBuilder

    with own_faults(name.partition(":")[0]):
        made = function()
    if not isinstance(made, CircuitBuilder):
        raise UsageError(f"{name} makes no CircuitBuilder but a {type(made).__name__}")
    return made


@lru_cache(maxsize=2)
def _made(name: str) -> CircuitBuilder:
    with collecting_seldom():
        return circuit_maker(name)()


@lru_cache(maxsize=2)
def witness_program(name: str) -> WitnessProgram:
    """The witness program of a circuit: once in a process, and for one that ships from the user's cache
    (`circuits.kept`). For provers. Raises UsageError."""
    if names_code(name):
        return _made(name).witness_program()
    from distprove.circuits.kept import kept_witness_program

    return kept_witness_program(repr(find_circuit(name)), partial(_made, name))


@lru_cache(maxsize=2)
def constraint_system(name: str) -> TemplatedSystem:
    """The constraint system of a circuit, otherwise as `witness_program`. Raises UsageError."""
    if names_code(name):
        return _made(name).system()
    from distprove.circuits.kept import kept_system

    return kept_system(repr(find_circuit(name)), partial(_made, name))


def random_inputs(name: str, seed: int) -> Callable[[int], dict[str, list[int]]]:
    """Makes inputs by their number. Raises UsageError for a circuit that has none of its own."""
    if names_code(name):
        raise UsageError(f"random inputs are made for circuits that ship, and {name} is one of your own")
    entry = find_circuit(name)
    return lambda number: entry.random_inputs(Random(f"{seed}/{number}"))
