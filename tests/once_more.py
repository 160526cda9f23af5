"""Runs pytest; where up to three tests fail, runs these once more by themselves, and names them.

    python -m tests.once_more -n 3 tests

On a busy machine a test may fail because what it waits for comes too late. What fails twice is broken. What
passes the second time is named at the end, since a test that needs luck is to be mended, too. Exit codes are
pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LASTFAILED = Path(".pytest_cache", "v", "cache", "lastfailed")  # pytest writes it; --cache-clear begins anew
MOST = 3  # more are no accident
SOME_FAILED = 1  # pytest's exit code


def main(arguments: Sequence[str]) -> int:
    code = pytest("--cache-clear", *arguments)
    failed = failed_tests(LASTFAILED) if code == SOME_FAILED else []
    if not 0 < len(failed) <= MOST:
        return code
    print(f"\n{len(failed)} failed. Once more, by themselves:", *failed, sep="\n  ", flush=True)
    code = pytest(*(word for word in arguments if word.startswith("--thorough")), *failed)
    if code == 0:
        print("\nThe first time these failed, the second time they passed:", *failed, sep="\n  ", flush=True)
    return code


def pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments]).returncode


def failed_tests(file: Path) -> list[str]:
    """Their node ids; none where a whole file failed, as one that cannot be imported."""
    if not file.exists():
        return []
    found = sorted(json.loads(file.read_text()))
    return found if all("::" in name for name in found) else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
