"""Names of hosts: what is one, and what comes near."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.launch.hosts import Host, in_file, listed, slots_of, without_user


@pytest.mark.parametrize(
    "name", ["h1", "node-07.cluster.example.org", "10.0.0.7", "fd00::1", "me@h1", "_svc@10.0.0.7", "1a"]
)
def test_hosts_are_taken(name: str) -> None:
    assert listed(name) == [Host(name)]
    assert without_user(name) == name.split("@")[-1]


HOSTILE = [
    "-oProxyCommand=touch${IFS}no", "--", "h1;id", "h1 id", "$(id)", "`id`", "h1\nh2", "h1|id", "a'b",
    'a"b', "@h1", "me@@h1", "-x@h1", "me@-h1", "h1/../x", "", "h" * 255, "h1&", "h1>x", "\u202eh1", "h1\0",
    "h1-", "é",
]  # fmt: skip


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a host: expected a name or an address"):
        listed(name)


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("name", [name for name in HOSTILE if name and "\n" not in name])
def test_a_hostfile_of_somebody_else_names_hosts_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(f"h1\n{name}\n")
    with pytest.raises(UsageError, match=r"hosts, line 2: .* is not a host"):
        in_file(str(path))


def test_hostfiles_of_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# ours\nh1 slots=2\nh2 slots = 2  # the new one\n\nh3:2\nfd00::1 slots=2\n")
    found = in_file(str(path))
    assert found == [Host("h1", 2), Host("h2", 2), Host("h3", 2), Host("fd00::1", 2)]
    assert slots_of(found) == 2
    path.write_text("h1\nh2\n")
    assert slots_of(in_file(str(path))) is None


def test_slots_that_differ_are_refused() -> None:
    with pytest.raises(UsageError, match="have different slots"):
        slots_of([Host("h1", 2), Host("h2", 4)])


def test_a_host_that_is_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="--hosts: h1 is named twice"):
        listed("h1,h2,h1")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text("# nobody\n")
    (tmp_path / "large").write_text("h1\n" * 400_000)
    for name, why in {
        "pipe": "is not a plain file",
        "bytes": "is not text",
        "empty": "names no host",
        "large": "is larger than 1 MB",
        "missing": "cannot be read: No such file or directory",
    }.items():
        with pytest.raises(UsageError, match=why):
            in_file(str(tmp_path / name))


def test_too_many_hosts_are_refused() -> None:
    with pytest.raises(UsageError, match="hasten takes at most 4096"):
        listed(",".join(f"h{number}" for number in range(4097)))
