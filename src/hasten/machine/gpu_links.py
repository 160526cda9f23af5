"""How the GPUs of this machine are connected: from NVML, or from ``nvidia-smi topo -m``.

Source: nvidia-smi(1), "Topology", and the legend under the table that it prints.
"""

from __future__ import annotations

import re

from hasten.machine import nvml
from hasten.machine.probe import output_of
from hasten.records.machine import GpuLinks

_NAME = re.compile(r"GPU\d+")
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+|C2C")
_UNDERLINED = re.compile(r"\x1b\[[0-9;]*m")


def gpu_links() -> GpuLinks | None:
    """How the GPUs are connected; None for fewer than two, or if neither source reports it."""
    return nvml.links() or read_links(output_of("nvidia-smi", "topo", "-m"))


def read_links(text: str) -> GpuLinks | None:
    """The table's part about GPUs; network cards are left out. None if it is not such a table."""
    lines = [line.split() for line in _UNDERLINED.sub("", text).splitlines()]
    header = next((words for words in lines if words and _NAME.fullmatch(words[0])), [])
    count = next((n for n, name in enumerate(header) if not _NAME.fullmatch(name)), len(header))
    rows = [words for words in lines if words and _NAME.fullmatch(words[0]) and words is not header]
    if count < 2 or [words[0] for words in rows] != header[:count]:
        return None
    table = tuple(tuple(words[1 : count + 1]) for words in rows)
    if not all(len(row) == count and all(_LINK.fullmatch(link) for link in row) for row in table):
        return None
    return GpuLinks(table)
