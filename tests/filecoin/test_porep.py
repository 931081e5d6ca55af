"""C1 outputs of sectors that filecoin-proofs sealed hold and satisfy the circuit; changed ones are refused."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from distprove.circuits.registry import witness_program
from distprove.errors import FormatError, InputError, UnsatisfiedWitness, UsageError, VanillaMismatch
from distprove.filecoin.c1 import parse_c1, read_c1
from distprove.filecoin.kinds import read_given
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.porep import check_vanilla, circuit_inputs
from distprove.filecoin.sectors import SEAL_PROOFS
from kernels.cpu.backend import CpuBackend
from kernels.maths.encoding import unpack
from tests.filecoin.made_c1 import made_c1
from tests.filecoin.sectors import (
    SEALED,
    SHARED,
    c1_text,
    c1_value,
    facts_of,
    leaves,
    parsed,
    statement_of,
    with_change,
)

KIND = "StackedDrg2KiBV1_1"
PROOFS = ("vanilla_proofs", "StackedDrg2KiBV1", 0)


@pytest.mark.parametrize("kind", SEALED)
def test_a_sealed_sector_satisfies_the_circuit(kind: str) -> None:
    output = parse_c1(c1_text(kind), "c1.json")
    statement = statement_of(output, facts_of(kind))
    check_vanilla(statement, output.partitions)
    inputs = circuit_inputs(statement, 0, output.partitions[0])
    program = witness_program(statement.circuit)
    with CpuBackend(threads=2) as cpu:
        witness = program.witness(inputs, cpu)
        assert unpack(witness[1 : 1 + program.n_public]) == statement.public_inputs(0)
        with pytest.raises(UnsatisfiedWitness):
            program.witness({**inputs, "data_leaf": [x ^ 1 for x in inputs["data_leaf"]]}, cpu)


def test_a_sector_of_512_mib_is_read_and_checked() -> None:
    """Its trees have more levels, and nodes that several paths share."""
    proof = SEAL_PROOFS["StackedDrg512MiBV1_1"]
    value = made_c1(proof, random.Random(5))
    output = parsed(value)
    assert output.proof is proof
    check_vanilla(statement_of(output), output.partitions)
    first = value["vanilla_proofs"]["StackedDrg512MiBV1"][0][0]
    level = first["replica_column_proofs"]["exp_parents"][7]["inclusion_proof"]["data"]["Single"]["path"]["path"][6]
    level["hashes"][3][0] ^= 1
    output = parsed(value)
    told = r"challenge 0 \(node \d+\): exp_parents\[7\]: the path does not lead"
    with pytest.raises(VanillaMismatch, match=told):
        check_vanilla(statement_of(output), output.partitions)


def test_public_inputs_of_the_found_sector() -> None:
    if not SHARED.exists():
        pytest.skip("no shared/found/filecoin")
    output = read_c1(SHARED / "c1.json")
    assert output.assumed
    statement = statement_of(output)
    check_vanilla(statement, output.partitions)
    judged = [int.from_bytes(bytes.fromhex(x), "little") for x in json.loads((SHARED / "seal_inputs.json").read_text())]
    assert statement.public_inputs(0) == judged


def test_all_layouts_are_read_alike() -> None:
    named = parse_c1(c1_text(KIND), "c1.json")
    value = c1_value(KIND)
    plain = {name: each for name, each in value.items() if name != "registered_proof"}
    plain["vanilla_proofs"] = value["vanilla_proofs"]["StackedDrg2KiBV1"]
    assert parsed(plain, KIND) == named
    text = base64.b64encode(c1_text(KIND)).decode()
    wrapped = parsed({"SectorNum": 7, "Phase1Out": text, "SectorSize": 2048})
    assert (wrapped.sector, wrapped.partitions) == (7, named.partitions)
    with pytest.raises(VanillaMismatch, match="SectorSize is 4096"):
        parsed({"SectorNum": 7, "Phase1Out": text, "SectorSize": 4096})
    with pytest.raises(FormatError, match="Phase1Out: not base64"):
        parsed({"SectorNum": 7, "Phase1Out": text[:-1], "SectorSize": 2048})


def test_every_kind_of_number_is_checked() -> None:
    """One of each kind of number in the file is changed: the file is refused, by name of partition, challenge and field
    where it has them."""
    value, facts, drawn = c1_value(KIND), facts_of(KIND), random.Random(3)
    kinds: dict[str, list[tuple[str | int, ...]]] = {}
    for path in leaves(value):
        kinds.setdefault(re.sub(r"/\d+", "/*", "".join(f"/{key}" for key in path)), []).append(path)
    assert len(kinds) > 30
    for kind, paths in kinds.items():
        path = drawn.choice(paths)
        made = with_change(value, path, _changed)
        with pytest.raises(InputError) as raised:
            refuse(made, facts)
        if path[0] == "vanilla_proofs" and "root" not in path and "_h" not in path:
            challenge = path[3]
            assert re.search(rf"partition 0(,|:) challenge {challenge}\b", str(raised.value)), (kind, raised.value)


def refuse(value: dict[str, Any], facts: dict[str, Any]) -> None:
    """Read and check a C1 output that somebody changed."""
    output = parsed(value)
    check_vanilla(statement_of(output, facts), output.partitions)


def _changed(old: Any) -> Any:
    return old ^ 1 if isinstance(old, int) else 0 if old is None else "StackedDrg2KiBV1"


@pytest.mark.parametrize(
    ("path", "change", "told"),
    [
        (PROOFS[:-1], lambda x: x * 2, "2 partitions of StackedDrg2KiBV1_1, not 1"),
        (PROOFS, lambda x: x[:1], "partition 0: 1 challenges, not 2"),
        (PROOFS, lambda x: x[::-1], r"\): c_x: the column's index is"),
        (("comm_r",), lambda x: [255] * 32, "comm_r is not below the prime"),
        (("comm_d",), lambda x: [0] * 32, "comm_d is zero"),
        (("seed",), lambda x: [0] * 32, "the seed is zero"),
        (("seed",), lambda x: [256, *x[1:]], "seed is not a list of 32 bytes"),
        (("ticket",), lambda x: x[:31], "ticket is not a list of 32 bytes"),
        (("ticket",), lambda x: [True, *x[1:]], "true or false"),
        (("ticket",), lambda x: [1.5, *x[1:]], "ticket is not a list of 32 bytes"),
        (("ticket",), lambda x: [x[0] ^ 1, *x[1:]], "replica_id is not the hash"),
        (("registered_proof",), lambda x: "StackedDrg8MiBV1_1", "'StackedDrg8MiBV1' is missing"),
        (("registered_proof",), lambda x: "StackedDrg2KiBV2", "registered_proof is not a type"),
        ((*PROOFS, 1, "encoding_proof", "parents", 3), lambda x: [255] * 32,
         "partition 0: challenge 1: encoding_proof: a parent is not below the field's prime"),
        ((*PROOFS, 1, "comm_r_last_proof", "data"), lambda x: {"Sub": x["Single"]},
         "challenge 1: comm_r_last_proof: the field 'Single' is missing"),
        ((*PROOFS, 1, "comm_r_last_proof", "data", "Single", "path", "path", 0, "index"), lambda x: 8,
         "the index in level 0 is not an integer of 3 bits"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused(path: tuple[str | int, ...], change: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        refuse(with_change(c1_value(KIND), path, change), facts_of(KIND))


def test_the_replica_id_follows_from_prover_and_sector(tmp_path: Path) -> None:
    facts, text = facts_of(KIND), base64.b64encode(c1_text(KIND)).decode()
    plain, named = tmp_path / "c1.json", tmp_path / "c1-lotus.json"
    plain.write_bytes(c1_text(KIND))
    named.write_text(json.dumps({"SectorNum": facts["sector"], "Phase1Out": text, "SectorSize": 2048}))

    def stated(c1: Path, **options: Any) -> Any:
        return read_given(FilecoinOptions(zkey=c1, c1=c1, **options)).statement

    assert stated(named, prover_id="f01000") == stated(plain, prover_id=facts["prover_id"], sector=facts["sector"])
    assert stated(named, prover_id="f01000").sealed.sector == facts["sector"]
    assert stated(plain).sealed is None
    assert "not derived" in stated(named).says()["replica id"]
    for c1, options, told in (
        (plain, {"prover_id": "f01000"}, "give `prover_id` and `sector`"),
        (plain, {"sector": 5}, "give `prover_id` and `sector`"),
        (named, {"sector": 5}, rf"of sector {facts['sector']}, not 5"),
        (named, {"prover_id": "f01001"}, "replica_id is not the hash of this prover id"),
        (plain, {"prover_id": "f01000", "sector": 5}, "replica_id is not the hash of this prover id"),
        (plain, {"porep_id": "00" * 32}, "the column's index is|the path's index is"),
    ):
        with pytest.raises((UsageError, VanillaMismatch), match=told):
            stated(c1, **options)


def test_a_proof_type_that_is_not_the_files() -> None:
    with pytest.raises(VanillaMismatch, match="registered_proof is StackedDrg2KiBV1_1, not StackedDrg2KiBV1"):
        parsed(c1_value(KIND), "StackedDrg2KiBV1")
    with pytest.raises(UsageError, match="unknown proof type 'StackedDrg3KiBV1'"):
        parsed(c1_value(KIND), "StackedDrg3KiBV1")
    with pytest.raises(FormatError, match="not JSON, at byte"):
        parse_c1(b'{"vanilla_proofs": [', "c1.json")
