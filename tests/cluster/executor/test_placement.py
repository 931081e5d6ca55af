"""Where workers go: pure functions of nodes and settings."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.backends import BackendChoice, make_backend
from cluster.executor.fleet import kept_by
from cluster.executor.local import ProcessFleet, local_devices, prover_choices
from cluster.executor.placement import Node, place
from cluster.executor.verifiers import how_many, provers_for
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings
from distprove.stark.multilinear.system import MultilinearSystem
from distprove.stark.options import StarkOptions
from distprove.stark.params import Parameters
from distprove.stark.plan import CONTEXT_BYTES, plans
from distprove.stark.programs.registry import load_program
from distprove.stark.shape import ProofShape
from distprove.stark.system import StarkSystem
from distprove.system import provers_per_gpu
from kernels.interface.entry import BackendEntry
from tests.support.fake_nvml import FakeGpu, FakeNvml
from tests.support.toy_system import Faults, ToySystem


def node(cpus: float, gpus: int = 0, name: str = "n") -> Node:
    return Node(name, f"10.0.0.{len(name)}", cpus, gpus)


@given(
    st.lists(st.tuples(st.integers(0, 64), st.integers(0, 8)), max_size=5),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(1, 64),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 9),
    st.integers(1, 3),
)
def test_nothing_is_asked_for_that_a_node_has_not(
    shapes: list[tuple[int, int]],
    gpus: int | None,
    threads: int | None,
    synthesisers: int | None,
    workers: int | None,
    per_gpu: int,
) -> None:
    nodes = [node(cpus, count, "n" * (index + 1)) for index, (cpus, count) in enumerate(shapes)]
    chosen = ExecutorSettings(gpus=gpus, threads=threads, synthesisers=synthesisers, gpu_workers=workers)
    try:
        provers, makers = place(nodes, chosen, per_gpu)
    except ClusterError:
        return
    assert provers
    assert makers
    for each in nodes:
        here = [spot for spot in (*provers, *makers) if spot.node == each]
        assert sum(spot.num_cpus for spot in here) <= each.cpus + 1e-9
        assert sum(spot.num_gpus for spot in here) <= each.gpus + 1e-9
        assert all(spot.num_cpus > 0 and 1 <= spot.threads <= max(1, each.cpus) for spot in here)
    assert gpus is None or sum(spot.num_gpus for spot in provers) <= gpus + 1e-9
    assert synthesisers is None or len(makers) <= synthesisers
    assert {spot.backend for spot in provers} in ({"cuda"}, {"cpu"})


def test_one_prover_per_gpu() -> None:
    provers, makers = place([node(16, 2, "a"), node(8, 1, "bb")], ExecutorSettings())
    assert [(spot.node.id, spot.backend, spot.num_gpus) for spot in provers] == [("a", "cuda", 1)] * 2 + [
        ("bb", "cuda", 1)
    ]
    assert [spot.node.id for spot in makers] == ["a"] * 15 + ["bb"] * 7  # 16 and 8 are wanted, a core is the provers'


def titan(device: int, budget: int | None, share: int) -> Any:
    return device, budget, share


PAIR = BackendEntry("Pair", f"{__name__}:titan", devices=lambda: 2, identify=lambda device: f"GPU-{device}")
TITAN = BackendEntry("Titan", f"{__name__}:titan", devices=lambda: 3, pinned=5)
"""A backend of somebody else's, with devices."""


def test_a_backend_of_ones_own_gets_a_prover_on_each_device() -> None:
    """Over Ray, and on one machine, where the devices are counted by the backend itself."""
    settings = ExecutorSettings(backend=f"{__name__}:TITAN")
    provers, _ = place([node(16, 2, "a"), node(8, 0, "bb")], settings)
    assert [(spot.node.id, spot.backend, spot.num_gpus) for spot in provers] == [("a", settings.backend, 1)] * 2
    with pytest.raises(ClusterError, match="TITAN was asked for, and the cluster has no GPU"):
        place([node(8)], settings)

    local = replace(settings, local=True)
    assert local_devices(local) == [0, 1, 2]
    assert local_devices(replace(local, gpus=2)) == [0, 1]
    with pytest.raises(ClusterError, match="4 Titan devices asked for, 3 usable here"):
        local_devices(replace(local, gpus=4))
    toy = ToySystem(1, Faults(Path()))
    choices = prover_choices(local, [0, 1, 2], 8)
    assert [(choice.name, choice.device) for choice in choices] == [(settings.backend, n) for n in range(3)]
    assert make_backend(replace(choices[2], budget=100, share=4)) == (2, 25, 4)
    assert kept_by(toy, choices[0]) == 5


def test_without_gpus_every_node_proves() -> None:
    provers, makers = place([node(2, 0, "a"), node(1, 0, "bb")], ExecutorSettings())
    assert [(spot.backend, spot.threads) for spot in provers] == [("cpu", 2), ("cpu", 1)]
    assert [spot.node.id for spot in makers] == ["a", "bb"]


@pytest.mark.parametrize(
    ("nodes", "settings", "message"),
    [
        ([], ExecutorSettings(), "no node with CPUs"),
        ([node(4)], ExecutorSettings(gpus=1), "1 GPU was asked for; the cluster has none"),
        ([node(4)], ExecutorSettings(backend="cuda"), "has no GPU to give"),
        ([node(4, 2)], ExecutorSettings(gpus=3), "3 GPUs were asked for; the cluster has 2"),
    ],
)
def test_what_is_missing_is_named(nodes: list[Node], settings: ExecutorSettings, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        place(nodes, settings)


def test_gpus_can_be_forbidden() -> None:
    provers, _ = place([node(4, 2)], ExecutorSettings(gpus=0))
    assert [spot.backend for spot in provers] == ["cpu"]


def test_provers_that_share_a_gpu_have_parts_of_it() -> None:
    provers, _ = place([node(16, 2)], ExecutorSettings(gpu_workers=4))
    assert [(spot.num_gpus, spot.share) for spot in provers] == [(0.5, 2)] * 4
    provers, _ = place([node(16, 4)], ExecutorSettings(gpu_workers=2))
    assert [(spot.num_gpus, spot.share) for spot in provers] == [(1.0, 1)] * 2
    provers, _ = place([node(16, 2)], ExecutorSettings(gpus=1, gpu_workers=3))
    assert [spot.share for spot in provers] == [3] * 3


def test_a_job_may_have_several_provers_on_each_gpu() -> None:
    """As its proof system says, where the settings do not, and as far as there are CPUs for them."""
    provers, _ = place([node(16, 2)], ExecutorSettings(), 2)
    assert [(spot.num_gpus, spot.share) for spot in provers] == [(0.5, 2)] * 4
    provers, makers = place([node(16, 2)], ExecutorSettings(gpu_workers=2), 2)
    assert [(spot.num_gpus, spot.share) for spot in provers] == [(1.0, 1)] * 2
    for few, chosen in (
        (node(7, 2), ExecutorSettings()),
        (node(16, 2), ExecutorSettings(threads=7)),
    ):
        provers, makers = place([few], chosen, 2)
        assert [(spot.num_gpus, spot.share) for spot in provers] == [(1.0, 1)] * 2
        assert makers
    local = ExecutorSettings(backend=f"{__name__}:TITAN", local=True)
    choices = prover_choices(local, [0, 1, 2], 12, 2)
    assert [(choice.device, choice.share) for choice in choices] == [(n, 2) for n in (0, 1, 2, 0, 1, 2)]
    choices = prover_choices(local, [0, 1, 2], 11, 2)
    assert [(choice.device, choice.share) for choice in choices] == [(n, 1) for n in (0, 1, 2)]
    choices = prover_choices(replace(local, gpu_workers=3), [0, 1, 2], 12, 2)
    assert [(choice.device, choice.share) for choice in choices] == [(n, 1) for n in (0, 1, 2)]
    choices = prover_choices(replace(local, gpu_workers=1), [0], 12, 2)
    assert [(choice.device, choice.share) for choice in choices] == [(0, 1)]
    assert len(prover_choices(ExecutorSettings(local=True, gpus=0), [], 8, 2)) == 1


def stark(rows: int, partitions: int) -> StarkSystem:
    program = load_program("wide-fibonacci", {"rows": rows, "width": 64})
    return StarkSystem(program, Parameters(log_blowup=1, queries=200, grinding_bits=0, security_bits=0), partitions)


def test_a_stark_asks_for_two_provers_where_partitions_are_many_and_small() -> None:
    whole = 141 << 30
    small = stark(1 << 16, 16)
    assert [provers_per_gpu(stark(1 << 16, n), lambda: whole) for n in (1, 15, 16, 17)] == [1, 1, 2, 2]
    assert provers_per_gpu(stark(1 << 24, 16), lambda: whole) == 1
    (peak,) = {plans(ProofShape(small.key, h), key_streamed=False)[0].peak for h in small.program.log_heights(16)}
    enough = 2 * (CONTEXT_BYTES + peak + peak // 32)
    assert provers_per_gpu(small, lambda: enough) == 2
    assert provers_per_gpu(small, lambda: 2 * (CONTEXT_BYTES + peak)) == 1, "what no plan counts wants room, too"
    assert provers_per_gpu(small, lambda: 0) == 1, "how large the GPUs are is not known"

    options = StarkOptions("wide-fibonacci", {"rows": 1 << 16, "width": 64}, partitions=16, engine="multilinear")
    assert provers_per_gpu(MultilinearSystem.from_options(options), lambda: whole) == 2

    def never() -> int:
        raise AssertionError("nobody's GPUs matter here")

    assert provers_per_gpu(stark(1 << 16, 15), never) == provers_per_gpu(None, never) == 1
    assert provers_per_gpu(ToySystem(1, Faults(Path())), never) == 1


def test_the_multilinear_engine_asks_for_two_where_the_nodes_of_all_have_room(tmp_path: Path) -> None:
    """Partitions of 29 GiB, of which each keeps half a GiB of nodes until the challenge."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(60_000_000)  # the plan follows from its length
    options = StarkOptions("file-root", {"file": str(path)}, partitions=87, engine="multilinear")
    many = MultilinearSystem.from_options(options)
    assert many.needs_barrier
    assert [provers_per_gpu(many, lambda size=size: size << 30) for size in (141, 106, 104, 80)] == [2, 2, 1, 1]
    few = MultilinearSystem.from_options(replace(options, partitions=15))
    assert provers_per_gpu(few, lambda: 1 << 50) == 1
    assert provers_per_gpu(MultilinearSystem.from_options(replace(options, partitions=44)), lambda: 141 << 30) == 1


@pytest.mark.parametrize(
    ("used", "memory", "chosen", "expected"),
    [
        (1 << 30, None, {}, [(0, 2), (1, 2), (0, 2), (1, 2)]),
        (1 << 30, None, {"gpu_workers": 2}, [(0, 1), (1, 1)]),
        (1 << 30, None, {"gpu_workers": 1}, [(0, 1)]),
        (1 << 30, 2 << 30, {}, [(0, 1), (1, 1)]),
        (70 << 30, None, {}, [(0, 1), (1, 1)]),
    ],
    ids=["idle", "one-each", "one", "little-memory", "used-by-others"],
)
def test_two_provers_share_each_idle_gpu_of_a_machine(
    used: int,
    memory: int | None,
    chosen: dict[str, int],
    expected: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as the fleet of a job has; a service, whose jobs differ, has one for each."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([FakeGpu("GPU-0", used=used), FakeGpu("GPU-1", used=used)]))
    settings = ExecutorSettings(
        backend=f"{__name__}:PAIR", local=True, isolate=True, threads=16, device_memory=memory, **chosen
    )
    for system, places in ((stark(1 << 16, 16), expected), (None, [(0, 1), (1, 1)][: chosen.get("gpu_workers")])):
        fleet = ProcessFleet(settings, {})
        try:
            fleet.open(system)
            assert [(site.choice.device, site.choice.share) for site in fleet.sites.values()] == places
        finally:
            fleet.close(now=True)


def test_provers_without_gpus_share_the_threads_of_their_node() -> None:
    provers, _ = place([node(8), node(4, name="m2")], ExecutorSettings(gpu_workers=2))
    assert [(spot.threads, spot.share) for spot in provers] == [(4, 2), (4, 2), (2, 2), (2, 2)]
    assert sum(spot.num_cpus for spot in provers) == 1.0, "other jobs may share the nodes"


def test_provers_that_cannot_be_spread_evenly_or_fed_are_refused() -> None:
    with pytest.raises(ClusterError, match="3 provers per node cannot be spread evenly over 2 GPUs"):
        place([node(16, 2)], ExecutorSettings(gpu_workers=3))
    with pytest.raises(ClusterError, match="cannot feed"):
        place([node(2, 1)], ExecutorSettings(gpu_workers=8))


def given(**arguments: int | None) -> Any:
    """A backend that is what it was asked to be."""
    return arguments


def test_provers_that_share_a_device_share_its_budget() -> None:
    assert make_backend(BackendChoice("tests.cluster.executor.test_placement:given", budget=1000, share=4)) == {
        "device": 0,
        "threads": 1,
        "budget": 250,
    }
    assert make_backend(BackendChoice("tests.cluster.executor.test_placement:given", share=4))["budget"] is None


def test_each_worker_of_a_node_has_its_own_part_of_the_synthesisers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of eight GPUs with 21 CPUs asked for 24, so that one of them waited for ever."""
    from cluster.executor import ray as over_ray

    asked: list[float] = []
    monkeypatch.setattr(over_ray, "_actor", lambda spec, node, cpus, gpus, calls: asked.append(cpus))
    for cpus, gpus in ((21, 8), (13, 8), (32, 2), (5, 4)):
        asked.clear()
        provers, synthesisers = place([node(cpus, gpus)], ExecutorSettings())
        sites = over_ray.RayFleet(ExecutorSettings())._settle(provers, synthesisers)
        assert len(asked) == gpus
        assert sum(asked) <= cpus
        names = [name for site in sites for name in site.worker.synthesisers]
        assert len(names) == len(set(names)) == max(gpus, len(synthesisers))


@pytest.mark.parametrize(
    ("gpus", "limit", "idle", "asked"),
    [
        ([2], None, 90 << 30, 0),
        ([0, 2], None, 70 << 30, 1),
        ([2, 2, 0], None, 70 << 30, 1),
        ([2, 2], 40 << 30, 40 << 30, 1),
        ([0, 0], None, 0, 0),
    ],
)
def test_the_memory_of_gpus_here_is_found_without_a_process_for_it(
    gpus: list[int], limit: int | None, idle: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other nodes are asked over Ray. A task on its own node had a job's workers start a second later."""
    from cluster.executor import ray as over_ray

    tasks: list[str] = []

    class Task:
        def options(self, num_cpus: int, scheduling_strategy: Any) -> Task:
            tasks.append(scheduling_strategy.node_id)
            return self

        def remote(self) -> str:
            return "asked"

    monkeypatch.setattr(over_ray, "idle_memory", lambda: 90 << 30)
    monkeypatch.setattr(over_ray.ray, "remote", lambda call: Task())
    monkeypatch.setattr(over_ray, "answered", lambda ref, seconds: 70 << 30)
    fleet = over_ray.RayFleet(ExecutorSettings(device_memory=limit))
    fleet._nodes = [node(8, count, f"{number}" * 56) for number, count in enumerate(gpus)]
    assert fleet._device_memory() == idle
    assert len(tasks) == asked
    assert fleet._nodes[0].id not in tasks


@pytest.mark.parametrize(
    ("provers", "verifies"),
    [
        ((8, 8), [8, 8]),
        ((8, 0), [0, 8]),
        ((8, 0, 0), [0, 4, 4]),
        ((8,) * 16, [8] * 16),
        ((8, 1), [1, 8]),
        ((4,), [0]),
    ],
)
def test_what_nodes_verify_for_each_other_is_shared_out(provers: tuple[int, ...], verifies: list[int]) -> None:
    """Each of 16 nodes would have started verifiers for the provers of all others."""
    nodes = [node(128, 8, "n" * number) for number in range(1, len(provers) + 1)]
    homes = [each.id for each, count in zip(nodes, provers, strict=True) for _ in range(count)]
    assert [provers_for(each, nodes, homes) for each in nodes] == verifies
    assert provers_for(node(0, 1, "without"), [*nodes, node(0, 1, "without")], homes) == 0


def test_a_prover_has_four_verifiers_where_there_are_cores_for_them() -> None:
    assert [how_many(*each) for each in ((0, 128), (1, 128), (8, 128), (8, 16), (1, 2))] == [0, 4, 32, 4, 1]
