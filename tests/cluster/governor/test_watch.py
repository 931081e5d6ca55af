"""What a governor sees of its node: the memory of our processes, and the GPUs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cluster.governor.watch import NodeWatch
from distprove.host.memory import most_resident
from distprove.host.telemetry import GpuTelemetry
from tests.support.fake_nvml import FakeGpu, FakeNvml

MEGABYTES = 80
SHORT_LIVED = f"b = bytes({MEGABYTES} << 20); del b; print(flush=True); input()"
"""Takes memory, gives it back, says so, and stays."""


def test_the_most_that_each_process_of_ours_was_resident_in_is_kept() -> None:
    watch = NodeWatch()
    command = [sys.executable, "-c", SHORT_LIVED.replace("bytes(", "bytearray("), "distprove-prover-7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        watch.look()
        process.communicate(b"\n")
    watch.look(age=0.0)
    (peak,) = (peak for name, peak in watch.report()["processes"].items() if name == "prover-7")
    assert peak >= MEGABYTES << 20
    assert most_resident() > 10 << 20


def test_gpus_are_summed_up_over_the_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(ecc=4)
    nvml = FakeNvml([gpu])
    monkeypatch.setattr(GpuTelemetry, "open", lambda: GpuTelemetry(nvml))
    watch = NodeWatch()
    watch.look()
    gpu.use, gpu.milliwatts, gpu.celsius, gpu.ecc, gpu.used = 50, 300_000, 80, 6, 10 << 30
    nvml.errors.append((0, 79))
    watch.look()  # not due yet
    watch.look(age=0.0)
    (seen,) = watch.report()["gpus"]
    assert (seen["utilisation"], seen["watts"], seen["watts_most"]) == (0.7, 400.0, 500.0)
    assert (seen["celsius_most"], seen["memory_most"], seen["memory_used"]) == (80, 70 << 30, 10 << 30)
    assert (seen["ecc_errors"], seen["xids"]) == (2, {"79": 1})
    watch.close()
    assert nvml.closed.is_set()
    watch.look(age=0.0)
