"""What other hosts say is passed on, and the first failure is kept."""

from __future__ import annotations

import os

import pytest

from hasten.launch.engines.overheard import Overheard


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("hasten: torchrun on host h2 does not reach", True),
        ("hasten: port 29555 on host h1, where ranks are to meet, is not free", True),
        ("hasten: host h2: train.py raised an error of its own:", True),
        ("hasten: error: data holds something else on h2", True),
        ("hasten: train.py cannot be trained by 2 ranks on 2 hosts: host h2 trains on other samples", True),
        ("hasten: where rank 1 on host h2 stood:", False),
        ("hasten: warning: data is not there", False),
        ("hasten: 2 ranks on 2 hosts (h1: 1, h2: 1), each with its part of every batch", False),
    ],
)
def test_what_counts_as_a_cause(line: str, kept: bool) -> None:
    theirs, ours = os.pipe()
    overheard = Overheard()
    overheard.listen(os.fdopen(theirs, "rb"))
    os.write(ours, f"{line}\n".encode())
    os.close(ours)
    overheard.finish()
    assert overheard.first == (line.removeprefix("hasten: ") if kept else "")


def test_the_first_line_that_names_a_rank_and_its_host_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    theirs, ours = os.pipe()
    overheard = Overheard()
    overheard.listen(os.fdopen(theirs, "rb"))
    said = [
        "hasten: 2 ranks on 2 hosts by torchrun",
        "rank 1 on host h2 says the script",
        "hasten: rank 1 of 2 on host h2 failed: ValueError",
        "hasten: rank 0 of 2 on host h1 ended because of rank 1 on host h2: ValueError",
    ]
    text = "\n".join([*said, ""]).encode()
    for byte in range(0, len(text), 7):  # pipes cut lines wherever they like
        os.write(ours, text[byte : byte + 7])
    os.close(ours)
    overheard.finish()
    assert overheard.first == "rank 1 of 2 on host h2 failed: ValueError"
    assert capfd.readouterr().err.splitlines() == said
