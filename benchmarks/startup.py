"""How long ``hasten --help`` takes compared with a bare interpreter, alternated. The promise: under 0.3 s."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from .results import write_result

_COMMANDS = {"python": ["-c", "pass"], "hasten --help": ["-m", "hasten.cli.main", "--help"]}
_REPEATS = 20


def measured() -> dict[str, list[float]]:
    """Seconds of each start, by what was started."""
    seconds: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for _ in range(_REPEATS):
        for name, words in _COMMANDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - began)
    return seconds


def main() -> None:
    seconds = measured()
    for name, values in seconds.items():
        print(f"{name}: {median(values) * 1e3:.0f} ms (median of {_REPEATS})")
    write_result("startup", {"seconds": seconds})


if __name__ == "__main__":
    main()
