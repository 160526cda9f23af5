"""What becomes of the others when a rank of the backend shm is killed, stopped, or out of memory in the midst
of all-reduces: each many times, at moments drawn at random.

    python -m benchmarks.dying_ranks [--times 30]

Every other rank must raise within the group's timeout and name the rank; no process and no file may stay.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.inside.distributed.ranks import ended, ranks
from tests.processes import started_with

from .results import write_result

TIMEOUT_SECONDS = 3.0
WAYS = ("killed", "stopped", "out of memory")
TRAINS = """
import resource, threading
start("shm", float(os.environ["TIMEOUT"]))
numbers = torch.ones(int(os.environ["COUNT"]))

def run_out():
    if sys.stdin.readline():
        resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))

threading.Thread(target=run_out, daemon=True).start()
try:
    for step in range(10**9):
        kept = torch.empty(2**24).fill_(0.0) if step % 8 == 0 else None  # 64 MiB: once, there is no room
        dist.all_reduce(numbers)
        if step == 20:
            print("going", flush=True)
except RuntimeError as error:
    print(type(error).__name__, error, flush=True)
    os._exit(9)
"""


def one(way: str, size: int, count: int, moment: float) -> dict[str, Any]:
    """What the others did, and after how many seconds the last of them had ended."""
    before = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as folder:
        settings = {"TIMEOUT": str(TIMEOUT_SECONDS), "COUNT": str(count)}
        with ranks(Path(folder), TRAINS, size, **settings) as started:
            for process in started:
                assert process.stdout is not None
                assert process.stdout.readline() == "going\n"
            time.sleep(moment)
            last, others = started[-1], started[:-1]
            began = time.monotonic()
            if way == "out of memory":
                assert last.stdin is not None
                last.stdin.write("now\n")
                last.stdin.flush()
            else:
                os.kill(last.pid, signal.SIGKILL if way == "killed" else signal.SIGSTOP)
            found = [ended(process) for process in others]
            seconds = time.monotonic() - began
            said = [other.stdout.strip() for other in found]
        orphans = started_with("STORE", str(Path(folder, "store")))
    left = sorted(set(os.listdir("/dev/shm")) - before)
    named = [text.startswith("RankGone rank ") for text in said]
    right = all(other.code == 9 for other in found) and all(named) and not left and not orphans
    return {"way": way, "size": size, "count": count, "seconds": seconds, "said": said, "right": right}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=30)
    arguments = parser.parse_args()
    drawn, rows = random.Random(0), []
    for way in WAYS:
        for number in range(arguments.times):
            size, count = (2, 3)[number % 2], (10, 100_000, 4_000_000)[number % 3]
            rows.append(one(way, size, count, drawn.uniform(0, 0.2)))
        mine = [row for row in rows if row["way"] == way]
        right = sum(row["right"] for row in mine)
        slowest = max(row["seconds"] for row in mine)
        print(
            f"{way}: in {right} of {len(mine)} all others raised and named a rank, and nothing stayed; after "
            f"{median(row['seconds'] for row in mine):.2f} s, at most {slowest:.2f} s",
            flush=True,
        )
    write_result("dying_ranks", {"timeout_seconds": TIMEOUT_SECONDS, "rows": rows})
    raise SystemExit(0 if all(row["right"] for row in rows) else 1)


if __name__ == "__main__":
    main()
