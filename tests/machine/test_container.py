from __future__ import annotations

from pathlib import Path

import pytest

from hasten.machine import container

from .conftest import Record

GIB = 2**30
V2_MOUNT = "31 23 0:28 {top} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "3{n} 31 0:3{n} {top} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
OTHER_MOUNT = "23 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"


def nested_v2() -> dict[str, str]:
    """A job two groups deep: the inner one limits the CPU, the outer one the memory."""
    outer = "sys/fs/cgroup/slurm"
    return {
        "proc/self/cgroup": "0::/slurm/job_7\n",
        "proc/self/mountinfo": OTHER_MOUNT + V2_MOUNT.format(top="/"),
        f"{outer}/cpu.max": "400000 100000\n",
        f"{outer}/memory.max": f"{8 * GIB}\n",
        f"{outer}/memory.current": f"{5 * GIB}\n",
        f"{outer}/memory.stat": f"anon 1\ninactive_file {2 * GIB}\nactive_file 77\n",
        f"{outer}/job_7/cpu.max": "150000 100000\n",
        f"{outer}/job_7/memory.max": "max\n",
        f"{outer}/job_7/memory.current": f"{4 * GIB}\n",
    }


def v1(top: str, path: str, *, quota: str = "250000", limit: int = 2 * GIB) -> dict[str, str]:
    """A container whose two controllers are mounted from the group ``top`` downwards."""
    cpu, memory = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/memory"
    return {
        "proc/self/cgroup": f"5:memory:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:{path}\n",
        "proc/self/mountinfo": OTHER_MOUNT
        + V1_MOUNT.format(n=2, top=top, name="cpu,cpuacct")
        + V1_MOUNT.format(n=3, top=top, name="memory"),
        f"{cpu}/cpu.cfs_quota_us": f"{quota}\n",
        f"{cpu}/cpu.cfs_period_us": "100000\n",
        f"{memory}/memory.limit_in_bytes": f"{limit}\n",
        f"{memory}/memory.usage_in_bytes": f"{GIB}\n",
        f"{memory}/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 2}\n",
    }


def limits(root: Path) -> tuple[float | None, int | None, int | None]:
    return container.quota_cpus(root), container.memory_limit_bytes(root), container.memory_left_bytes(root)


def test_v2_takes_the_smallest_limit_of_all_groups_on_the_way_up(record: Record) -> None:
    assert limits(record(nested_v2())) == (1.5, 8 * GIB, 5 * GIB)


def test_v2_outer_quota_binds_where_it_is_the_smaller_one(record: Record) -> None:
    root = record(nested_v2() | {"sys/fs/cgroup/slurm/cpu.max": "50000 100000\n"})
    assert container.quota_cpus(root) == 0.5


def test_v2_group_that_limits_nothing_is_no_limit(record: Record) -> None:
    outer = "sys/fs/cgroup/slurm"
    unlimited = {f"{outer}/cpu.max": "max 100000\n", f"{outer}/memory.max": "max\n"}
    root = record(nested_v2() | unlimited | {f"{outer}/job_7/cpu.max": "max 100000\n"})
    assert limits(root) == (None, None, None)


def test_v2_groups_next_to_our_own_are_not_ours(record: Record) -> None:
    root = record(nested_v2() | {"sys/fs/cgroup/slurm/job_8/cpu.max": "10000 100000\n"})
    assert container.quota_cpus(root) == 1.5


def test_v2_use_above_the_limit_leaves_nothing(record: Record) -> None:
    root = record(nested_v2() | {"sys/fs/cgroup/slurm/memory.current": f"{11 * GIB}\n"})
    assert container.memory_left_bytes(root) == 0


@pytest.mark.parametrize(
    ("top", "path"),
    [
        ("/", "/"),  # a cgroup namespace of its own
        ("/docker/abc", "/docker/abc"),  # without one: the host's path, mounted from there
    ],
)
def test_v1_limits_lie_in_the_group_that_is_mounted(record: Record, top: str, path: str) -> None:
    assert limits(record(v1(top, path))) == (2.5, 2 * GIB, 3 * GIB // 2)


def test_v1_limits_of_a_parent_bind_a_group_without_files(record: Record) -> None:
    assert limits(record(v1("/", "/slurm/uid_1/job_2"))) == (2.5, 2 * GIB, 3 * GIB // 2)


def test_v1_group_below_the_mounted_one_is_found(record: Record) -> None:
    inner = {f"sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_{name}_us": "100000\n" for name in ("quota", "period")}
    assert container.quota_cpus(record(v1("/docker/abc", "/docker/abc/job") | inner)) == 1.0


def test_v1_writes_no_limit_as_minus_one_and_as_a_huge_number(record: Record) -> None:
    root = record(v1("/", "/", quota="-1", limit=2**63 - 4096))
    assert limits(root) == (None, None, None)


def test_limits_of_both_versions_hold_on_a_hybrid_machine(record: Record) -> None:
    files = v1("/", "/")
    root = record(
        files
        | {
            "proc/self/cgroup": files["proc/self/cgroup"] + "0::/user\n",
            "proc/self/mountinfo": files["proc/self/mountinfo"]
            + V2_MOUNT.format(top="/").replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
            "sys/fs/cgroup/unified/user/memory.max": f"{GIB}\n",
        }
    )
    assert container.quota_cpus(root) == 2.5
    assert container.memory_limit_bytes(root) == GIB


@pytest.mark.parametrize(
    ("top", "path"),
    [
        ("/docker/other", "/docker/abc"),  # somebody else's group, mounted to be watched
        ("/", "/../abc"),  # our group lies outside of the namespace
    ],
)
def test_a_mount_that_does_not_hold_our_group_is_no_limit(record: Record, top: str, path: str) -> None:
    assert limits(record(v1(top, path))) == (None, None, None)


def test_there_is_no_limit_where_there_are_no_groups(tmp_path: Path) -> None:
    assert limits(tmp_path) == (None, None, None)
