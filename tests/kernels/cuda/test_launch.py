"""How a launch hands its parameters to the driver, read back where the driver would; needs CuPy, no GPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kernels.cuda.device import ByValue
from kernels.errors import SizeError

pytest.importorskip("cupy", exc_type=ImportError)

from kernels.cuda.launch import _arguments, _Parameters


def read(parameters: _Parameters, sizes: list[int]) -> list[bytes]:
    """The bytes of each parameter, through the list of addresses."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(parameters.address)
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]


def test_parameters_are_where_their_addresses_say() -> None:
    struct = np.arange(5, dtype=np.uint32)
    for number in (7, 2**64 - 1):
        args = (np.uint64(number), None, np.uint32(3), ByValue(struct), np.int64(-2), ByValue(np.zeros(0, np.uint8)))
        formats, values = _arguments(args)
        parameters = _Parameters(formats)
        parameters.write(values)
        wanted = [a.packed if isinstance(a, ByValue) else np.asarray(a or 0).astype("u8").tobytes() for a in args]
        wanted[2] = np.uint32(3).tobytes()
        assert read(parameters, [8, 8, 4, 20, 8, 0]) == wanted
        pointers = (ctypes.c_void_p * len(args)).from_address(parameters.address)
        assert all(int(p or 0) % 16 == 0 for p in pointers)


def test_room_is_written_again() -> None:
    parameters = _Parameters(("I", "8s"))
    for number in (1, 2):
        parameters.write([np.uint32(number), bytes([number]) * 8])
        assert read(parameters, [4, 8]) == [np.uint32(number).tobytes(), bytes([number]) * 8]


def test_arguments_of_no_known_width_are_refused() -> None:
    for argument in (3, 2.0, np.float64(1)):
        with pytest.raises(SizeError, match="known width"):
            _arguments((argument,))
