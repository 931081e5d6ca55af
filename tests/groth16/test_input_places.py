"""Whether a worker takes another file for the driver's, where it has the same name and size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distprove.errors import FormatError, InputError
from distprove.formats.files import opening_only
from distprove.formats.sampled import BLOCK, HEAD
from distprove.groth16.input_places import WHOLE_INPUT, WHOLE_WITNESS, content_at, places_of
from distprove.options import InputFile

LENGTHS = {"empty": 0, "small": 100, "whole": WHOLE_WITNESS, "long": 3 * WHOLE_WITNESS + 5}


@pytest.mark.parametrize("size", LENGTHS.values(), ids=LENGTHS)
def test_the_same_content_is_taken_and_another_one_is_not(size: int, tmp_path: Path) -> None:
    path = tmp_path / "input"
    content = os.urandom(size)
    path.write_bytes(content)
    (place,) = places_of([InputFile("a", path)], WHOLE_WITNESS)
    if not size:
        with pytest.raises(FormatError, match="empty"):
            content_at(place)
        return
    found, name = content_at(place)
    assert (found.tobytes(), name) == (content, str(path))
    places = {0, size // 2, size - 1} if size <= WHOLE_WITNESS else {0, HEAD - 1, size - BLOCK, size - 1}
    others = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in places]
    # Alike where it is always looked, and different between: it is looked there at places that nobody knows before.
    others += [content[:HEAD] + bytes(size - HEAD - BLOCK) + content[-BLOCK:]] if size > WHOLE_WITNESS else []
    for other in others:
        path.write_bytes(other)
        with pytest.raises(InputError, match="another content than where the driver is") as caught:
            content_at(place)
        assert str(path) in str(caught.value)


def test_an_input_of_a_circuit_is_looked_at_whole(tmp_path: Path) -> None:
    path = tmp_path / "input"
    content = bytearray(WHOLE_INPUT)
    path.write_bytes(content)
    (place,) = places_of([InputFile("a", path)], WHOLE_INPUT)
    content[WHOLE_INPUT // 3] = 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="another content"):
        content_at(place)


@pytest.mark.parametrize("slow", [0.0, 100.0])
def test_a_digest_confirms_no_guess_without_its_plan(
    slow: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are read by one thread or by several, and in the order of the inputs."""
    monkeypatch.setattr("distprove.groth16.input_places.SLOW", slow)
    files = [tmp_path / str(index % 2) for index in range(200)]
    for file in files[:2]:
        file.write_bytes(b"secret")
    sources = [InputFile(file.name, file) for file in files]
    plans = [places_of(sources, WHOLE_INPUT) for _ in range(2)]
    assert [[place["path"] for place in plan] for plan in plans] == [list(map(str, files))] * 2
    places = [place for plan in plans for place in plan]
    assert len({place["digest"] for place in places}) == len({place["key"] for place in places}) == 2


def test_an_input_that_is_not_there_is_told_when_the_job_is_planned(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        places_of([InputFile("a", tmp_path / "input")], WHOLE_INPUT)
    assert places_of([InputFile("a", tmp_path, b"value")], WHOLE_INPUT) == [{"content": b"value"}]
    os.mkfifo(tmp_path / "pipe")
    (place,) = places_of([InputFile("a", tmp_path / "pipe")], WHOLE_INPUT)  # at once
    with pytest.raises(InputError, match="not a regular file"):
        content_at(place)


def test_what_cannot_be_digested_is_refused_where_not_all_files_may_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of a service laid a link to another file of that size there, before a worker read it."""

    def denied(path: Path) -> int:
        raise PermissionError(13, "Permission denied")

    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_bytes(b"input")
    for path in (folder, file):
        with monkeypatch.context() as patched:
            if path is file:
                patched.setattr("distprove.groth16.input_places.open_given", denied)
            (place,) = places_of([InputFile("a", path)], WHOLE_WITNESS)
            assert place["digest"] is None, "whoever reads it tells"
            with opening_only(lambda real: None), pytest.raises(InputError, match="the driver may read"):
                places_of([InputFile("a", path)], WHOLE_WITNESS)
