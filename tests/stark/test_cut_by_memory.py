"""Jobs that leave their number of partitions to memory: what they are cut into fits, under the job's own key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distprove.formats import canonical
from distprove.stark import plan
from distprove.stark.engine import engine_named, engine_of
from distprove.stark.multilinear import memory
from distprove.stark.multilinear.memory import choose
from distprove.stark.multilinear.shape import Shape
from distprove.stark.options import StarkOptions
from distprove.stark.plan import CONSTANT_BYTES, CONTEXT_BYTES, PARTITION_BYTES, usable
from distprove.stark.programs import load_program
from distprove.stark.programs.file_root import FileRoot
from distprove.stark.programs.file_root_layouts import LAYOUTS
from distprove.stark.programs.file_tree import FileTree
from distprove.stark.system import StarkSystem
from distprove.stark.systems import StarkSystems
from kernels.cpu.backend import CpuBackend
from kernels.errors import OutOfMemory

GIB = 1 << 30
CARDS = {
    "24 GB": usable(24 * 10**9 - CONTEXT_BYTES),
    "80 GB": usable(80 * GIB - CONTEXT_BYTES),
    "H200": usable(139 * GIB),
}
"""Bytes that plans may use on some cards."""
JOBS: Mapping[str, Mapping[str, Any]] = {
    "fri": {"engine": "fri"},
    "fri, size": {"engine": "fri", "prefer": "size"},
    "multilinear": {"engine": "multilinear"},
    "multilinear, size": {"engine": "multilinear", "prefer": "size"},
    "one proof": {"engine": "multilinear", "hash": "poseidon2", "one_proof": True},
}
PARTITIONS = {"fri": 44, "fri, size": 91, "multilinear": 87, "multilinear, size": 181, "one proof": 87}
BYTES = 60_000_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 MB, all of them zero: the cut follows from the length alone."""
    path = tmp_path_factory.mktemp("cut") / "file"
    with path.open("wb") as opened:
        opened.truncate(BYTES)
    return path


def system_of(file: Path, given: Mapping[str, Any]) -> StarkSystem:
    options = StarkOptions("file-root", {"file": str(file)}, None, **given)
    return StarkSystems.from_options(options.completed(file.parent))


@pytest.mark.parametrize("name", JOBS)
def test_a_file_of_60_mb_is_cut_so_that_it_fits(name: str, file: Path) -> None:
    """Into the fewest partitions of at most 32 GiB, under the key that the job has then, and all of one height."""
    system = system_of(file, JOBS[name])
    heights = system.program.log_heights(system.partitions)
    engine, key = engine_of(system.params), system.key
    assert system.partitions == PARTITIONS[name]
    assert len(set(map(tuple, heights))) == 1
    whole, *_, streamed = engine.plans(key, heights[0])
    assert engine.fits(key, heights)
    assert whole.peak <= PARTITION_BYTES <= CARDS["80 GB"]
    assert (streamed.peak <= CARDS["24 GB"]) == (name != "multilinear, size")
    fewer = system.program.log_heights(system.partitions - 1)
    assert not engine.fits(engine.laid_out(key, fewer, JOBS[name].get("prefer", "speed")), fewer)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("partitions", [1, 43, 64, 1000, 1024, 4096])
def test_no_partition_grows_with_their_number(partitions: int, layout: str, file: Path) -> None:
    """Each hashes as many nodes as leaves. The last one would be 8 times as tall if it hashed all nodes above them."""
    heights = FileRoot(str(file), layout).log_heights(partitions)
    leaves = math.ceil(BYTES / 128 / partitions * 65 / 64)  # the longest partition is 1/64 above the mean
    assert max(map(tuple, heights)) <= LAYOUTS[layout]().log_heights(2 * leaves)


@pytest.mark.parametrize("engine_name", ["fri", "multilinear"])
def test_a_small_file_on_a_small_device(engine_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a smaller limit of a partition a small file is cut, and proven streamed, and its root is the same."""
    (tmp_path / "file").write_bytes(bytes(range(70)) * 10)
    limit = (PARTITION_BYTES >> 11) + (CONSTANT_BYTES if engine_name == "multilinear" else 0)
    for module in (plan, memory):
        monkeypatch.setattr(module, "PARTITION_BYTES", limit)
    system = system_of(tmp_path / "file", {"engine": engine_name, "security": 20, "grinding": 4})
    engine, heights = engine_of(system.params), max(map(tuple, system.program.log_heights(system.partitions)))
    assert system.partitions > 1
    whole, *_, streamed = engine.plans(system.key, heights)
    assert whole.peak <= limit
    found = {}
    for kind, room in (("whole", (system.partitions + 1) * whole.peak), ("streamed", streamed.peak)):
        with CpuBackend(threads=2) as backend:
            info = replace(backend.info(), memory_budget=room + room // 32)
            monkeypatch.setattr(backend, "info", lambda info=info: info)
            prover = system.prover({}, backend)
            work = [(part, system.synthesiser({}, 1).synthesise(part)) for part in system.plan()]
            challenge = system.draw_challenge([prover.commit(*each) for each in work])
            made = [prover.prove_partition(*each, challenge) for each in work]
        uses = [times.memory for _, times in made if times.memory is not None]
        assert kind in {use.plan for use in uses}, "the tallest need it"
        assert max(use.predicted for use in uses) <= usable(info.memory_budget)
        found[kind] = [proof for proof, _ in made]
        system.verify_job(found[kind])
        assert all(map(system.verify, found[kind]))
        said = system.program.explain([proof.public for proof in found[kind]], [])
        assert said["root"] == FileTree(tmp_path / "file").root.hex()
    assert [canonical.encode(p.data) for p in found["whole"]] == [canonical.encode(p.data) for p in found["streamed"]]


LARGE: Mapping[str, Mapping[str, int | str]] = {
    "keccak-f": {"permutations": 43690},
    "wide-fibonacci": {"rows": 1 << 21, "width": 128},
}
"""Jobs of one partition, whose tables have 2^20 rows of 2,330 columns and 2^21 of 128."""


@pytest.mark.parametrize(
    ("name", "engine_name", "plans"),
    [
        ("keccak-f", "fri", {"24 GB": "streamed", "80 GB": "whole", "H200": "whole"}),
        ("keccak-f", "multilinear", {"24 GB": None, "80 GB": None, "H200": "whole"}),
        ("wide-fibonacci", "fri", dict.fromkeys(CARDS, "whole")),
        ("wide-fibonacci", "multilinear", dict.fromkeys(CARDS, "whole")),
    ],
)
def test_large_partitions_on_cards(name: str, engine_name: str, plans: Mapping[str, str | None]) -> None:
    """Each card takes the fastest plan that fits. Without one it says what is needed and what there is."""
    program, engine = load_program(name, dict(LARGE[name])), engine_named(engine_name)
    key = engine.compile_key(program, engine.choose(program, 1))
    (heights,) = program.log_heights(1)
    for card, room in CARDS.items():
        fitting = [known.name for known in engine.plans(key, tuple(heights)) if known.peak <= room]
        assert (fitting or [None])[0] == plans[card]
        if not fitting:
            with pytest.raises(OutOfMemory, match=r"needs 80\.\d GiB, streamed; the device has .* smaller partitions"):
                choose(Shape(key, tuple(heights)), room)
