"""Readings of GPUs, from a driver that is made up."""

from __future__ import annotations

import sys

import pytest

from distprove.host.telemetry import GpuReading, GpuTelemetry, idle_memory
from tests.support.fake_nvml import FakeGpu, FakeNvml


def test_every_gpu_is_read_and_what_a_card_does_not_tell_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([FakeGpu(), FakeGpu("GPU-1", "T4", None, None, None, 1 << 30, None)])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    telemetry = GpuTelemetry.open()
    assert telemetry is not None
    assert telemetry.read() == [
        GpuReading(0, "NVIDIA H200", "GPU-0", 0.9, 70 << 30, 141 << 30, 500.0, 60, 0, {}),
        GpuReading(1, "T4", "GPU-1", None, 1 << 30, 141 << 30, None, None, None, {}),
    ]
    telemetry.close()
    assert nvml.closed.is_set()


def test_critical_errors_are_counted_by_gpu_and_kind() -> None:
    nvml = FakeNvml([FakeGpu(), FakeGpu("GPU-1")], errors=[(1, 79), (1, 79), (0, 48)])
    telemetry = GpuTelemetry(nvml)
    assert [reading.xids for reading in telemetry.read()] == [{48: 1}, {79: 2}]
    nvml.errors.append((1, 31))
    assert [reading.xids for reading in telemetry.read()] == [{48: 1}, {79: 2, 31: 1}]


def test_without_a_driver_there_are_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert GpuTelemetry.open() is None
    nvml = FakeNvml([FakeGpu()], lost=True)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert GpuTelemetry.open() is None
    nvml.lost = False
    telemetry = GpuTelemetry(nvml)
    nvml.lost = True
    assert telemetry.read() == [], "the driver went away"


def test_the_memory_of_gpus_is_told_where_they_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that others use, that is divided, or that is not there has none to share."""
    whole, context = 141 << 30, 1 << 30
    gpus = [FakeGpu("GPU-0", used=context), FakeGpu("GPU-1", used=context, mig=None), FakeGpu("GPU-2")]
    nvml = FakeNvml([*gpus, FakeGpu("GPU-3", used=context, mig=1)])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert idle_memory(["GPU-0", "GPU-1"]) == whole
    assert [idle_memory(["GPU-0", other]) for other in ("GPU-2", "GPU-3", "GPU-4")] == [0, 0, 0]
    assert idle_memory() == 0
    nvml.gpus = gpus[:2]
    nvml.closed.clear()
    assert idle_memory() == whole
    assert nvml.closed.wait(60)
    answers = FakeNvml.nvmlDeviceGetUUID

    def lost(nvml: FakeNvml, gpu: FakeGpu) -> str:
        if gpu.uuid == "GPU-1":
            raise nvml.NVMLError("the card is lost")
        return answers(nvml, gpu)

    monkeypatch.setattr(FakeNvml, "nvmlDeviceGetUUID", lost)
    assert idle_memory() == 0, "the cards before it do not stand for all"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert idle_memory() == idle_memory(["GPU-0"]) == 0
