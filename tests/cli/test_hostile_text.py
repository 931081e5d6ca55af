"""Names and messages from files, as a terminal gets them: they cannot act on it, and cannot pose as our own words."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Group
from rich.progress import Progress as Bar
from rich.progress import TextColumn
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from cluster.scheduler.jobs import Progress
from cluster.service.views import JobState, JobView, KeyView, Overview, Priority, WorkerView
from distprove.cli import console as consoles
from distprove.cli import jobs
from distprove.cli.app import app
from distprove.cli.console import escape, fail, message, plain_table, warn
from distprove.cli.pages import html, svg
from distprove.cli.progress import NOTABLE, ProgressDisplay
from distprove.cli.safe_console import SafeConsole
from distprove.cli.summary import show_summary
from distprove.cli.top import screen
from distprove.errors import InputError
from distprove.formats import canonical, jsontext
from distprove.formats.visible import bounded, visible
from distprove.proof import Proof

ROOT = Path(__file__).resolve().parent.parent.parent
CONTROLS = "\x1b[2J\x1b[H\x07\x08\r\x7f\x9b2J\x00"
TURNS = "\u202e\u2066\u200f\ufeff\u2028\udc80"
MARKUP = "[bold green]verified[/] [link=http://x]y[/link] [/]"
HOSTILE = f"a{CONTROLS}b{TURNS}c{MARKUP}[/x\ny]\\\\\\"
SHOWN = "[bold green]verified[/]"


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def printed(show: Callable[[SafeConsole], object], terminal: bool = False, width: int = 5000) -> str:
    console = SafeConsole(
        file=StringIO(), width=width, force_terminal=terminal, highlight=False, color_system=None, legacy_windows=False
    )
    show(console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def is_harmless(text: str) -> bool:
    return visible(text, keep="\n") == text


def hostile(value: Any) -> Any:
    """A record with every string in it followed by the worst there is."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    return [hostile(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "renderable",
    [
        HOSTILE.replace("[/", "["),
        Text(HOSTILE),
        Text.from_markup(escape(HOSTILE)),
        Group("a", Text(HOSTILE)),
        svg.__name__ + CONTROLS,
    ],
)
def test_nothing_that_is_printed_acts_on_the_terminal(renderable: Any) -> None:
    shown = printed(lambda console: console.print(renderable))
    assert is_harmless(shown)
    assert "\\x1b" in shown


def test_tables_and_bars_neither() -> None:
    table = plain_table()
    table.add_column(CONTROLS)
    table.add_row(Text(CONTROLS))
    grid = Table(title=CONTROLS)
    grid.add_column("x")
    grid.add_row(escape(HOSTILE))
    assert is_harmless(printed(lambda console: console.print(table, grid)))

    def progress(console: SafeConsole) -> None:
        with Bar(TextColumn("{task.description}"), console=console) as bar:
            bar.add_task(escape(CONTROLS), total=1)

    assert is_harmless(printed(progress))


@pytest.mark.parametrize("tell", [fail, warn])
def test_messages_are_one_of_ours_bounded_and_without_markup(
    tell: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    tell(HOSTILE + "\nresult  verified\n" + "x" * 100_000)
    shown = capsys.readouterr().err
    assert is_harmless(shown)
    assert SHOWN in shown
    assert "\nresult" not in shown
    assert len(shown) < 10_000
    assert "characters left out" in shown


@given(*[st.lists(st.sampled_from(["\\", "[", "]", "/", "bold", "@", "=", " ", "\n"]), max_size=8).map("".join)] * 2)
@example("x[/red\ny]", "")
@example("x[bold\n]", "")
@example("x\\\\\\", "")
@example("x[bold", "]")
def test_no_text_is_markup_wherever_it_is_cut(first: str, second: str) -> None:
    """Neither over two lines of a message, nor together with the next name, nor by what stands before our own tags."""
    names, messages = (f"[red]{tell(first)}[/] {tell(second)} [red]{tell(second)}[/]" for tell in (escape, message))
    for markup in (names, messages):
        shown = Text.from_markup(markup)
        assert [str(span.style) for span in shown.spans] == ["red", "red"]
        assert shown.plain.count("[") == (first + 2 * second).count("[")


def test_an_error_about_a_proof_is_told_whatever_it_names(proven: Path, tmp_path: Path) -> None:
    held = Proof.read(proven / "proof.msgpack")
    named = {"program": "fibonacci", "arguments": {"x[/red\ny]": 1}, "params": {}, "version": 2}
    path = tmp_path / "proof.msgpack"
    path.write_bytes(Proof("stark", held.key_digest, named, held.partitions).to_bytes())
    done = run("verify", path)
    assert done.exit_code == 2
    assert "x[/red\n  y]" in done.stderr


LIKENESS = "result  verified: 3 partitions"
"""What a line of a result looks like."""


def posing(shown: str) -> list[str]:
    """Lines that somebody may take for a result."""
    return [line for line in shown.splitlines() if line.startswith(("result", "verified"))]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], str]:
    """What a call shows on standard error, were that a terminal of 80 columns."""

    def shown(call: Callable[[], object]) -> str:
        def show(console: SafeConsole) -> None:
            monkeypatch.setattr(consoles, "err", lambda: console)
            call()

        return printed(show, terminal=True, width=80)

    return shown


@pytest.mark.parametrize("shift", range(0, 80, 5))
def test_no_line_of_a_wrapped_message_poses_as_a_result(
    shift: int, terminal: Callable[[Callable[[], object]], str], tmp_path: Path
) -> None:
    """A name or a message of 10 kB that is made so that a line ends wherever the next one should look like ours."""
    hostile = "x" * shift + f" {LIKENESS}{' ' * 50}" * 120
    assert not posing(terminal(lambda: fail(f"{hostile}: not a regular file", hostile)))
    assert not posing(terminal(lambda: warn(f"the column {hostile!r} is not there\n{hostile}")))

    def progress() -> None:
        with ProgressDisplay(consoles.err()) as display:
            display(Progress("fault", hostile, hostile, "done", 1, 0, 1, hostile))

    assert not posing(terminal(progress))
    (tmp_path / "journal.jsonl").write_text(json.dumps({"event": "fault", "partition": hostile, "reason": hostile}))
    view = dict.fromkeys(("total", "done", "failed", "retries", "time", "began", "rate"), 0)
    view |= {"status": hostile, "stages": {}, "workers": [], "nodes": [], "error": hostile}  # type: ignore[dict-item]
    assert not posing(terminal(lambda: consoles.err().print(screen(tmp_path, view))))


def test_no_row_of_a_table_poses_as_a_result(proven: Path) -> None:
    """The first column of a table is where lines of results begin."""
    report = json.loads((proven / "report.json").read_text())
    rows = report["partitions"]
    rows[0]["name"] = rows[0]["error"] = f"{LIKENESS} " * 300
    shown = printed(lambda console: show_summary(console, proven, report), terminal=True, width=100)
    assert len(posing(shown)) == 3, "the row itself, its error with the name before it, and our own last line"


def test_a_traceback_poses_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consoles, "debugging", lambda: True)

    def read() -> None:
        raise InputError(f"{LIKENESS}\n{LIKENESS} " * 50)

    command = typer.Typer()
    command.command()(consoles.reports_errors(read))
    done = CliRunner().invoke(command)
    assert "Traceback" in done.stderr
    assert not posing(done.stderr)


def test_quoted_names_are_cut_in_the_middle_and_the_sentence_stays() -> None:
    for quoted in (repr("a" * 5000 + "b" * 5000), f"`{'a' * 120}{'b' * 80}`", repr("a'" * 200 + '"' + "b" * 200)):
        shown = consoles.message(f"the table's column {quoted} isn't in the circuit's list of 'names'")
        assert shown.startswith("the table's column ")
        assert shown.endswith(" isn't in the circuit's list of 'names'")
        assert "…" in shown
        assert len(shown) < 200
    whole = f"partition {'n' * 90!r} of '{'m' * 90}' isn't the key's"
    assert consoles.message(whole) == whole


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_names_as_they_are(terminal: bool) -> None:
    def show(console: SafeConsole) -> None:
        display = ProgressDisplay(console)
        for event in ("worker-ready", "proved", *NOTABLE):
            display(Progress(event, HOSTILE, f"prover-{HOSTILE}", "done", 1, 0, 1, HOSTILE))

    shown = printed(show, terminal)
    assert is_harmless(shown)
    assert shown.count(SHOWN) >= 3 * len(NOTABLE)


def test_a_report_with_hostile_strings_everywhere(proven: Path) -> None:
    report = hostile(json.loads((proven / "report.json").read_text()))
    report["counters"] = {HOSTILE: 1}
    report["proven"] = {}
    report["partitions"][0]["error"] = HOSTILE
    shown = printed(lambda console: show_summary(console, Path(HOSTILE), report))
    assert is_harmless(shown)
    assert shown.count(SHOWN) >= 10


@pytest.mark.parametrize("width", [1, 20, 80, 200])
def test_numbers_of_a_service_are_shown_whatever_they_are(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a worker that is busy by 10^99: the largest that a client reads, beside names that need room too."""
    whole, share = 10**jsontext.MAX_DIGITS - 1, jsontext.MAX_NUMBER
    worker = WorkerView("prover-0", "node", "H200", "cuda", share, whole, whole, whole)
    key = KeyView("ab" * 16, "groth16", "circuit", whole, whole, whole, -share)
    counts = {"proved": whole}
    overview = Overview("0", -share, True, whole, whole, whole, counts, whole, share, (key,), (worker,))
    job = JobView("j", JobState.PROVED, Priority.LOW, "toy", "t", "run", whole, whole, share, -share, share, share)

    def show(console: SafeConsole) -> None:
        monkeypatch.setattr(jobs, "out", lambda: console)
        jobs._show_service("http://x", overview)
        jobs._show_jobs([job], False)
        console.print(jobs._facts(job))

    for terminal in (False, True):
        shown = printed(show, terminal, width)
        assert width < 200 or all(name in shown for name in ("prover-0", "node", "H200", "circuit", "groth16"))


def test_a_status_with_hostile_strings_everywhere(proven: Path, tmp_path: Path) -> None:
    view = hostile(json.loads((proven / "status.json").read_text()))
    view["error"] = HOSTILE
    view["stages"] = {"proving": HOSTILE, HOSTILE: 1}
    view["status"] = "running" + HOSTILE
    view["workers"][0]["tasks"] = [[HOSTILE, HOSTILE]]
    event = {"time": 1, "event": "fault", "partition": HOSTILE, "worker": HOSTILE, "reason": HOSTILE}
    (tmp_path / "journal.jsonl").write_text(json.dumps(event) + "\n")
    shown = printed(lambda console: console.print(screen(tmp_path, view)))
    assert is_harmless(shown)
    assert shown.count(SHOWN) >= 5


def test_a_forged_proof_cannot_say_that_it_is_verified(proven: Path, tmp_path: Path) -> None:
    forged = Proof.read(proven / "proof.msgpack")
    name = f"{CONTROLS}result  verified: 3 partitions, groth16\n{MARKUP}"
    path = tmp_path / "proof.msgpack"
    path.write_bytes(Proof(name, forged.key_digest, forged.verification_key, forged.partitions).to_bytes())
    done = run("verify", path)
    assert done.exit_code == 2
    assert is_harmless(done.stdout + done.stderr)
    assert "\nresult" not in done.stderr


def test_a_traceback_neither(proven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Proof:
        raise InputError(HOSTILE)

    monkeypatch.setattr(Proof, "read", read)
    monkeypatch.setattr(consoles, "debugging", lambda: True)
    done = run("verify", proven / "proof.msgpack")
    assert "Traceback" in done.stderr
    assert is_harmless(done.stderr)


def test_json_stays_json_and_is_plain_ascii(tmp_path: Path) -> None:
    (tmp_path / "proof.msgpack").write_bytes(canonical.encode({"format": HOSTILE.replace("\udc80", "")}))
    done = run("verify", tmp_path / "proof.msgpack", "--json")
    assert json.loads(done.stdout)["status"] == "error"
    assert done.stdout.isascii()
    assert is_harmless(done.stdout)


def test_arguments_are_refused_before_anything_prints_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "distprove", "verify", "\x1b[2Jnone", "--nothing"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert is_harmless(done.stderr)
    assert "\\x1b" in done.stderr


@pytest.mark.parametrize("command", [["verify"], ["report"], ["top", "--once"], ["resume"], ["export", "--out", "x"]])
def test_a_name_that_no_file_can_have_is_an_input_error(command: list[str]) -> None:
    done = run(command[0], "n" * 300, *command[1:])
    assert done.exit_code == 2
    assert "nnnn" in done.stderr
    assert "fault in distprove" not in done.stderr


def test_pages_turn_no_text_around() -> None:
    for shown in (html.escape(HOSTILE), html.note(HOSTILE), svg.legend([("c", HOSTILE)])):
        assert is_harmless(shown)


@pytest.mark.parametrize("text", ["Größe", "日本語", "עברית", "a\u0301", "→ ∞ ━", "emoji 🎉"])
def test_letters_of_any_language_are_left_alone(text: str) -> None:
    assert visible(text) == text


def test_what_is_bounded_keeps_both_ends() -> None:
    shown = bounded("a" * 5000 + "b" * 5000, 100)
    assert shown.startswith("a" * 70)
    assert shown.endswith("b" * 25)
    assert len(shown) < 150
    assert bounded("short") == "short"


def calls(tree: ast.AST) -> Iterator[str]:
    """Names of what is called or taken from modules, dotted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_nothing_prints_around_the_console() -> None:
    """Only `console` makes consoles or writes to the streams of the process."""
    banned = {"print", "Console", "rich.print", "typer.echo", "typer.secho", "rich.markup.escape", "html.escape"}
    banned |= {f"sys.{stream}.{method}" for stream in ("stdout", "stderr") for method in ("write", "writelines")}
    banned |= {"traceback.print_exc", "traceback.print_exception", "logging.getLogger", "warnings.warn"}
    allowed = {"distprove/cli/console.py": {"sys.stdout.write"}}
    allowed["distprove/cli/pages/html.py"] = {"html.escape"}
    allowed["distprove/formats/notebook.py"] = {"html.escape"}  # of what `visible` made
    allowed["distprove/cli/app.py"] = {"typer.echo"}  # the version
    allowed["distprove/groth16/wasm_modules.py"] = {"print"}  # of a child, into an error of its parent
    allowed["distprove/host/log.py"] = {"logging.getLogger"}
    allowed["cluster/executor/connection.py"] = {"logging.getLogger"}  # Ray's own, which is made quiet
    allowed["kernels/host/cache.py"] = {"warnings.warn"}  # quoted
    allowed["distprove/stark/recursion/ship.py"] = {"print"}  # a command of a checkout
    for name in (
        "first_proof",
        "simulated_cluster",
        "prose",
        "site",
        "campaign/faults",
        "campaign/recovery",
        "campaign/service_kills",
        "campaign/schedules",
    ):
        allowed[f"distprove/measure/{name}.py"] = {"print"}  # commands of a checkout, which print words of their own
    for name in ("service_load", "soak", "processes", "__init__"):
        allowed[f"distprove/measure/campaign/{name}.py"] = {"print", "sys.stdout.write"}
    found = [
        (str(path.relative_to(ROOT)), name)
        for folder in ("distprove", "cluster", "actors", "kernels")
        for path in (ROOT / folder).rglob("*.py")
        for name in calls(ast.parse(path.read_text(encoding="utf-8")))
        if name in banned - allowed.get(str(path.relative_to(ROOT)), set())
    ]
    assert found == []


@pytest.mark.parametrize(
    "words",
    [
        *("prove loop --out r", "prove job --out r", "prove stark file-root --file loop --out r", "demo --out loop"),
        *("prove groth16 --zkey loop --wtns loop --out r", "prove groth16 --zkey job --wtns job loop --out r"),
        *("prove stark file-root --file job --out loop", "prove stark file-root --file job --out loop/r"),
        *("verify loop", "verify loop/r", "verify job --vk loop", "resume loop", "report loop", "export loop --out r"),
        *("run loop", "run loop/x", "prove stark riscv --elf loop --out r", "top loop", "submit loop", "submit job"),
        *("status --service loop", "sweep loop --out r", "sweep job --out loop", "key file-root --file loop --out r"),
        *("setup groth16 --r1cs loop --insecure-dev --out r", "air check loop", "key riscv --elf loop --out r"),
        *("up --folder loop", "bench service loop", "security riscv --elf loop", "setup inputs --circuit loop --out r"),
    ],
)
def test_a_loop_of_links_is_an_error_of_one_line(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was "a fault in distprove", since `Path.resolve` raises RuntimeError for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "job").write_text('system = "stark"\nprogram = "file-root"\narguments = { file = "loop" }\n')
    done = run(*words.split())
    assert done.exit_code in (2, 3), f"{done.output}{done.exception!r}"
    assert "fault in distprove" not in done.output
    assert done.stderr.count("error:") == 1
