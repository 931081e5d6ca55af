"""Filecoin's own verifier accepts the bytes of our proofs, under a key of ours, and refuses changed ones.

The order of wires is the key's: what is judged are the public inputs, which both sides derive, and the bytes.
`cargo build --release` in filecoin-judge makes the program; DISTPROVE_FILECOIN_JUDGE names one that is elsewhere.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

import distprove
from distprove.circuits.registry import circuit_maker
from distprove.groth16.params import vk_beside
from distprove.groth16.r1cs import write_r1cs
from distprove.groth16.setup import setup
from kernels.cpu.backend import CpuBackend

BUILT = Path(__file__).parent / "filecoin-judge" / "target" / "release" / "filecoin-judge"
JUDGE = Path(os.environ.get("DISTPROVE_FILECOIN_JUDGE", BUILT))
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not JUDGE.exists(), reason="no filecoin-judge: cargo build --release makes it"),
]

LARGE = pytest.mark.skipif(
    os.environ.get("DISTPROVE_LONG") != "1", reason="makes a key of two million wires: DISTPROVE_LONG=1 has it run"
)


def asked(folder: Path, *arguments: object) -> str:
    """What the judge prints, in whatever way it ends."""
    caches = {f"FIL_PROOFS_{name}_CACHE": str(folder / name.lower()) for name in ("PARAMETER", "PARENT")}
    command = [str(JUDGE), *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **caches}, stdout=subprocess.PIPE, text=True, check=False).stdout


def proved(folder: Path, what: str, circuit: str, **options: Any) -> Path:
    """The run of a job under a new key, whose verifying key is where the judge looks for it."""
    params, r1cs = folder / "key.params", folder / "key.r1cs"
    built = circuit_maker(circuit)().build().r1cs
    with CpuBackend(threads=2) as cpu:
        setup(built, insecure_dev=True, backend=cpu, out=params)
    write_r1cs(r1cs, built)
    place = Path(asked(folder, "vk", what).strip())
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(vk_beside(params).read_bytes())
    local = {"local": True, "isolate": False}
    keys = {"params": params, "r1cs": r1cs}
    return distprove.prove(system="filecoin", out=folder / "run", executor=local, **keys, **options).run


def judge(folder: Path, facts: dict[str, Any], content: bytes) -> bool:
    (folder / "judged.bin").write_bytes(content)
    (folder / "judged.json").write_text(json.dumps(facts))
    return asked(folder, "verify", folder / "judged.json", folder / "judged.bin").strip() == "true"


def judge_all(folder: Path, run: Path, facts: dict[str, Any], changes: list[dict[str, Any]]) -> None:
    """The bytes of a run hold for these facts; with any bit changed, or for changed facts, they do not."""
    content, random = (run / "proof.bin").read_bytes(), Random(1)
    assert judge(folder, facts, content)
    for place in random.sample(range(len(content)), 8):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << random.randrange(8)
        assert not judge(folder, facts, bytes(spoilt)), place
    assert not judge(folder, facts, content[:-192] + content[:192] if len(content) > 192 else content[:-1])
    for change in changes:
        assert not judge(folder, {**facts, **change}, content), change


def flipped(text: str) -> str:
    return f"{int(text[:2], 16) ^ 1:02x}{text[2:]}"


def test_a_window_post_is_accepted(tmp_path: Path) -> None:
    sectors = [tmp_path / name for name in ("a", "b", "c")]
    for sector in sectors:
        asked(tmp_path, "seal", sector, "StackedDrg2KiBV1_1")
    asked(tmp_path, "window", *sectors)
    facts = json.loads((sectors[0] / "window-facts.json").read_text())
    run = proved(
        tmp_path,
        "window",
        "filecoin/window-post-2KiB",
        window_post=sectors[0] / "window-raw.json",
        randomness=facts["randomness"],
    )
    others = [{**each, "sector": each["sector"] ^ 1} for each in facts["sectors"]]
    judge_all(tmp_path, run, facts, [{"randomness": flipped(facts["randomness"])}, {"sectors": others}])


def test_a_winning_post_is_accepted(tmp_path: Path) -> None:
    sector = tmp_path / "sector"
    asked(tmp_path, "seal", sector, "StackedDrg2KiBV1_1")
    asked(tmp_path, "winning", sector)
    facts = json.loads((sector / "winning-facts.json").read_text())
    options = {"winning_post": sector / "winning-raw.json", "randomness": facts["randomness"]}
    run = proved(tmp_path, "winning", "filecoin/winning-post-2KiB", **options)
    (own,) = facts["sectors"]
    changes = [{"randomness": flipped(facts["randomness"])}, {"sectors": [{**own, "sector": own["sector"] ^ 1}]}]
    judge_all(tmp_path, run, facts, changes)


@LARGE
def test_a_seal_is_accepted(tmp_path: Path) -> None:
    sector = tmp_path / "sector"
    asked(tmp_path, "seal", sector, "StackedDrg2KiBV1_1")
    facts = json.loads((sector / "facts.json").read_text())
    run = proved(
        tmp_path,
        "porep",
        "filecoin/porep-2KiB",
        c1=sector / "c1-lotus.json",
        prover_id="f01000",
        sector=facts["sector"],
    )
    names = ("prover_id", "ticket", "seed", "comm_r", "comm_d")
    changes = [{name: flipped(facts[name])} for name in names]
    judge_all(tmp_path, run, facts, [*changes, {"sector": facts["sector"] + 1}])


@LARGE
def test_an_update_is_accepted(tmp_path: Path) -> None:
    sector = tmp_path / "sector"
    asked(tmp_path, "seal", sector, "StackedDrg2KiBV1_1", "zero")
    asked(tmp_path, "update", sector)
    facts = json.loads((sector / "update-facts.json").read_text())
    run = proved(tmp_path, "update", "filecoin/snap-deals-2KiB", update=sector / "update-raw.json")
    names = ("comm_r_old", "comm_r_new", "comm_d_new")
    judge_all(tmp_path, run, facts, [{name: flipped(facts[name])} for name in names])
