"""Names of a circuit's signals, from the `.sym` file that circom writes beside a circuit's `.r1cs`.

A line is `label,wire,component,name`: the signal's number before simplification, its wire or -1 for none, the number of
the component that declares it, and its name, such as `main.grid[0][1]`. The main component's own signals come first.

Names serve messages alone, so the file is read only after something failed. One that is not there, or of another
circuit, costs names and nothing more.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from os import fstat
from pathlib import Path
from typing import NamedTuple

from distprove.errors import FormatError, typed
from distprove.formats.files import open_given

MAX_BYTES = 1 << 34
"""Maximum size of a file that is read: a hundred bytes for each of 160 million signals."""
_MAX_LINE = 1100
_LINE = re.compile(rb"([0-9]{1,19}),(-1|[0-9]{1,10}),([0-9]{1,10}),(main\.[A-Za-z0-9_$.\[\]]{1,1000})\r?\n?")
INDICES = re.compile(r"(?:\[[0-9]{1,10}\])+\Z")
"""The indices at the end of a name."""
MAIN = "main."
"""What the name of every signal begins with."""


class Symbol(NamedTuple):
    """A signal of a circuit."""

    label: int
    """Number before simplification."""
    wire: int
    """Number of its wire; -1 if simplification removed it."""
    component: int
    name: str


@dataclass(frozen=True)
class InputSignal:
    """An input signal of a circuit."""

    name: str
    """Its name in an input file: `grid`, or `p[0].x` for a signal of a bus."""
    shape: tuple[int, ...]
    """Lengths of its array's dimensions; empty for a single value."""
    size: int
    """Number of its values."""

    def __str__(self) -> str:
        return f"{self.name!r}{''.join(f'[{length}]' for length in self.shape)}"


def symbols_beside(path: Path | None) -> Path | None:
    """The `.sym` file of a circuit whose `.r1cs` or `.wasm` is at `path`: beside it, or beside the folder NAME_js in
    which circom writes a program. None if there is none."""
    if path is None:
        return None
    own = path.with_suffix(".sym")
    places = [own, path.parent.parent / own.name] if path.parent.name == f"{path.stem}_js" else [own]
    return next((place for place in places if place.is_file()), None)


def read_symbols(path: Path) -> Iterator[Symbol]:
    """The signals in a file, in its order. Raises InputError or FormatError, as soon as it comes to what is wrong."""
    try:
        with open(path, "rb", opener=open_given) as file:
            facts = fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
                raise FormatError(f"{path}: no regular file, or larger than {MAX_BYTES} bytes")
            while line := file.readline(_MAX_LINE):
                found = _LINE.fullmatch(line)
                if found is None:
                    raise FormatError(f"{path}: not the signals of a circuit, as circom writes them with --sym")
                yield Symbol(int(found[1]), int(found[2]), int(found[3]), found[4].decode())
    except OSError as error:
        raise typed(error, path) from None


def input_signals(path: Path, size_of: Callable[[str], int]) -> list[InputSignal]:
    """The input signals of a circuit, in the order of its file. `size_of` is the number of values that the circuit's
    program takes for a name; 0 or less if the name is no input. Raises InputError or FormatError."""
    shapes: dict[str, tuple[int, ...]] = {}
    first: int | None = None
    for symbol in read_symbols(path):
        if first is None:
            first = symbol.component
        elif symbol.component != first:  # the main component's own come first
            break
        name = symbol.name.removeprefix(MAIN)
        indices = INDICES.search(name)
        base = name if indices is None else name[: indices.start()]
        lengths = () if indices is None else tuple(int(each) + 1 for each in indices[0][1:-1].split("]["))
        known = shapes.get(base, ())
        shapes[base] = tuple(map(max, known, lengths)) if len(known) == len(lengths) else lengths
    found = ((name, shape, size_of(name)) for name, shape in shapes.items())
    return [InputSignal(name, shape, size) for name, shape, size in found if size > 0]


def wire_names(path: Path, wires: Container[int], label_of: Callable[[int], int]) -> dict[int, str] | None:
    """The names of some wires; None for a file of another circuit, in which a wire has another label than `label_of`
    has. Raises InputError or FormatError."""
    names: dict[int, str] = {}
    for symbol in read_symbols(path):
        if symbol.wire in wires and symbol.wire not in names:
            if label_of(symbol.wire) != symbol.label:
                return None
            names[symbol.wire] = symbol.name
    return names
