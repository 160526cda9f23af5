"""What other hosts say is passed on, and the first failure is kept."""

from __future__ import annotations

import os

import pytest

from hasten.launch.engines.overheard import Overheard


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
