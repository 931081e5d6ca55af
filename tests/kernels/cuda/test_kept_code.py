"""Code that is generated from row programs is kept: what is read does the same, and is read for nothing else."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.cuda.goldilocks import kept_code
from kernels.cuda.goldilocks.kept_code import GENERATING, generated
from kernels.cuda.goldilocks.row_program import RowPlan, RowProfile
from kernels.cuda.goldilocks.rule_code import PIECE, RuleCode
from kernels.host import cache as files
from kernels.interface.row_program import RowProgram
from tests.support.row_cases import random_program, scalars_for

FIRSTS, PROFILE = (0, 3, 5), RowProfile(max_work=20.0)


def program(seed: int, size: int = 60) -> RowProgram:
    return random_program(np.random.default_rng(seed), (3, 2), size, folds=bool(seed % 2))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_code, "LEAST", 1)
    return tmp_path / "cache"


def asked(kind: Any, own: RowProgram, folder: Path, told: Any = (PIECE, *FIRSTS)) -> tuple[Any, bool]:
    """What is generated, and whether it was made."""
    made = []

    def make() -> Any:
        made.append(own)
        return RuleCode(own, FIRSTS, PIECE) if kind is RuleCode else RowPlan(own, PROFILE)

    return generated(kind, own, told, make, folder), bool(made)


def linear(seed: int) -> RowProgram:
    """A program that has a rule code: one of sums of base values times challenges."""
    for attempt in range(100):
        own = program(1000 * seed + attempt)
        try:
            RuleCode(own, FIRSTS, PIECE)
        except Exception:
            continue
        return own
    raise AssertionError("no such program")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_does_the_same(folder: Path, seed: int) -> None:
    own, rng = linear(seed), np.random.default_rng(seed)
    (code, made), (read, again) = asked(RuleCode, own, folder), asked(RuleCode, own, folder)
    assert (made, again) == (True, False)
    assert read is not code
    assert np.array_equal(read.code, code.code)
    assert (read.slots, read.pieces, read.outputs, read.straightened) == (
        *(code.slots, code.pieces),
        *(code.outputs, code.straightened),
    )
    scalars = scalars_for(rng, own)
    (constants, coefficients), (same, alike) = code.words(scalars), read.words(scalars)
    assert constants == same
    assert np.array_equal(coefficients, alike)
    (plan, made), (read, again) = asked(RowPlan, own, folder), asked(RowPlan, own, folder)
    assert (made, again) == (True, False)
    assert read.kernels == plan.kernels
    strides = np.array([1 << 10, 1 << 12], dtype=np.uint64)
    for words, others in zip(plan.words(scalars, strides), read.words(scalars, strides), strict=True):
        assert np.array_equal(words, others)


def test_anything_else_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = linear(0)
    assert asked(RuleCode, own, folder)[1]
    assert not asked(RuleCode, own, folder)[1]
    assert asked(RuleCode, linear(1), folder)[1]
    assert asked(RuleCode, own, folder, (PIECE + 1, *FIRSTS))[1]
    assert asked(RowPlan, own, folder)[1]
    monkeypatch.setattr(kept_code, "digest_of", lambda files: b"changed code")
    assert asked(RuleCode, own, folder)[1]
    assert not asked(RuleCode, own, folder)[1]
    monkeypatch.setattr(kept_code, "LEAST", len(own.code) + 1)
    assert asked(RuleCode, own, folder)[1]


def test_programs_that_differ_in_one_part_have_names_of_their_own() -> None:
    def named(**changed: Any) -> str:
        own = program(1)
        fields: dict[str, Any] = {name: getattr(own, name) for name in own.__dataclass_fields__}
        return kept_code._name(RuleCode, RowProgram(**{**fields, **changed}), ())

    own = program(1)
    code = own.code.copy()
    code[-1, 1] = (code[-1, 1] + 1) % (len(code) - 1)
    names = [
        named(),
        named(code=code),
        named(widths=(*own.widths, 1)),
        named(constants=(*own.constants, 9)),
        named(scalars=own.scalars + 1),
        named(outputs=(*own.outputs[:-1], 0)),
        named(fold=None),
    ]
    assert len({*names}) == len(names)


def test_a_damaged_file_is_not_read(folder: Path) -> None:
    own = linear(0)
    code, _ = asked(RuleCode, own, folder)
    (path,) = folder.glob("*.rows")
    path.write_bytes(pickle.dumps("something else"))
    read, made = asked(RuleCode, own, folder)
    assert made
    assert np.array_equal(read.code, code.code)
    (path,) = folder.glob("*.rows")
    path.unlink()
    other = files.keep(folder, path.name.partition("-")[0], ".rows", lambda file: file.write(pickle.dumps("no code")))
    assert other is not None
    other.close()
    assert asked(RuleCode, own, folder)[1]
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert asked(RuleCode, own, folder)[1]


def test_the_digest_covers_all_that_generates() -> None:
    """Each module that one of these imports from ours is one of these."""
    names = {module.__name__ for module in GENERATING}
    for module in GENERATING:
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels"):
                assert node.module in names, f"{module.__name__} imports {node.module}"
