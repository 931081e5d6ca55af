"""A journal that somebody sent costs bounded memory and time; one of ours stays readable and loses nothing."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.record import journal
from cluster.record.journal import Journal, journal_tail, read_journal
from cluster.record.run import Run
from cluster.record.story import Story
from distprove.errors import FormatError
from distprove.formats.folder import Folder
from tests.support.made_runs import MadeRun


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return MadeRun(2, faults=(1,)).make(tmp_path / "run")


def holes(path: Path) -> None:
    with open(path, "ab") as file:
        file.truncate(3 << 29)


def long_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b'{"event":"fault","reason":"' + b"x" * (1 << 20) + b'"}\n')


def unfinished_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x" * (1 << 20))


READERS: list[Callable[[Path], object]] = [Story.read, Run.open]


@pytest.mark.parametrize("read", READERS, ids=["report", "resume"])
@pytest.mark.parametrize("spoil", [holes, long_line, unfinished_line])
def test_a_journal_beyond_the_limits_is_refused(
    made: Path, spoil: Callable[[Path], None], read: Callable[[Path], object]
) -> None:
    spoil(made / "journal.jsonl")
    if read == Run.open and spoil is long_line:  # nothing is read of it but the end
        Run.open(made).close()
        return
    size = (made / "journal.jsonl").stat().st_size
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"journal\.jsonl: .* moved away"):
        read(made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20
    assert (made / "journal.jsonl").stat().st_size == size
    assert journal_tail(made, 1 << 16) == []


def test_many_lines_are_refused(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_LINES", 1000)
    (made / "journal.jsonl").write_bytes(b"\n" * 1001)
    with pytest.raises(FormatError, match="more than 1000 lines"):
        Story.read(made)


def test_events_of_trouble_do_not_cost_many_times_the_file(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.record.story.MAX_TROUBLE", 100)
    line = b'{"event":"fault","time":1.0,"reason":"x","worker":[' + b"{}," * 15_000 + b"0]}\n"
    (made / "journal.jsonl").write_bytes(line * 8 + b'{"event":"fault","time":1.0}\n' * 110)
    tracemalloc.start()
    story = Story.read(made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 << 20
    assert (len(story.trouble), story.more_trouble) == (100, 18)


def test_what_is_noted_is_read_again_however_long_it_is(tmp_path: Path) -> None:
    folder = Folder.open_ours(tmp_path)
    opened = Journal(folder)
    opened.note("fault", partition="p0", worker="w\U0001f600" * 100_000, reason="\0" * 1_000_000)
    opened.note("proved", partition="p1")
    opened.close()
    first, second = read_journal(tmp_path)
    assert first["reason"].startswith("\0" * 700)
    assert "characters left out" in first["reason"]
    assert second["partition"] == "p1"


def test_a_full_journal_takes_no_more_and_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_JOURNAL", 5000)
    for _ in range(2):
        opened = Journal(Folder.open_ours(tmp_path))
        for number in range(200):
            opened.note("proved", number=number)
        opened.close()
    numbers = [event["number"] for event in read_journal(tmp_path)]
    assert numbers == list(range(len(numbers)))
    assert 50 < len(numbers) < 150
    assert (tmp_path / "journal.jsonl").stat().st_size <= 5000
