"""Ranks of a trial in one sandbox: what one of them writes, only the others see.

A separate process, run by path like a worker: it enters the sandbox and then starts the ranks, which need
none themselves. Ranks in separate sandboxes would not see the data that rank 0 downloads for all.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from ..inside.job import Sandbox
    from .ranks import Rank

_VARIABLE = "HASTEN_RANKS"  # the descriptor of a file that lists them


@dataclass(frozen=True)
class Start:
    """Keep ``told`` open until the process has started; it inherits ``descriptors``."""

    argv: list[str]
    environment: dict[str, str]
    descriptors: tuple[int, ...]
    told: IO[bytes]


def render(
    ranks: Sequence[Rank], sandbox: Sandbox | None, base: Mapping[str, str], python: str = sys.executable
) -> Start:
    """The process that starts ``ranks`` in ``sandbox``, which it reports through rank 0's
    conversation. ``base``: the environment of that process.
    """
    from ..records.codec import to_json

    told = [
        {
            "job": to_json(rank.job),
            "set": {name: value for name, value in rank.environment.items() if base.get(name) != value},
            "cpus": rank.cpus,
            "inherits": rank.inherits,
        }
        for rank in ranks
    ]
    file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    file.write(json.dumps({"sandbox": to_json(sandbox), "ranks": told}).encode())
    file.seek(0)
    own = [rank.job.descriptor for rank in ranks if rank.job.descriptor is not None]
    descriptors = dict.fromkeys([file.fileno(), *own, *(n for rank in ranks for n in rank.inherits)])
    environment = {**base, _VARIABLE: str(file.fileno())}
    return Start([python, str(Path(__file__).resolve())], environment, tuple(descriptors), file)


def main() -> int:
    """The exit code of all ranks together."""
    from hasten.inside.job import Job, Sandbox
    from hasten.inside.process.wire import Wire
    from hasten.inside.sandbox.entering import enter_sandbox
    from hasten.launch.ranks import Rank, run_ranks
    from hasten.records.codec import from_json
    from hasten.saying import say

    with open(int(os.environ.pop(_VARIABLE)), "rb") as file:
        told = json.load(file)
    ranks = [
        Rank(
            from_json(Job, one["job"]),
            {**os.environ, **one["set"]},
            tuple(one["cpus"]),
            tuple(one["inherits"]),
        )
        for one in told["ranks"]
    ]
    sandbox = from_json(Sandbox, told["sandbox"]) if told["sandbox"] is not None else None
    first = ranks[0].job.descriptor
    enter_sandbox(sandbox, Wire.from_descriptor(os.dup(first)) if first is not None else None)
    return run_ranks(ranks, lambda text: say(f"hasten: {text}"))


if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    sys.exit(main())
