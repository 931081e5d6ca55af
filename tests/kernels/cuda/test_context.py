"""The UUID of a device, asked of a driver that is played here; needs no GPU."""

from __future__ import annotations

import ctypes
from typing import Any
from uuid import UUID

import pytest

from kernels.cuda.context import uuid_of

ZEROS = UUID("12345678-9abc-def0-1234-002300345600")
"""Has zero bytes inside and at its end."""


class Driver:
    """Two devices, the second with the UUID `ZEROS`; each function returns a CUresult, 0 for success."""

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, handle: Any, ordinal: int) -> int:
        handle._obj.value = 40 + ordinal
        return 0 if ordinal < 2 else 101  # CUDA_ERROR_INVALID_DEVICE

    def cuDeviceGetUuid_v2(self, told: Any, handle: ctypes.c_int) -> int:
        told[:] = list(ZEROS.bytes if handle.value == 41 else bytes(range(1, 17)))
        return 0


def test_a_gpu_is_named_as_the_driver_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    assert uuid_of(0) == f"GPU-{UUID(bytes=bytes(range(1, 17)))}"
    assert uuid_of(1) == f"GPU-{ZEROS}"
    assert uuid_of(2) == ""


def test_where_there_is_no_driver_no_gpu_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert uuid_of(0) == ""
