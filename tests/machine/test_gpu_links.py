"""How GPUs are joined, read from tables as nvidia-smi prints them."""

from __future__ import annotations

import pytest

from hasten.machine.gpu_links import read_links

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""
PCIE = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPHB\t0-63\t0\t\tN/A\nGPU1\tPHB\t X \t0-63\t0\t\tN/A\n" + LEGEND
)
ONE = "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \t0-15\t0\t\tN/A\n" + LEGEND


def nvlink(links: str = "NV18") -> str:
    """Eight GPUs and two network cards on two NUMA nodes, the header underlined."""
    names = [f"GPU{n}" for n in range(8)]
    header = "\t".join(["\t\x1b[4mGPU0", *names[1:], "NIC0", "NIC1", "CPU Affinity", "NUMA Affinity"])
    lines = [f"{header}\tGPU NUMA ID\x1b[0m"]
    for row, name in enumerate(names):
        cells = [" X " if row == column else links for column in range(8)]
        cards = ["PIX", "SYS"] if row < 4 else ["SYS", "PIX"]
        cpus = ["0-23,96-119", "0"] if row < 4 else ["24-47,120-143", "1"]
        lines.append("\t".join([name, *cells, *cards, *cpus, "", "N/A"]))
    for card, cells in (("NIC0", ["PIX"] * 4 + ["SYS"] * 4), ("NIC1", ["SYS"] * 4 + ["PIX"] * 4)):
        lines.append("\t".join([card, *cells, *([" X ", "SYS"] if card == "NIC0" else ["SYS", " X "])]))
    return "\n".join([*lines, LEGEND, "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"])


def test_eight_gpus_by_nvlink() -> None:
    found = read_links(nvlink())
    assert found is not None
    assert len(found.table) == 8
    assert found.table[2] == ("NV18", "NV18", "X", *["NV18"] * 5)
    assert {kind: len(pairs) for kind, pairs in found.pairs().items()} == {"NV18": 28}


def test_two_gpus_by_pcie() -> None:
    found = read_links(PCIE)
    assert found is not None
    assert found.table == (("X", "PHB"), ("PHB", "X"))
    assert found.pairs() == {"PHB": ((0, 1),)}


def test_several_kinds_are_told_apart() -> None:
    rows = ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"]
    table = "\n".join(f"GPU{n} {row} 0-9" for n, row in enumerate(rows))
    found = read_links(f"      GPU0 GPU1 GPU2 GPU3 CPU Affinity\n{table}")
    assert found is not None
    assert found.pairs() == {"NV4": ((0, 1), (2, 3)), "SYS": ((0, 2), (0, 3), (1, 2), (1, 3))}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ONE,
        "Failed to initialize NVML: Driver/library version mismatch",
        PCIE.replace("GPU1\tPHB\t X \t0-63\t0\t\tN/A\n", ""),  # cut off
        PCIE.replace("PHB\t0-63", "???\t0-63"),
        PCIE.replace(" X \tPHB", " X "),
        "GPU0 GPU1",
    ],
    ids=["nothing", "one GPU", "an error", "a row missing", "unknown links", "a cell missing", "no rows"],
)
def test_what_tells_nothing_of_two_gpus_is_none(text: str) -> None:
    assert read_links(text) is None
