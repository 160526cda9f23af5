"""The hosts of ``tests/hosts.py`` by name, with a ``hasten`` to type there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..hosts import Network, network


@dataclass(frozen=True)
class Hosts:
    """``names`` are what they call each other by; programs in ``folder`` are found before others there."""

    network: Network
    names: tuple[str, ...]
    folder: Path

    @property
    def prefix(self) -> str:
        return self.network.mark

    def address(self, name: str) -> str:
        return self.network.address(self._number(name))

    def start(self, name: str, *argv: str) -> list[str]:
        """The command line that runs ``argv`` on a host, in the environment and folder that it is given."""
        return self.network.command(self._number(name), argv)

    def end_all(self, name: str, word: str = "") -> None:
        """Kill what runs on a host; with a ``word``, what has it in its command line, and all below it."""
        self.network.end_all(self._number(name), word)

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1


@contextmanager
def hosts(folder: Path, count: int = 2) -> Iterator[Hosts]:
    """``count`` of them, h1, h2, ..., gone at the end with what runs in them."""
    hasten = folder / "hasten"
    hasten.write_text(f'#!/bin/sh\nexec {sys.executable} -m hasten.cli.main "$@"\n')
    hasten.chmod(0o755)
    with network(count) as made:
        yield Hosts(made, tuple(f"h{number + 1}" for number in range(count)), folder)
