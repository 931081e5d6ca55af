"""What `prefer` chooses: the blow-up, and the layout of a program that has two; at the same bits, and in the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove.errors import UsageError
from distprove.stark.options import StarkOptions
from distprove.stark.proof import content_bytes
from distprove.stark.security import choose_parameters, job_security
from distprove.stark.shape import ProofShape
from distprove.stark.system import StarkSystem
from distprove.stark.verifying_key import compile_program
from tests.stark.test_file_root import content
from tests.support.stark_programs import Fibonacci

PARTITIONS = 3


def system(tmp_path: Path, **given: object) -> StarkSystem:
    path = tmp_path / "file"
    path.write_bytes(content(12 << 10))
    arguments = {"file": str(path)} | ({"layout": given.pop("layout")} if "layout" in given else {})
    options = StarkOptions("file-root", arguments, PARTITIONS, **given)  # type: ignore[arg-type]
    options = options.completed(tmp_path)
    options.check()
    return StarkSystem.from_options(options)


@pytest.mark.parametrize(
    ("given", "layout", "blowup"),
    [
        ({}, "wide", 2),
        ({"prefer": "speed"}, "wide", 2),
        ({"prefer": "size"}, "narrow", 4),
        ({"prefer": "size", "blowup": 8}, "narrow", 8),
        ({"prefer": "size", "layout": "wide"}, "wide", 4),
        ({"layout": "narrow"}, "narrow", 4),
        ({"layout": "narrow", "blowup": 8}, "narrow", 8),
    ],
)
def test_what_is_chosen(tmp_path: Path, given: dict[str, object], layout: str, blowup: int) -> None:
    made = system(tmp_path, **given)
    assert (made.program.arguments, made.params.blowup) == ({"layout": layout}, blowup)
    key = compile_program(made.program, made.params)
    assert key.to_record()["arguments"] == {"layout": layout}
    assert job_security(key, made.program.log_heights(PARTITIONS)).bits >= 128


def test_a_small_proof_is_as_small_as_the_documents_say(tmp_path: Path) -> None:
    sizes = {}
    for prefer in ("speed", "size"):
        made = system(tmp_path, prefer=prefer)
        key = compile_program(made.program, made.params)
        sizes[prefer] = max(content_bytes(ProofShape(key, h)) for h in made.program.log_heights(PARTITIONS))
    assert sizes["size"] < 1_000_000 < 4_000_000 < sizes["speed"]


def test_programs_without_layouts_take_the_blow_up_alone() -> None:
    assert [choose_parameters(Fibonacci(), 1, prefer=p, queries=7).blowup for p in ("speed", "size")] == [2, 4]


def test_the_narrow_layout_needs_its_blow_up(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="blow-up"):
        system(tmp_path, layout="narrow", blowup=2)


def test_what_is_no_preference(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="speed or size"):
        system(tmp_path, prefer="small")
    with pytest.raises(UsageError, match="speed or size"):
        choose_parameters(Fibonacci(), 1, prefer="", queries=7)
