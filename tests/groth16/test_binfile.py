from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from distprove.errors import FormatError, InputError, UsageError
from distprove.groth16.binfile import BinFile, BinFileWriter, map_file
from tests.support.file_builders import container


def read(data: bytes) -> BinFile:
    return BinFile.read(data, "test", (1,))


def test_sections_are_views_of_the_given_array() -> None:
    data = np.frombuffer(container(b"test", 1, [(7, b"abc"), (2, b"")]), dtype=np.uint8)
    file = read(data)
    section = file.section(7, "letters")
    view = section.take(3)
    section.finish()
    assert view.tobytes() == b"abc"
    assert np.shares_memory(view, data)
    assert not view.flags.writeable
    file.section(2, "nothing").finish()


def test_a_memmap_is_used_in_place(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(container(b"test", 1, [(7, b"abc")]))
    mapped = np.memmap(tmp_path / "f", dtype=np.uint8, mode="r")
    view = BinFile.read(mapped, "test", (1,)).section(7, "letters").take(3)
    assert type(view) is np.ndarray
    assert np.shares_memory(view, mapped)
    with pytest.raises(UsageError, match="uint8 array"):
        BinFile.read(np.zeros(10, dtype=np.uint16), "test", (1,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too few"),
        (b"tes", "too few"),
        (container(b"tset", 1, []), "not a .test file"),
        (container(b"test", 2, []), "version 2"),
        (container(b"test", 1, [(1, b"ab")])[:-1], "ends too early, .* has 2 bytes, of which 1 is there"),
        (container(b"test", 1, [(1, b"ab")], count=2), "before section 2 of 2"),
        (container(b"test", 1, [(1, b"ab")]) + b"x", "1 byte follows the last section"),
        (container(b"test", 1, [(1, b"ab"), (1, b"cd")]), "section 1 occurs twice"),
        (container(b"test", 1, [], count=2**32 - 1), "announces 4294967295 sections"),
    ],
)
def test_a_bad_table_is_refused_with_the_place(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(data)


def test_reading_past_a_section_names_it_and_the_byte() -> None:
    section = read(container(b"test", 1, [(4, b"abcdef")])).section(4, "numbers")
    section.u32()
    with pytest.raises(FormatError, match=r"section 4 \(numbers\), byte 28: needs 4 more bytes, 2 are left"):
        section.u32()
    with pytest.raises(FormatError, match="2 bytes too many"):
        section.finish()


def test_a_missing_section_is_named() -> None:
    with pytest.raises(FormatError, match=r"section 9 \(points\) is missing"):
        read(container(b"test", 1, [])).section(9, "points")


def test_files_that_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("empty", "empty"), ("pipe", "regular"), ("absent", "No such file"), (".", "regular")):
        with pytest.raises(InputError, match=message):
            map_file(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        map_file("with\0zero")


def test_writer_makes_what_the_specification_says(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with BinFileWriter(path, "test", version=1, sections=2) as out:
        with out.section(3):
            out.u32(5)
            out.write(np.arange(2, dtype="<u2"))
        with out.section(1):
            out.u64(2**40)
    expected = [(3, b"\5\0\0\0\0\0\1\0"), (1, (2**40).to_bytes(8, "little"))]
    assert path.read_bytes() == container(b"test", 1, expected)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail() -> None:
        with BinFileWriter(path, "test", version=1, sections=1) as out, out.section(1):
            out.u32(1)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    with (
        pytest.raises(ValueError, match="0 sections written, 1 announced"),
        BinFileWriter(path, "test", version=1, sections=1),
    ):
        pass
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_place_is_an_input_error(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="no: No such file or directory"),
        BinFileWriter(tmp_path / "no" / "out", "test", version=1, sections=0),
    ):
        pass
