"""What hosts that are to train together are like, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HostFacts:
    """``alike``: what all hosts must have in common, by what it is called. ``files``: digests of the script
    and of the modules next to it. ``given``: digests of files and folders that the command line names;
    ``named``: of those that the script does, by path.
    """

    alike: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 0
    memory_bytes: int = 0  # that can be had
    disk_bytes: int = 0  # free in the working directory


@dataclass(frozen=True)
class Host:
    """``clock_seconds``: by how much its clock is ahead of the first host's."""

    name: str
    ranks: tuple[int, ...]
    address: str
    facts: HostFacts
    clock_seconds: float = 0.0


@dataclass(frozen=True)
class Link:
    """Between two hosts, by their numbers. ``failed``: why nothing came through, "" if it did."""

    one: int
    other: int
    latency_seconds: float = 0.0  # there and back, halved
    bytes_per_second: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Fault:
    """``stops``: they cannot train together. ``advice``: what to do."""

    text: str
    advice: str
    stops: bool = False


@dataclass(frozen=True)
class Preflight:
    """What a check of the hosts has found."""

    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    faults: tuple[Fault, ...]

    @property
    def ready(self) -> bool:
        """Whether they can train together."""
        return not any(fault.stops for fault in self.faults)
