"""What a container is granted, read from files as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from distprove.host.cgroup import MemoryLimit, cpu_quota, memory_available, memory_limit, memory_total


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The process is in group /pod/box."""
    path = tmp_path / "cgroup"
    path.write_text("0::/pod/box\n")
    (tmp_path / "fs" / "pod" / "box").mkdir(parents=True)
    return path


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_the_memory_limit_of_any_parent_counts(tmp_path: Path, own: Path) -> None:
    root, pod = tmp_path / "fs", tmp_path / "fs" / "pod"
    write(pod / "box", memory__max="max", memory__current=1 << 20)
    assert memory_limit(root, own) is None
    assert memory_total(root, own) == psutil.virtual_memory().total
    write(pod, memory__max=64 << 20, memory__current=60 << 20)
    assert memory_limit(root, own) == MemoryLimit(64 << 20, 60 << 20)
    assert memory_available(root, own) == 4 << 20
    write(pod, memory__current=65 << 20)
    assert memory_available(root, own) == 0


def test_the_group_that_leaves_least_decides(tmp_path: Path, own: Path) -> None:
    root, pod = tmp_path / "fs", tmp_path / "fs" / "pod"
    write(pod, memory__max=100 << 20, memory__current=90 << 20)
    write(pod / "box", memory__max=50 << 20, memory__current=5 << 20)
    assert memory_limit(root, own) == MemoryLimit(100 << 20, 90 << 20)
    assert memory_total(root, own) == 50 << 20, "whatever is used of it"


def test_what_the_kernel_gives_back_by_itself_is_not_used(tmp_path: Path, own: Path) -> None:
    """Files that were read once fill a group to its limit."""
    root, pod = tmp_path / "fs", tmp_path / "fs" / "pod"
    stat = "anon 9\ninactive_file 41943040\nactive_file 7"
    write(pod, memory__max=64 << 20, memory__current=60 << 20, memory__stat=stat)
    assert memory_limit(root, own) == MemoryLimit(64 << 20, 20 << 20)
    write(root / "memory", memory__limit_in_bytes=4096, memory__usage_in_bytes=96)
    write(root / "memory", memory__stat="inactive_file 1\ntotal_inactive_file 90")
    assert memory_limit(root, tmp_path / "none") == MemoryLimit(4096, 6)


def test_version_1_is_read(tmp_path: Path) -> None:
    write(tmp_path / "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=1)
    assert memory_limit(tmp_path, tmp_path / "none") is None
    write(tmp_path / "memory", memory__limit_in_bytes=4096, memory__usage_in_bytes=96)
    assert memory_limit(tmp_path, tmp_path / "none") == MemoryLimit(4096, 96)
    write(tmp_path / "cpu", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert cpu_quota(tmp_path, tmp_path / "none") is None
    write(tmp_path / "cpu", cpu__cfs_quota_us=250000)
    assert cpu_quota(tmp_path, tmp_path / "none") == 2.5


def test_the_strictest_quota_counts(tmp_path: Path, own: Path) -> None:
    root, pod = tmp_path / "fs", tmp_path / "fs" / "pod"
    assert cpu_quota(root, own) is None
    write(pod / "box", cpu__max="max 100000")
    assert cpu_quota(root, own) is None
    write(pod, cpu__max="150000 100000")
    assert cpu_quota(root, own) == 1.5
    write(pod / "box", cpu__max="50000 100000")
    assert cpu_quota(root, own) == 0.5


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    assert memory_limit(tmp_path, tmp_path / "none") is None
    assert cpu_quota(tmp_path, tmp_path / "none") is None
    before = psutil.virtual_memory().total
    assert 0 < memory_available(tmp_path, tmp_path / "none") <= before


def test_files_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, memory__max="many", cpu__max="1 0")
    assert memory_limit(tmp_path, tmp_path / "none") is None
    assert cpu_quota(tmp_path, tmp_path / "none") is None
