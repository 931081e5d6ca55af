"""Arrays in files that are mapped: read as they were written, and nothing else is taken for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.errors import FormatError
from distprove.formats import canonical
from distprove.formats.array_file import ALIGNMENT, map_arrays, write_arrays

RECORD = {"name": "leaf", "rows": [1, 2]}
ARRAYS: dict[str, Any] = {
    "bytes": np.arange(7, dtype=np.uint8),
    "none": np.zeros((0, 3), dtype=np.uint32),
    "turned": np.arange(12, dtype=np.uint32).reshape(3, 4).T,
    "words": np.array([[1 << 63, 5]], dtype=np.uint64),
}


def written(path: Path, record: Any = RECORD, arrays: Any = ARRAYS) -> Path:
    with path.open("wb") as file:
        write_arrays(file, record, arrays)
    return path


def mapped(path: Path) -> Any:
    with path.open("rb") as file:
        return map_arrays(file, "a file")


def test_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    record, arrays = mapped(written(tmp_path / "file"))
    assert record == RECORD
    assert [*arrays] == [*ARRAYS]
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)
        assert arrays[name].ctypes.data % ALIGNMENT == 0
        assert not arrays[name].flags.writeable
    record, arrays = mapped(written(tmp_path / "empty", {}, {}))
    assert (record, arrays) == ({}, {})


def test_every_other_length_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "file")
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match="a file"):
            mapped(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(FormatError, match="longer"):
        mapped(path)


@pytest.mark.parametrize(
    "told",
    [
        3,
        ["name", "<u4"],
        ["name", "<f8", [1]],
        ["name", ["<u4"], [1]],
        [3, "<u4", [1]],
        ["name", "<u4", [-1]],
        ["name", "<u4", [True]],
        ["name", "<u4", ["1"]],
        ["name", "<u8", [1 << 62, 1 << 62]],
        ["name", "<u8", [0, 1 << 63]],
        ["name", "<u8", [0, 1 << 62, 1 << 62]],
        ["name", "<u1", [1] * 70],
    ],
)
def test_descriptions_of_arrays_that_are_none(tmp_path: Path, told: Any) -> None:
    header = canonical.encode({"arrays": [told], "record": {}})
    path = tmp_path / "file"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(1 << 10))
    with pytest.raises(FormatError, match="a file"):
        mapped(path)
