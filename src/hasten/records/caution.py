"""What may spoil measured numbers: codes and facts, which ``report`` puts into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "busy",
    "quota",
    "swapped",
    "hot",
    "gpu clock",
    "few blocks",
    "warming up",
    "growing",
    "two speeds",
    "became slower",
    "disturbed",
    "wrote outside",
    "not written down",
    "new journal",
    "another model",
    "fewer threads",
]


@dataclass(frozen=True)
class Disturbance:
    """``disturbed`` of ``blocks`` of steps were disturbed by other programs or, ``by_host``, by the host of a
    virtual machine; ``set_aside`` of these were measured again, which took ``seconds``; ``kept`` were not, as
    it had gone on from the start.
    """

    blocks: int
    disturbed: int
    set_aside: int
    seconds: float
    by_host: bool = False
    kept: int = 0


@dataclass(frozen=True)
class Caution:
    """One thing that spoils, or may spoil, what was measured. ``code``:

    "busy": other programs had ``share`` of the cores before measuring began. "quota": it stopped the
    training in ``share`` of its periods. "swapped": memory was. "hot": cores slowed down ``count`` times.
    "gpu clock": one moved. "few blocks": only ``count`` could be watched. "warming up": steps became faster
    by ``share`` while they were watched; "growing": ever slower. "two speeds": steps run at two. "became
    slower": plain steps took ``times`` as long at the end of a tune as at its beginning. "disturbed": as
    ``disturbance`` says. "wrote outside": the script wrote or removed ``paths`` outside its folder. "not
    written down": a trial, a plan or the result, for the reason ``text``. "new journal": the old one was
    corrupt and is now at ``text``. "another model": the script calls one for the first time in step
    ``count``. "fewer threads": other programs kept processors busy, so the plan has fewer than plain.
    """

    code: Code
    share: float = 0.0
    count: int = 0
    times: float = 1.0
    disturbance: Disturbance | None = None
    paths: tuple[str, ...] = ()
    text: str = ""
