"""Vanilla proofs of PoSts and of an update that filecoin-proofs made hold and satisfy our circuits; changed ones are
refused."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distprove.circuits.registry import witness_program
from distprove.errors import FormatError, InputError, UsageError, VanillaMismatch
from distprove.filecoin.bincode import decoded, partition_proof, sector_proof
from distprove.filecoin.kinds import read_given, statement_of
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.post import PostStatement
from distprove.filecoin.sectors import POST_PROOFS
from distprove.filecoin.values import json_value
from kernels.cpu.backend import CpuBackend
from kernels.host.native import native
from kernels.maths.encoding import unpack
from tests.filecoin.sectors import judged, leaves, raw_vanilla, with_change, written

KINDS = ("winning_post", "window_post", "update")


def options_of(name: str, folder: Path, value: Any = None, **changed: Any) -> FilecoinOptions:
    """Options of a job, whose key is not read here."""
    text, facts = judged(name)
    path = written(folder / f"{name}.json", text if value is None else value)
    given = {name: path, "zkey": path, **changed}
    if "randomness" in facts:
        given.setdefault("randomness", facts["randomness"])
    made = FilecoinOptions(**given)
    made.check()
    return made


@pytest.mark.parametrize("name", KINDS)
def test_vanilla_proofs_satisfy_the_circuit(name: str, tmp_path: Path) -> None:
    given = read_given(options_of(name, tmp_path))
    statement, facts = given.statement, judged(name)[1]
    assert (statement.kind, statement.partitions) == (facts["kind"], {"window_post": 2}.get(name, 1))
    assert statement_of(statement.kind, statement.record()) == statement
    if name == "update":
        record = statement.record()
        assert {key: record[key].hex() for key in record if key != "proof_type"} == {
            key: facts[key] for key in ("comm_r_old", "comm_r_new", "comm_d_new")
        }
    program = witness_program(statement.circuit)
    with CpuBackend(threads=2) as cpu:
        for partition in range(statement.partitions):
            witness = program.witness(given.inputs(partition), cpu)
            assert unpack(witness[1 : 1 + program.n_public]) == statement.public_inputs(partition)


@pytest.mark.parametrize("name", KINDS)
def test_bincode_is_read_as_the_same(name: str) -> None:
    read = partition_proof if name == "update" else sector_proof
    raw = json.loads(raw_vanilla(name))
    assert [decoded(each, read) for each in raw] == judged(name)[0]
    content = base64.b64decode(raw[0])
    for spoilt, told in ((content[:-1], "within a value"), (content + b"0", "goes on after its value")):
        with pytest.raises(FormatError, match=told):
            read(spoilt)
    with pytest.raises(FormatError, match="not base64"):
        decoded(raw[0][:-1], read)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_number_is_checked(name: str, tmp_path: Path) -> None:
    value, drawn = judged(name)[0], Random(5)
    kinds: dict[str, list[tuple[str | int, ...]]] = {}
    for path in leaves(value):
        kinds.setdefault(re.sub(r"/\d+", "/*", "".join(f"/{key}" for key in path)), []).append(path)
    assert len(kinds) >= 8
    for kind, paths in kinds.items():
        options = options_of(name, tmp_path, with_change(value, drawn.choice(paths), lambda old: old ^ 1))
        if kind == "/*/sector_id" and name == "winning_post":
            continue  # of another sector: other challenges, as the next test has it
        with pytest.raises(InputError, match=r"sector|partition|comm_"):
            read_given(options)


def _challenge(value: Any, name: str) -> Any:
    return (
        value[0]["challenge_proofs"]
        if name == "update"
        else value[0]["vanilla_proof"]["sectors"][0]["inclusion_proofs"]
    )


@pytest.mark.parametrize("name", KINDS)
def test_too_few_challenges_are_refused(name: str, tmp_path: Path) -> None:
    value = judged(name)[0]
    _challenge(value, name).pop()
    with pytest.raises(FormatError, match=r"\d+ (inclusion_proofs|challenges), not \d+"):
        read_given(options_of(name, tmp_path, value))


@pytest.mark.parametrize(
    ("name", "change", "changed", "told"),
    [
        ("winning_post", lambda value: value * 2, {}, "distinct"),
        (
            "winning_post",
            lambda value: [{**value[0], "sector_id": 5}],
            {},
            "sector 5, challenge 0: the path's index is",
        ),
        ("winning_post", None, {"randomness": "11" * 32}, r"challenge \d+: the path's index is"),
        ("winning_post", None, {"randomness": "ff" * 32}, "randomness is not below the prime"),
        ("winning_post", None, {"proof_type": "StackedDrgWindow2KiBV1_2"}, "is no WinningPoSt"),
        ("window_post", None, {"proof_type": "StackedDrgWindow2KiBV1"}, "partition 0, sector .* the path's index is"),
        ("window_post", lambda value: [*value, value[0]], {}, "distinct"),
        ("window_post", lambda value: [], {}, "no path"),
        ("update", lambda value: value * 2, {}, "2 partitions of StackedDrg2KiBV1, not 1"),
        ("update", lambda value: value[0], {}, "a list of partitions"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    name: str, change: Callable[[Any], Any] | None, changed: dict[str, Any], told: str, tmp_path: Path
) -> None:
    value = None if change is None else change(judged(name)[0])
    with pytest.raises((VanillaMismatch, FormatError), match=told):
        read_given(options_of(name, tmp_path, value, **changed))


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        ("winning_post", {"randomness": "11"}, "`randomness` has 64"),
        ("winning_post", {"proof_type": "StackedDrg2KiBV1"}, "unknown proof type"),
        ("winning_post", {"sector": 5}, "`sector` is for `c1`"),
        ("update", {"randomness": "11" * 32}, "`randomness` and"),
        ("update", {"zkey": None}, "give either `zkey` or `params`"),
        ("update", {"update": None}, "give one of `c1`"),
    ],
)
def test_options_that_do_not_go_together(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        options_of(name, tmp_path, **changed)


def test_challenges_before_version_1_2_are_numbered_through_all_sectors() -> None:
    sectors = tuple((number, bytes([number] * 31 + [0])) for number in (3, 4, 5))
    old, new = (
        PostStatement(POST_PROOFS[f"StackedDrgWindow2KiB{version}"], bytes(32), sectors) for version in ("V1", "V1_2")
    )
    assert old.challenges(0) == new.challenges(0)
    assert old.challenges(1) != new.challenges(1)
    assert new.places(1) == [2, 2]


def _random_text(random: Random) -> str:
    """Text that is nearly JSON of lists of 32 bytes."""
    numbers = [str(random.randrange(256)) for _ in range(random.choice([32] * 6 + [31, 33]))]
    if random.random() < 0.3:
        numbers[random.randrange(len(numbers))] = random.choice(
            ["256", "-1", "007", "00", "1.0", "1e1", "[]", '"7"', "", "9999"]
        )
    space = random.choice(["", "", " ", "\n\t", " \r\n "])
    text = f"[{space}{f'{space},{space}'.join(numbers)}{space}]"
    return random.choice(
        [text, text, f'{{"a":{text}}}', json.dumps(text), f"[{text}", text[: random.randrange(len(text))]]
    )


@pytest.mark.parametrize("seed", range(20))
def test_lists_of_bytes_are_folded_and_nothing_else_is(seed: int) -> None:
    """What the fold writes means what Python's decoder reads, to the last value, and is no JSON where that is none."""
    random = Random(seed)
    for _ in range(200):
        pieces = [_random_text(random) for _ in range(random.randrange(1, 4))]
        text = random.choice(["[%s]", "%s", '{"x": [%s], "y": "\\"["}']) % ", ".join(pieces)
        folded = native.fold_octet_lists(text.encode(), 0x7F).decode()
        try:
            wanted = json.loads(text)
        except json.JSONDecodeError:
            with pytest.raises(json.JSONDecodeError):
                json.loads(folded)
            continue
        assert _with_lists(json.loads(folded)) == wanted
        assert folded.count("\x7f") == _lists_of_bytes(wanted)


def _with_lists(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("\x7f"):
        return list(int(value[1:], 16).to_bytes(32, "little"))
    if isinstance(value, list):
        return [_with_lists(each) for each in value]
    if isinstance(value, dict):
        return {name: _with_lists(each) for name, each in value.items()}
    return value


def _lists_of_bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_lists_of_bytes, value.values()))
    if not isinstance(value, list):
        return 0
    whole = len(value) == 32 and all(type(each) is int and 0 <= each < 256 for each in value)
    return 1 if whole else sum(map(_lists_of_bytes, value))


@pytest.mark.parametrize("text", ["\x7f" + "00" * 32, "\\u007f" + "00" * 32, "\\u007F"])
def test_a_text_does_not_pass_for_a_list_of_bytes(text: str) -> None:
    with pytest.raises(FormatError, match=re.escape("the control character U+007F")):
        json_value(f'["{text}"]'.encode())
