"""What real GPUs say of themselves."""

from __future__ import annotations

import pytest

from distprove.host.telemetry import GpuTelemetry
from kernels.cuda.backend import CudaBackend
from kernels.cuda.entry import ENTRY

pytestmark = pytest.mark.gpu


def test_a_device_has_the_uuid_that_nvml_tells(cuda: CudaBackend) -> None:
    telemetry = GpuTelemetry.open()
    if telemetry is None:
        pytest.skip("NVML is not available")
    told = {gpu.uuid for gpu in telemetry.read()}
    telemetry.close()
    named = [ENTRY.identify(device) for device in range(ENTRY.devices())]
    assert len(set(named)) == len(named)
    assert set(named) <= told
    assert cuda.info().details["uuid"] == named[0]
