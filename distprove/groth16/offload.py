"""`auto` for Groth16: chooses what is offloaded, by what fits the device's memory, then by measured speed."""

from __future__ import annotations

import time

import numpy as np

from distprove.groth16.key import ProvingKey
from distprove.groth16.memory import KeyShape, resident_memory
from kernels.host.units import format_bytes
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.interface.groups import PointTable
from kernels.interface.leases import SPMV
from kernels.interface.offload import MSM, Offload
from kernels.maths.curves import Field, Group

G1, G2 = MSM[Group.G1], MSM[Group.G2]

CANDIDATES = tuple(Offload(frozenset(host)) for host in ((), (G2,), (G2, SPMV), (G2, SPMV, G1)))
"""What `auto` chooses from. Each takes less device memory than the one before, and more of the host."""

SAMPLE_ON_HOST, SAMPLE_ON_DEVICE = 1 << 14, 1 << 20
"""Maximum points of a measured MSM, whose time is scaled up. For the host that overestimates the time a little."""


def choose_offload(zkey: ProvingKey, device: Backend, host: Backend) -> tuple[Offload, str]:
    """Choose the first candidate that fits `device`, or the faster of the first two if everything fits; with the reason
    in words."""
    info = device.info()
    if info.kind == "cpu":
        return Offload(), "no device: everything is on the CPU"
    everything, g2_on_host = CANDIDATES[:2]
    budget = info.memory_budget
    if missing(zkey, everything, device, budget) == 0:
        return faster(zkey, device, host, everything, g2_on_host)
    for candidate in CANDIDATES[1:]:
        if missing(zkey, candidate, device, budget) == 0:
            break
    needed = format_bytes(budget + missing(zkey, everything, device, budget))
    return candidate, f"everything on the device needs {needed} of its memory; it has {format_bytes(budget)}"


def missing(zkey: ProvingKey, offload: Offload, device: Backend, budget: int) -> int:
    """Predicted bytes that `budget` lacks for key, proofs in flight and scratch on the device; 0 if all fits."""
    return max(0, resident_memory(KeyShape.of(zkey), device, offload) - budget)


def faster(
    zkey: ProvingKey, device: Backend, host: Backend, everything: Offload, g2_on_host: Offload
) -> tuple[Offload, str]:
    """Place the G2 MSM on the host if it hides there behind the device's four G1 MSMs, else everything on the device.
    The former saves time on the device. Returns the choice and the reason in words."""
    there = msm_seconds(zkey, device, Group.G2, SAMPLE_ON_DEVICE)
    rest = 4 * msm_seconds(zkey, device, Group.G1, SAMPLE_ON_DEVICE)
    here = msm_seconds(zkey, host, Group.G2, SAMPLE_ON_HOST)
    told = f"an MSM in G2 takes {1e3 * here:.1f} ms on the CPU, {1e3 * there:.1f} ms on the device"
    if here < rest:
        return g2_on_host, f"{told}; on the CPU it hides behind the device's other MSMs ({1e3 * rest:.1f} ms)"
    return everything, f"{told}, whose other MSMs take {1e3 * rest:.1f} ms: too few to hide it"


def msm_seconds(zkey: ProvingKey, backend: Backend, group: Group, most: int) -> float:
    """Seconds of one MSM over all of the key's points with uniform scalars, scaled from at most `most` points."""
    points = zkey.points_b2 if group is Group.G2 else zkey.points_a
    count = min(len(points), most)
    table: PointTable = backend.groups.load_points(zkey.curve, group, points[:count])
    scalars = backend.to_device(uniform(zkey.curve.fr, count))
    backend.groups.msm(table, scalars).result()  # the first run compiles, on a GPU
    start = time.perf_counter()
    backend.groups.msm(table, scalars).result()
    return (time.perf_counter() - start) * len(points) / count


def uniform(field: Field, count: int) -> HostArray:
    """Random canonical integers (count, limbs), one bit shorter than the field's modulus, for measurements."""
    words = np.random.default_rng(0).integers(0, 1 << 64, (count, field.limbs), dtype=np.uint64)
    words[:, -1] >>= np.uint64(64 * field.limbs - field.bits + 1)
    return words
