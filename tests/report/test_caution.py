"""What may spoil measured numbers, as it is told: whole sentences, for their advice is part of them."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from hasten.records.caution import Caution, Code, Disturbance
from hasten.report.caution import caution_words

OTHERS = Disturbance(blocks=40, disturbed=5, set_aside=5, seconds=2.51)


@pytest.mark.parametrize(
    ("caution", "words"),
    [
        (
            Caution("busy", share=0.42),
            "other programs kept 42% of this machine's cores busy before measuring began, so intervals will "
            "be wide. Stop them, or measure when the machine is idle",
        ),
        (
            Caution("quota", share=0.1),
            "the container's CPU quota stopped the training in 10% of its periods, so times reflect the "
            "quota. Give it more CPUs, or use fewer threads (threads:count=N)",
        ),
        (
            Caution("swapped"),
            "memory was swapped to disk while tuning, so times reflect the disk. Free memory, or train with "
            "smaller batches",
        ),
        (
            Caution("hot", count=2),
            "cores slowed down 2 times because they ran hot: later steps are slower than earlier ones. Tune "
            "again when the machine has cooled",
        ),
        (
            Caution("gpu clock"),
            "a GPU's clock moved while tuning: lock it for steadier times (nvidia-smi --lock-gpu-clocks, as "
            "root), or tune with a longer --budget",
        ),
        (
            Caution("few blocks", count=12),
            "only 12 blocks of steps were observed, so anything rarer was missed. Let the script train "
            "longer or, if its steps are slow, name a longer --budget",
        ),
        (
            Caution("warming up", share=0.266),
            "steps were still getting faster while they were observed, by 27%: the script needs a longer "
            "warm-up. Compare with hasten profile --warmup 100",
        ),
        (
            Caution("growing", share=0.37),
            "steps took ever longer while they were watched, by 37%: what grows with each of them (a list, a "
            "graph that is kept) may cost a long run more than any technique saves",
        ),
        (
            Caution("another model", count=51),
            "the script calls another model from step 51 on, so it probably trains several times: the "
            "claim was measured in its first steps and assumes that the others are like them",
        ),
        (
            Caution("two speeds"),
            "steps run at two speeds: something switches between a fast and a slow state (clocks, memory, a "
            "neighbour). Pairs of processes average over it; a longer --budget narrows the interval",
        ),
        (
            Caution("became slower", times=2.04),
            "plain steps took 2.0 times as long at the end of the tune as at its beginning: the machine "
            "slowed down (clock speed or other programs). Tune again when it is steady",
        ),
        (
            Caution("disturbed", disturbance=OTHERS),
            "other programs took processor time from 5 of 40 blocks of steps: 5 were set aside and measured "
            "again, which took 3 s. Stop them, or tune when the machine is idle",
        ),
        (
            Caution("disturbed", disturbance=replace(OTHERS, set_aside=3, by_host=True)),
            "the host of this virtual machine took processor time from 5 of 40 blocks of steps: 3 were set "
            "aside and measured again, which took 3 s; 2 could not be measured again. Tune when the host "
            "is less busy",
        ),
        (
            Caution("disturbed", disturbance=replace(OTHERS, set_aside=0, kept=5, seconds=0.0)),
            "other programs took processor time from 5 of 40 blocks of steps: 5 were not measured "
            "again, as this went on from the start. Stop them, or tune when the machine is idle",
        ),
        (
            Caution("disturbed", disturbance=replace(OTHERS, set_aside=0)),
            "other programs took processor time from 5 of 40 blocks of steps: 5 could not be measured again. "
            "Stop them, or tune when the machine is idle",
        ),
        (
            Caution("disturbed", disturbance=replace(OTHERS, set_aside=1, kept=3)),
            "other programs took processor time from 5 of 40 blocks of steps: 1 was set aside and measured "
            "again, which took 3 s; 3 were not measured again, as this went on from the start; 1 could not "
            "be measured again. Stop them, or tune when the machine is idle",
        ),
        (
            Caution("wrote outside", paths=("/data/last.pt", "/data/log")),
            "the script wrote or removed files outside its folder; trials threw that away: /data/last.pt, "
            "/data/log",
        ),
        (
            Caution("wrote outside", paths=tuple(f"/data/{number}" for number in range(7))),
            "the script wrote or removed files outside its folder; trials threw that away: /data/0, /data/1, "
            "/data/2, /data/3, /data/4 and 2 more",
        ),
        (
            Caution("not written down", text="the disk is full"),
            "some results could not be saved: the disk is full",
        ),
    ],
)
def test_a_caution(caution: Caution, words: str) -> None:
    assert caution_words(caution) == words


def test_every_code_has_words() -> None:
    for code in get_args(Code):
        assert caution_words(Caution(code, disturbance=OTHERS))
