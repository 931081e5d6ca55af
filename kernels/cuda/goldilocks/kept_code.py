"""What is generated from row programs, in the user's private cache: Python takes a third of a second to write the code
for the tables of a tree's nodes, and each prover of a machine would do it again, beside the thread that proves.

A file's name has digests of the program and of the modules that generate, so changed code finds no file of the code
before it. The files are pickled, which is code that will be run: as compiled kernels they are taken from a folder that
belongs to the user alone (`kernels.host.cache`). One that is absent or damaged is made anew.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import numpy as np

import kernels.errors
import kernels.interface.row_program
import kernels.maths.goldilocks
import kernels.maths.goldilocks_extension
import kernels.source
from kernels.cuda.goldilocks import linear_forms, row_program, rule_code
from kernels.host import cache as files
from kernels.host.loaded_code import as_loaded, digest_of
from kernels.interface.row_program import RowProgram

LEAST = 256
"""Instructions of the shortest program whose code is kept. Others take as long to read."""
BOUND = files.Bound(bytes=1 << 28, files=1 << 12)
"""Of the folder. The longest program of a node takes 1 MB."""
GENERATING: tuple[ModuleType, ...] = (
    linear_forms,
    row_program,
    rule_code,
    kernels.errors,
    kernels.interface.row_program,
    kernels.maths.goldilocks,
    kernels.maths.goldilocks_extension,
    kernels.source,
)
"""The modules that generate code, and those of ours that they use."""
GENERATING_FILES = tuple(Path(module.__file__ or "") for module in GENERATING)
_SUFFIX = ".rows"

Made = TypeVar("Made")


def generated(
    kind: type[Made],
    program: RowProgram,
    told: Sequence[int | float],
    make: Callable[[], Made],
    folder: Path | None = None,
) -> Made:
    """What `make` makes of a program and of these numbers, an object of `kind`, from the user's cache if it is there.
    `folder` is the cache's by default. Any thread may call."""
    if len(program.code) < LEAST:
        return make()
    folder = folder or files.user_cache_dir("row-programs")
    name = _name(kind, program, told)
    found = _read(folder, name)
    if isinstance(found, kind):
        return found
    made = make()
    if not as_loaded(GENERATING_FILES):
        return made
    data = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
    file = files.keep(folder, name, _SUFFIX, lambda file: file.write(data), BOUND)
    if file is not None:
        file.close()
    return made


def _read(folder: Path, name: str) -> object:
    file = files.find(folder, name, _SUFFIX)
    if file is None:
        return None
    with file, suppress(Exception):  # whatever does not unpickle is made anew
        found: object = pickle.load(file)
        return found
    return None


def _name(kind: type[object], program: RowProgram, told: Sequence[int | float]) -> str:
    """A digest of what is generated and of what from, as hexadecimal digits."""
    plain = program.widths, program.constants, program.scalars, program.outputs, program.fold, program.code.shape
    facts = repr((kind.__qualname__, plain, tuple(told), sys.version_info[:2], np.__version__))
    hashed = hashlib.sha256(digest_of(GENERATING_FILES) + facts.encode() + b"\0")
    hashed.update(program.code.tobytes())
    return hashed.hexdigest()
