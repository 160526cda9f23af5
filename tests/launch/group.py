"""Ranks of a script as ``hasten run`` starts them: ``python -m tests.launch.group N SCRIPT [all]``.

With "sandboxed" in place of "all", all but rank 0 are in a sandbox.
"""

from __future__ import annotations

import os
import sys

from hasten.inside.job import Job, Sandbox
from hasten.launch.ranks import Rank, run_ranks

from ..bench.made_up import machine


def main(count: str, script: str, how: str = "") -> int:
    size = int(count)
    common = {**os.environ, "WORLD_SIZE": count}
    sandbox = Sandbox((os.getcwd(),), "", required=False) if how == "sandboxed" else None
    ranks = [
        Rank(Job((script,), machine(), sandbox=sandbox if number else None), {**common, "RANK": str(number)})
        for number in range(size)
    ]
    return run_ranks(ranks, lambda text: print(f"hasten: {text}", file=sys.stderr), all_speak=how == "all")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
