"""Cores, caches and NUMA nodes, read from files as the kernel lays them out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distprove.host.topology import Domain, Topology, read_topology


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two sockets of two cores of two threads: 0-1 and 4-5 on the first, 2-3 and 6-7 on the second."""
    for cpu in range(8):
        core, socket = cpu % 4, cpu % 4 // 2
        folder = tmp_path / "cpu" / f"cpu{cpu}"
        write(folder / "topology" / "thread_siblings_list", f"{core},{core + 4}")
        sharing = "0-1,4-5" if socket == 0 else "2-3,6-7"
        caches = [(1, "Data", "32K", f"{core},{core + 4}"), (2, "Unified", "1M", f"{core},{core + 4}")]
        for index, (level, kind, size, cpus) in enumerate([*caches, (3, "Unified", "32768K", sharing)]):
            for name, value in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cpus)):
                write(folder / "cache" / f"index{index}" / name, str(value))
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        write(tmp_path / "node" / f"node{node}" / "cpulist", cpus)
        write(
            tmp_path / "node" / f"node{node}" / "meminfo",
            f"Node {node} MemTotal:       1024 kB\nNode {node} MemFree: 1 kB",
        )
    write(tmp_path / "node" / "node2" / "cpulist", "")  # memory alone
    write(tmp_path / "node" / "possible", "0-2")
    return tmp_path


def test_everything_is_read(tree: Path) -> None:
    found = read_topology(tree, range(8))
    assert found == Topology(
        cores=4,
        siblings=2,
        l3=(Domain("0-1,4-5", 4, 32 << 20), Domain("2-3,6-7", 4, 32 << 20)),
        numa=(Domain("0-1,4-5", 4, 1 << 20), Domain("2-3,6-7", 4, 1 << 20)),
    )
    assert str(found) == "4 cores x 2 threads, 2 L3 domains of 32 MiB, 2 NUMA nodes"


def test_only_what_may_be_used_counts(tree: Path) -> None:
    found = read_topology(tree, {0, 1, 5})
    assert (found.cores, found.siblings) == (2, 2)
    assert found.l3 == (Domain("0-1,5", 3, 32 << 20),)
    assert found.numa == (Domain("0-1,5", 3, 1 << 20),)
    alone = read_topology(tree, {6})
    assert (alone.cores, alone.siblings, len(alone.l3), len(alone.numa)) == (1, 1, 1, 1)


def test_what_is_missing_or_garbled_is_left_out(tree: Path, tmp_path: Path) -> None:
    assert read_topology(tmp_path / "nothing", range(4)) == Topology()
    assert str(Topology()) == ""
    for cpu in range(8):
        folder = tree / "cpu" / f"cpu{cpu}"
        (folder / "topology" / "thread_siblings_list").write_text("0-99999999999\n")
        (folder / "cache" / "index2" / "size").write_text("large\n")
        (folder / "cache" / "index1" / "level").unlink()
    (tree / "node" / "node0" / "cpulist").write_bytes(b"\xff\xfe\n")
    (tree / "node" / "node1" / "meminfo").unlink()
    found = read_topology(tree, range(8))
    assert found.cores == 0
    assert [domain.nbytes for domain in found.l3] == [0, 0]
    assert found.numa == (Domain("2-3,6-7", 4, 0),)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/cpu0/topology").is_dir(), reason="/sys shows no processors")
def test_this_machine() -> None:
    found = read_topology()
    usable = len(os.sched_getaffinity(0))
    assert 1 <= found.cores <= usable
    assert found.cores * found.siblings >= usable
    assert sum(domain.count for domain in found.l3) <= usable
