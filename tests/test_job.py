"""Jobs from TOML and options: expansion of inputs, names, and errors that say what to write instead."""

from __future__ import annotations

import codecs
import glob
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.service.client import request_of
from distprove.errors import InputError, UsageError
from distprove.formats import patterns
from distprove.formats.names import MAX_LENGTH, is_name, name_after, natural_key, unique
from distprove.formats.patterns import Search
from distprove.job import Job
from distprove.jobfile import _value
from distprove.options import expand
from distprove.settings import ExecutorSettings, parse_bytes
from distprove.stark.options import StarkOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inputs").mkdir()
    for name in ("in10.json", "in2.json", "in1.json", "notes.txt"):
        (tmp_path / "inputs" / name).write_text("{}")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "a.wtns").write_bytes(b"")
    (tmp_path / "c.zkey").write_bytes(b"")
    (tmp_path / "c.wasm").write_bytes(b"")
    return tmp_path


def job(folder: Path, text: str) -> Job:
    path = folder / "job.toml"
    path.write_text(text)
    return Job.from_toml(path)


GOOD = 'system = "groth16"\nzkey = "c.zkey"\nwasm = "c.wasm"\ninputs = ["inputs/*.json"]\n'


def test_a_job_file(folder: Path) -> None:
    executor = 'threads = 3\nmemory = "2GiB"\ndevice_memory = "3 GiB"\nlocal = true\n'
    made = job(folder, GOOD + 'title = "t"\n[executor]\n' + executor)
    assert made.options.zkey == folder / "c.zkey"
    assert [source.name for source in made.sources] == ["in1", "in2", "in10"]
    assert made.executor == ExecutorSettings(local=True, threads=3, memory=2 << 30, device_memory=3 << 30)
    assert made.title == "t"
    assert Job.from_record(made.to_record()) == made


def test_options_and_file_agree(folder: Path) -> None:
    by_hand = Job.from_options("groth16", zkey="c.zkey", wasm=folder / "c.wasm", inputs="inputs", base=folder)
    assert by_hand == job(folder, GOOD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no `system`"),
        ('sistem = "groth16"', "unknown key `sistem`; did you mean `system`?"),
        ('system = ["groth16"]', "unknown proof system ['groth16']"),
        ('system = "groth61"', "unknown proof system 'groth61'; did you mean `groth16`?"),
        (GOOD.replace("zkey", "zkye"), "unknown key `zkye`; did you mean `zkey`?"),
        (GOOD + "[executor]\nthread = 1", "unknown key `executor.thread`; did you mean `threads`?"),
        (GOOD + "[executor]\nthreads = true", "`executor.threads` must be an integer, not true or false"),
        (GOOD + "[executor]\nthreads = 0", "threads must be at least 1"),
        (GOOD + '[executor]\nmemory = "lots"', "'lots' is not a size"),
        (GOOD + "[executor]\ndevice_memory = 1000", "device_memory must be at least"),
        (GOOD + '[executor]\nlocal = true\naddress = "auto"', "local and address exclude each other"),
        (GOOD + "executor = 1", "`executor` must be a table, not an integer"),
        (GOOD.replace('"c.zkey"', "1"), "`zkey` must be a string, not an integer"),
        (GOOD.replace('["inputs/*.json"]', "[1]"), "inputs must be a list of strings"),
        (GOOD.replace('zkey = "c.zkey"', ""), "no `zkey`"),
        (GOOD + 'witnesses = ["w"]', "either `inputs`"),
        (GOOD.replace('wasm = "c.wasm"', ""), "go together"),
        (GOOD + 'circuit = "filecoin/porep-2KiB"', "`wasm` and `circuit` exclude each other"),
        (GOOD.replace('wasm = "c.wasm"', 'circuit = "filecoin/porep-2KB"'), "did you mean `filecoin/porep-2KiB`?"),
    ],
)
def test_misuse_is_a_usage_error(text: str, message: str, folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        job(folder, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(folder / "job.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= 1", "not a TOML file"),
        ("a = " + "[" * 50_000, "job.toml"),
        (GOOD.replace("c.zkey", "missing.zkey"), "zkey: no file at"),
        (GOOD.replace("c.zkey", "w"), "w is a folder, not a file"),
        (GOOD.replace("inputs/*", "inputs/x*"), "inputs/x*.json: no file matches"),
        (GOOD.replace("inputs/*.json", "w"), "w: folder without .json files"),
    ],
)
def test_bad_files_are_input_errors(text: str, message: str, folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        job(folder, text)
    assert message in str(caught.value)


def test_a_missing_job_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Job.from_toml(tmp_path / "none.toml")


def test_expansion_keeps_the_order_given_and_counts_a_file_once(folder: Path) -> None:
    found = expand(["inputs/in2.json", "inputs", "inputs/in?.json"], folder, ".json")
    assert [source.name for source in found] == ["in2", "in1", "in10"]


def test_equal_names_are_told_apart(folder: Path) -> None:
    for place in ("a", "b", "c"):
        (folder / place).mkdir()
        (folder / place / "x.json").write_text("{}")
    (folder / "a" / "x-2.json").write_text("{}")
    found = expand(["a", "b", "c"], folder, ".json")
    assert {source.path.parent.name + "/" + source.path.stem: source.name for source in found} == {
        "a/x-2": "x-2",
        "a/x": "x",
        "b/x": "x-3",
        "c/x": "x-4",
    }


def test_a_link_is_named_as_given(folder: Path) -> None:
    (folder / "alias.json").symlink_to(folder / "inputs" / "in1.json")
    assert [source.name for source in expand(["alias.json"], folder, ".json")] == ["alias"]


def test_patterns_match_what_glob_matches(tmp_path: Path) -> None:
    for name in ("a/x.json", "a/b/x.json", "a/b/.y.json", ".h/x.json", "c/[1].json", "c/1.json", "x.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "l").symlink_to("a/b")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "self").symlink_to("self")
    plain = [
        "*.json",
        "*/x.json",
        "?/*/*.json",
        ".*/*.json",
        "a/b/.*",
        "c/[[]1].json",
        "[!a]/*",
        "a/../*/x.json",
        "*/..",
    ]
    for pattern in (*plain, f"{tmp_path}/a/*.json", "none/*", "x.json/*", "*/b/x.json"):
        found = [path for path in Search().matches(tmp_path, pattern) if path.is_file()]
        glob_has = [tmp_path / match for match in glob.glob(pattern, root_dir=tmp_path)]
        assert sorted(found) == sorted(path for path in glob_has if path.is_file())
    for pattern in ("**/*.json", "**", "a/**/x.json", "**/b/**"):  # glob goes round by `up`, forty times
        found = [path for path in Search().matches(tmp_path, pattern) if path.is_file()]
        glob_has = [tmp_path / match for match in glob.glob(pattern, root_dir=tmp_path, recursive=True)]
        assert {path.resolve() for path in found} == {path.resolve() for path in glob_has if path.is_file()}


@pytest.mark.parametrize("pattern", ["*/../" * 20 + "x", "**/none", "**/" * 100, "*/" * 1000, "*"])
def test_a_pattern_has_a_job_look_at_no_more_than_it_may(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these was looked for without an end, or until Python's stack was full."""
    monkeypatch.setattr(patterns, "MAX_LOOKS", 10_000)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "back").symlink_to("..")
    with pytest.raises(InputError, match=r"too many files and folders|at most 128 parts|no file matches"):
        expand([pattern] * 3000, tmp_path, ".json")


@pytest.mark.parametrize(
    "line",
    [
        "inputs = " + "9" * 5000,
        'executor = "threads"',
        'arguments = "x"',
        'inputs = ["' + "n" * 300 + '"]',
        'inputs = ["' + "n/" * 3000 + '"]',
        'inputs = ["a\\u0000b"]',
        'vk = "' + "n" * 300 + '"',
    ],
    ids=lambda line: line[:24],
)
def test_what_a_job_file_may_hold_is_refused_with_its_name(folder: Path, line: str) -> None:
    text = "".join(kept + "\n" for kept in GOOD.splitlines() if kept.partition(" ")[0] != line.partition(" ")[0])
    with pytest.raises((UsageError, InputError), match=r"job\.toml: "):
        job(folder, f"{text}{line}\n")


def test_a_job_file_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.toml")
    with pytest.raises(InputError, match="not a regular file"):
        Job.from_toml(tmp_path / "job.toml")


@pytest.mark.parametrize("part", ["options", "executor", "title"])
@pytest.mark.parametrize("value", ["text", 3, None, [["a"]], {"a": 1}])
def test_a_record_with_other_things_for_tables_is_refused(folder: Path, part: str, value: object) -> None:
    record = job(folder, GOOD).to_record() | {part: value}
    if part == "title":
        assert Job.from_record(record).title == str(value)
        return
    with pytest.raises(InputError):
        Job.from_record(record)


def test_a_record_whose_files_are_gone_is_refused(folder: Path) -> None:
    record = job(folder, GOOD).to_record()
    (folder / "inputs" / "in2.json").unlink()
    with pytest.raises(InputError, match="input in2: no file"):
        Job.from_record(record)
    with pytest.raises(InputError, match="not the record of a job"):
        Job.from_record({"system": "groth16"})


@pytest.mark.parametrize("way", ["file", "record"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("in_flight", 2.5),
        ("in_flight", 10**6),
        ("threads", "8"),
        ("threads", 10**6),
        ("gpus", -1),
        ("synthesisers", 10**5),
        ("gpu_workers", 10**4),
        ("parallel", True),
        ("parallel", 1 << 40),
        ("max_retries", 10**9),
        ("memory", 1 << 70),
        ("device_memory", {"a": 1}),
        ("start_timeout", 1e99),
        ("start_timeout", "600"),
        ("local", "no"),
        ("isolate", 1),
        ("address", 7),
        ("backend", ["cpu"]),
        ("throttle", {"threads": 10**9}),
        ("throttle", {"threads": 1.5}),
        ("throttle", "threads"),
        ("workers", 3),
    ],
)
def test_settings_of_a_record_and_of_a_file_are_checked_alike(folder: Path, way: str, key: str, value: object) -> None:
    """A run that was sent would else choose how many processes are started, or fail deep inside of a session."""
    record = job(folder, GOOD).to_record()
    record["executor"][key] = value
    ways: dict[str, Callable[[], Job]] = {
        "file": lambda: job(folder, f"{GOOD}[executor]\n{key} = {_value(value)}\n"),
        "record": lambda: Job.from_record(json.loads(json.dumps(record))),
    }
    with pytest.raises(InputError if way == "record" else UsageError, match=key):
        ways[way]()


@given(st.lists(st.text(min_size=1, max_size=200), max_size=20))
def test_names_are_names_and_unique(stems: list[str]) -> None:
    files = [Path("/folder") / (stem.replace("/", "_").replace("\0", "_") + ".json") for stem in stems]
    names = unique([name_after(file) for file in files])
    assert all(is_name(name) and len(name) <= MAX_LENGTH for name in names)
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("vote-1.json", "vote-1"),
        ("vote 1.json", "vote_1"),
        ("ä.json", "a"),
        ("a\u0308.json", "a"),  # the same letter in two characters, as some file systems have it
        ("Größe.json", "Grou00dfe"),
        ("表.json", "u8868"),
        ("表1.json", "u88681"),
        ("²ﬁ.json", "2fi"),
        ("a(1).b.json", "a_1_.b"),
        ("-x.json", "_-x"),
        ("\udce4.json", "_"),  # not UTF-8
    ],
)
def test_a_name_keeps_what_it_can_of_its_file(file: str, name: str) -> None:
    assert name_after(Path("/folder") / file) == name


def test_a_file_whose_own_name_fits_keeps_it(folder: Path) -> None:
    for name in ("ä", "a", "á"):
        (folder / "w" / f"{name}.json").write_text("{}")
    made = expand(["w"], folder, ".json")
    assert {file.path.stem: file.name for file in made} == {"a": "a", "á": "a-2", "ä": "a-3"}


@given(st.lists(st.integers(0, 10**6), unique=True))
def test_natural_order_is_numeric(numbers: list[int]) -> None:
    paths = [Path(f"in{number}.json") for number in numbers]
    assert sorted(paths, key=natural_key) == [Path(f"in{number}.json") for number in sorted(numbers)]


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "a\\b", "a b", "-x", "x" * 121, "é", "a\n", 7, None])
def test_what_is_no_name(name: object) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("48GiB", 48 << 30), ("500 MB", 500_000_000), ("1.5k", 1500), ("2TiB", 2 << 40)]
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "x", "1ib", "-1", "1e9", "9" * 30, "GiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


STARK = 'system = "stark"\nprogram = "fibonacci"\npartitions = 3\narguments = { rows = "2^10" }\n'


def test_a_stark_job_file(folder: Path) -> None:
    made = job(folder, STARK + "blowup = 4\nsecurity = 100\n")
    assert isinstance(made.options, StarkOptions)
    assert made.options.arguments == {"rows": 1024, "first": 0, "second": 1}
    assert (made.options.partitions, made.options.blowup, made.options.security) == (3, 4, 100)
    assert made.sources == ()
    assert Job.from_record(json.loads(json.dumps(made.to_record()))) == made
    flags = {"partitions": 3, "blowup": 4, "security": 100, "queries": None}
    assert Job.from_options("stark", program="fibonacci", arguments={"rows": 1024}, **flags) == made


def test_files_of_a_program_are_relative_to_the_job_file_and_must_exist(folder: Path) -> None:
    text = 'system = "stark"\nprogram = "file-root"\narguments = { file = "c.zkey" }\n'
    made = job(folder, text)
    assert [(s.name, s.path) for s in made.sources] == [("file", folder / "c.zkey")]
    with pytest.raises(InputError, match="file: no file at"):
        job(folder, text.replace("c.zkey", "missing"))
    with pytest.raises(InputError, match="w is a folder, not a file"):
        job(folder, text.replace("c.zkey", "w"))
    record = made.to_record()
    (folder / "c.zkey").unlink()
    with pytest.raises(InputError, match="file: no file at"):
        Job.from_record(record)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "stark"', "no `program`"),
        (STARK + "blowups = 2", "unknown key `blowups`; did you mean `blowup`?"),
        (STARK + 'zkey = "c.zkey"', "unknown key `zkey`"),
        (STARK + "rows = 64", "unknown key `rows`; a program's own stand in the table `arguments`; known: system"),
        (STARK + "blowup = 3", "blowup must be 2, 4 or 8, not 3"),
        (STARK + "security = 129", "security must be at most 128"),
        (STARK + "grinding = 33", "grinding must be at most 32"),
        (STARK.replace("partitions = 3", "partitions = 0"), "partitions must be at least 1"),
        (STARK.replace("partitions = 3", 'partitions = "3"'), '`partitions` must be an integer or "auto", not'),
        (STARK.replace("rows", "row"), "has no argument row; did you mean `rows`?"),
        (STARK.replace('"2^10"', "1.5"), "`arguments.rows` must be an integer or a string"),
        (STARK.replace("fibonacci", "fibonaci"), "did you mean `fibonacci`?"),
        ('system = "stark"\nprogram = "file-root"', "needs the argument file"),
    ],
)
def test_misuse_of_a_stark_job(text: str, message: str, folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        job(folder, text)
    assert message in str(caught.value)


def test_a_damaged_record_of_a_stark_job_is_refused(folder: Path) -> None:
    record = job(folder, STARK).to_record()
    for key, value in (("program", None), ("arguments", 7), ("partitions", "2"), ("more", 1)):
        with pytest.raises(InputError, match="not the record of a job"):
            Job.from_record({**record, "options": {**record["options"], key: value}})
    with pytest.raises(InputError, match="not the record of a job"):
        Job.from_record({**record, "options": {}})


def test_a_record_that_is_older_than_a_setting_is_of_the_same_job(folder: Path) -> None:
    """A run could not be resumed after an update that had brought a new setting."""
    made = job(folder, STARK)
    record = made.to_record()
    options = {name: value for name, value in record["options"].items() if name not in ("tree_wires", "one_proof")}
    assert Job.from_record({**record, "options": options}) == made
    with pytest.raises(InputError, match="not the record of a job"):
        Job.from_record({**record, "options": {"unknown": 1, **options}})


NUMBERS = {"9007199254740993.0": "9007199254740993", "1e3": "1000", "5.0": "5"}
ROUNDED = ("1.00000000000000000001", "1e-400", "4503599627370497.4")


def inputs_of(text: str, tmp_path: Path) -> bytes | None:
    """The content that a job file's input of that text stands for."""
    for name in ("k.zkey", "c.wasm"):
        (tmp_path / name).touch()
    job = tmp_path / "job.toml"
    job.write_text(f'system = "groth16"\nzkey = "k.zkey"\nwasm = "c.wasm"\ninputs = [{{ a = [1, {text}] }}]\n')
    [source] = Job.from_toml(job).options.sources
    return source.content


@pytest.mark.parametrize("text", NUMBERS)
def test_an_input_in_a_job_file_is_what_its_text_says(text: str, tmp_path: Path) -> None:
    assert inputs_of(text, tmp_path) == f'{{"a": [1, {NUMBERS[text]}]}}'.encode()


@pytest.mark.parametrize("text", [*ROUNDED, "inf", "nan"])
def test_an_input_in_a_job_file_is_not_rounded(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exact integers"):
        inputs_of(text, tmp_path)


@pytest.mark.parametrize("value", [float((1 << 53) + 1), 1e22, -1e16, float("nan")])
def test_a_float_of_python_that_may_have_been_rounded_is_no_input(value: float, tmp_path: Path) -> None:
    for name in ("k.zkey", "c.wasm"):
        (tmp_path / name).touch()
    files = {"zkey": str(tmp_path / "k.zkey"), "wasm": str(tmp_path / "c.wasm")}
    with pytest.raises(InputError, match="exact integers"):
        Job.from_options("groth16", inputs=[{"a": [value]}], **files)
    assert Job.from_options("groth16", inputs=[{"a": [5.0, "1e20"]}], **files)


# -- every name that is given is proven, or named as not ---------------------------------------------------------------


def test_each_link_to_a_file_is_an_input_of_its_own(folder: Path) -> None:
    (folder / "links").mkdir()
    for name in ("p0", "p1", "p2"):
        (folder / "links" / f"{name}.json").symlink_to(folder / "inputs" / "in1.json")
    (folder / "again").symlink_to("links")
    names = [source.name for source in expand(["links", "links/p1.json", "./links/p2.json"], folder, ".json")]
    assert names == ["p0", "p1", "p2"]
    twice = expand(["links/p0.json", "again/p0.json", "inputs/in1.json"], folder, ".json")
    assert [source.name for source in twice] == ["p0", "p0-2", "in1"]


def test_a_path_whose_way_up_leads_elsewhere_is_another_file(folder: Path) -> None:
    (folder / "far" / "inner").mkdir(parents=True)
    (folder / "far" / "in1.json").write_text("{}")
    (folder / "near").symlink_to("far/inner")
    (folder / "in1.json").write_text("{}")
    found = expand(["near/../in1.json", "in1.json"], folder, ".json")
    assert [source.path.resolve() for source in found] == [folder / "far" / "in1.json", folder / "in1.json"]


@pytest.mark.parametrize("pattern", ["inputs", "inputs/*.json", "inputs/gone.json", "**/*.json", "inputs/g*"])
@pytest.mark.parametrize("target", ["/nowhere/share/gone.json", "gone.json"])
def test_a_link_to_nothing_is_an_error(folder: Path, pattern: str, target: str) -> None:
    (folder / "inputs" / "gone.json").symlink_to(target)
    with pytest.raises(InputError, match=r"inputs/gone\.json.* a link to (nothing|itself)"):
        expand([pattern], folder, ".json")


@pytest.mark.parametrize("pattern", ["inputs", "inputs/*", "**"])
def test_what_is_no_file_is_named_and_left_out(folder: Path, pattern: str) -> None:
    os.mkfifo(folder / "inputs" / "pipe.json")
    (folder / "inputs" / "sub.json").mkdir()
    left: list[str] = []
    found = expand([pattern], folder, ".json", left)
    assert {source.name for source in found} >= {"in1", "in2", "in10"}
    assert not {source.name for source in found} & {"pipe", "sub"}
    assert f"{folder}/inputs/pipe.json (a pipe)" in left
    assert f"{folder}/inputs/sub.json (a folder)" in left


def test_what_has_another_ending_in_a_folder_is_named(folder: Path) -> None:
    for name in ("X.JSON", "w.wtns", ".json", ".hidden.json"):
        (folder / "inputs" / name).write_text("{}")
    left: list[str] = []
    assert ".hidden" in {source.path.stem for source in expand(["inputs"], folder, ".json", left)}
    assert {Path(each.split(" (")[0]).name for each in left} == {"X.JSON", "w.wtns", ".json", "notes.txt"}
    assert all(each.endswith("(does not end in .json)") for each in left)


def test_a_folder_that_leads_nowhere_is_named_by_patterns_through_it(folder: Path) -> None:
    (folder / "inputs" / "share").symlink_to("/nowhere/share")
    for pattern in ("**/*.json", "inputs/**/*.json"):
        left: list[str] = []
        assert len(expand([pattern], folder, ".json", left)) == 3
        assert left == [f"{folder}/inputs/share (a link to nothing)"]


def test_what_is_left_out_of_a_job_is_kept_in_its_record_and_bounded(folder: Path) -> None:
    for number in range(1000):
        (folder / "inputs" / f"{number}.txt").write_text("")
    made = job(folder, GOOD.replace("inputs/*.json", "inputs"))
    assert len(made.left_out) == 21
    assert made.left_out[-1] == "981 more"
    again = Job.from_record(json.loads(json.dumps(made.to_record())))
    assert again.left_out == made.left_out
    assert Job.from_record({k: v for k, v in made.to_record().items() if k != "left_out"}).left_out == ()


@pytest.mark.parametrize("key", ["zkey", "wasm", "inputs"])
def test_a_pipe_is_called_one(folder: Path, key: str) -> None:
    os.mkfifo(folder / "pipe")
    table = {"zkey": "c.zkey", "wasm": "c.wasm", "inputs": ["inputs/*.json"]}
    with pytest.raises(InputError, match=r"pipe.* is a pipe, not a file"):
        Job.from_options("groth16", base=folder, **{**table, key: "pipe"})  # type: ignore[arg-type]


# -- encodings ---------------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_a_job_file(folder: Path) -> None:
    (folder / "job.toml").write_bytes(codecs.BOM_UTF8 + GOOD.encode())
    assert Job.from_toml(folder / "job.toml") == job(folder, GOOD)
    (folder / "job.toml").write_bytes(codecs.BOM_UTF8 + GOOD.encode())
    assert request_of(folder / "job.toml").job["system"] == "groth16"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_a_job_file_of_another_encoding_is_called_so(folder: Path, encoding: str) -> None:
    (folder / "job.toml").write_bytes(GOOD.encode(encoding))
    for reads in (Job.from_toml, request_of):
        with pytest.raises(InputError, match=r"job\.toml: a text of UTF-16 or UTF-32, or none; save it as UTF-8"):
            reads(folder / "job.toml")


def test_a_file_whose_name_is_not_utf8_is_an_input(folder: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.json")
    (folder / "inputs" / name).write_text("{}")
    made = job(folder, GOOD.replace("*.json", ""))
    assert made.sources[-1].name == "__"
    again = Job.from_record(json.loads(json.dumps(made.to_record())))
    assert again.sources[-1].path == folder / "inputs" / name


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a b.json", "a_b.json"], ["a_b-2", "a_b"]),
        (["a\nb.json", "a b.json", "a_b.json"], ["a_b-2", "a_b-3", "a_b"]),
        (["é.json", "_.json", "e\u0301.json"], ["e", "_", "e-2"]),
        (["x" * 125 + ".json", "x" * 120 + ".json"], ["x" * 118 + "-2", "x" * 120]),
        (["A.json", "a.json", "a-2.json"], ["A", "a-3", "a-2"]),
        (["A b.json", "a_B.json"], ["A_b-2", "a_B"]),
        (["..json", "...json", "_.json", "_..json"], ["_.-2", "_..", "_", "_."]),
    ],
)
def test_who_has_a_name_by_right_keeps_it(tmp_path: Path, files: list[str], names: list[str]) -> None:
    for file in files:
        (tmp_path / file).write_text("{}")
    assert [source.name for source in expand(files, tmp_path, ".json")] == names


def test_many_files_of_one_name_are_named_in_time_that_grows_with_their_number() -> None:
    """A count of comparisons, not of seconds: each name is tried once, and not from the first number on."""

    class Counted(str):
        tried = 0

        def lower(self) -> str:
            Counted.tried += 1
            return super().lower()

    assert unique([Counted("x")] * 3000)[-1] == "x-3000"
    assert Counted.tried < 10_000


@pytest.mark.parametrize(
    "options", [{"partitions": np.int64(2)}, {"partitions": np.array([])}, {"security": np.float64(9)}]
)
def test_numbers_of_numpy_are_no_options(options: dict[str, Any]) -> None:
    """They are compared elementwise, which ended in a ValueError of NumPy's."""
    with pytest.raises(UsageError, match="must be an integer"):
        Job.from_options("stark", program="fibonacci", **options)
