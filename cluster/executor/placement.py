"""Chooses the workers of a cluster: a pure function of its nodes and the settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.backends import device_backend
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings
from kernels.host.units import count_of

SYNTHESISERS_PER_GPU = 16
"""Most synthesisers for one GPU. A witness takes a CPU many times as long as its proof takes a GPU (60 ms and 4.3 ms
for a circuit of 2^16 rows, with circom's program on one core of 16 at work and an H200); with fewer the GPU waits."""

CPU_SHARE = 0.5
"""CPUs that the provers of a node without GPUs take of Ray's bookkeeping, and so many again their synthesiser: several
jobs may share the node, whose governor leases its threads."""

GPU_THREADS = 8
"""CPU threads of a prover on a GPU, at most: more neither compile nor copy faster."""

THREADS_EACH = 2
"""CPU threads of a node for each of several provers on one GPU, at least: one drives the device, and what is made and
verified for it takes another. With fewer the GPU would wait for them, and one prover does."""


@dataclass(frozen=True)
class Node:
    """A node of the cluster and what it offers in all."""

    id: str
    address: str
    cpus: float
    gpus: int
    port: int = 0
    """Port of its raylet; 0 where that is not known."""


@dataclass(frozen=True)
class Place:
    """One worker to be: where, with what of Ray's resources, and how many threads it runs."""

    node: Node
    backend: str | None
    """Backend of the prover; None for a synthesiser."""
    num_cpus: float
    num_gpus: float
    """A part of one where several provers share a GPU."""
    threads: int
    host_threads: int = 1
    """Threads for what is computed on the CPU beside the prover's device."""
    share: int = 1
    """Number of provers that share its device."""


def host_threads(threads: int, provers: int) -> int:
    """Threads for what is computed on the CPU beside the device of each of a node's provers: half, the rest
    synthesises."""
    return max(1, threads // (2 * provers))


def provers_fed(per_gpu: int, devices: int, threads: int) -> int:
    """Number of provers, of `per_gpu`, that each device has: as many as `THREADS_EACH` allows; one without devices."""
    return max(1, min(per_gpu, threads // (THREADS_EACH * devices))) if devices else 1


def shares(devices: int, workers: int | None, per_gpu: int = 1) -> list[int]:
    """Number of provers that share the device of each prover of a node with `devices` GPUs (0: its CPUs).

    `workers` provers in all, or for None `per_gpu` on a device. Raises ClusterError for a number that cannot be spread
    evenly.
    """
    devices = max(1, devices)
    workers = devices * per_gpu if workers is None else workers
    if workers <= devices:
        return [1] * workers
    if workers % devices:
        raise ClusterError(
            f"{count_of(workers, 'prover')} per node cannot be spread evenly over {count_of(devices, 'GPU')}"
        )
    return [workers // devices] * workers


def place(nodes: list[Node], settings: ExecutorSettings, per_gpu: int = 1) -> tuple[list[Place], list[Place]]:
    """(provers, synthesisers) for these nodes. Raises ClusterError, naming what is missing.

    With GPUs, `per_gpu` provers per GPU as far as each has `THREADS_EACH` (or as many per node as `gpu_workers` says),
    and on the same nodes up to `SYNTHESISERS_PER_GPU` synthesisers for each GPU. Without, a CPU prover and a
    synthesiser per node. Ray's CPUs are a bookkeeping of room, not of threads: both kinds state theirs, because an
    actor that names one resource only would ask for more than it needs, and could wait for ever.
    """
    nodes = [node for node in nodes if node.cpus > 0]
    if not nodes:
        raise ClusterError("the cluster has no node with CPUs")
    backend, _ = device_backend(settings.backend) or ("", None)
    on_gpus = backend if settings.gpus != 0 and any(node.gpus for node in nodes) else ""
    if settings.backend == backend and not on_gpus:
        raise ClusterError(f"backend {backend} was asked for, and the cluster has no GPU to give")
    if settings.gpus and not on_gpus:
        raise ClusterError(
            f"{count_of(settings.gpus, 'GPU was', 'GPUs were')} asked for; the cluster has none, or the backend "
            f"is not for GPUs"
        )
    provers = _gpu_provers(nodes, settings, on_gpus, per_gpu) if on_gpus else _cpu_provers(nodes, settings)
    return provers, _synthesisers(nodes, provers, settings)


def place_more(
    nodes: list[Node], settings: ExecutorSettings, gpus: float | None, synthesisers: int
) -> tuple[list[Place], list[Place]]:
    """(provers, synthesisers) for nodes that joined a job which has so many GPUs (None: it proves on CPUs) and
    synthesisers: of the same kind, as far as the settings allow more. Both are empty where nothing can be placed."""
    if settings.synthesisers is not None:
        settings = replace(settings, synthesisers=max(1, settings.synthesisers - synthesisers))
    if gpus is not None:
        offered = sum(max(0, min(node.gpus, int(2 * node.cpus) - 1)) for node in nodes)
        left = offered if settings.gpus is None else min(offered, settings.gpus - round(gpus))
        if left <= 0:
            return [], []
        settings = replace(settings, gpus=left)
    else:
        settings = replace(settings, gpus=0)
    try:
        return place(nodes, settings)
    except ClusterError:  # their CPUs do not do
        return [], []


def _gpu_provers(nodes: list[Node], settings: ExecutorSettings, backend: str, per_gpu: int) -> list[Place]:
    most_threads = min(GPU_THREADS, settings.threads or GPU_THREADS)
    fed = {node.id: max(0, min(node.gpus, int(2 * node.cpus) - 1)) for node in nodes}
    wanted = settings.gpus or sum(fed.values())
    if wanted > sum(fed.values()) or not wanted:
        total, most = sum(node.gpus for node in nodes), sum(fed.values())
        raise ClusterError(
            f"{count_of(wanted or 1, 'GPU was', 'GPUs were')} asked for; the cluster has {total}, of which its "
            f"CPUs can feed {most}"
        )
    places: list[Place] = []
    for node in nodes:
        used = min(fed[node.id], wanted)
        if not used:
            continue
        wanted -= used
        each = shares(used, settings.gpu_workers, provers_fed(per_gpu, used, threads_of(node, settings)))
        if len(each) > 2 * node.cpus - 1:
            raise ClusterError(
                f"{count_of(len(each), 'prover per node was', 'provers per node were')} asked for; the CPUs of "
                f"{node.address} cannot feed them"
            )
        # Half a CPU: it mostly waits for the device, and a node may have as many GPUs as cores. Its threads compile the
        # kernels at the start and copy to pinned memory.
        threads = max(1, min(most_threads, int(node.cpus) // max(node.gpus, len(each))))
        beside = host_threads(threads_of(node, settings), len(each))
        places += [Place(node, backend, 0.5, 1 / share, threads, beside, share) for share in each]
    return places


def _cpu_provers(nodes: list[Node], settings: ExecutorSettings) -> list[Place]:
    name = "cpu" if settings.backend == "auto" else settings.backend
    places: list[Place] = []
    for node in nodes:
        # They run on all cores of their node, as far as its governor leases them to this job.
        each = shares(0, settings.gpu_workers)
        threads = max(1, threads_of(node, settings) // len(each))
        beside = host_threads(threads_of(node, settings), len(each))
        cpus = min(CPU_SHARE, node.cpus / 2)
        places += [Place(node, name, cpus / share, 0, threads, beside, share) for share in each]
    return places


def threads_of(node: Node, settings: ExecutorSettings) -> int:
    """The threads of a node that the settings allow to be used."""
    return min(settings.threads or int(node.cpus) or 1, max(1, int(node.cpus)))


def _synthesisers(nodes: list[Node], provers: list[Place], settings: ExecutorSettings) -> list[Place]:
    places: list[Place] = []
    for node in nodes:
        here = [prover for prover in provers if prover.node == node]
        room, most = node.cpus - sum(prover.num_cpus for prover in here), 1.0
        if here and here[0].num_gpus:
            count = min(SYNTHESISERS_PER_GPU * round(sum(p.num_gpus for p in here)), int(room))
        elif here:
            count, most = 1, CPU_SHARE
        else:
            count = int(room) if any(prover.num_gpus for prover in provers) else 0
        if settings.threads is not None:
            count = min(count, settings.threads)
        places += [Place(node, None, min(most, room / max(1, count)), 0, 1)] * count
    places = [p for p in places if p.num_cpus > 0]
    if settings.synthesisers is not None:
        # Those on nodes with provers come first: their witnesses have no way to go.
        with_provers = {prover.node.id for prover in provers}
        places.sort(key=lambda p: p.node.id not in with_provers)
        places = places[: settings.synthesisers]
    if not places:
        raise ClusterError("the provers leave no CPU for a synthesiser")
    return places
