"""Python processes that begin with torch imported, which takes a second each time: forks of one process that
has imported torch and done nothing else. It starts when it is first asked, and ends with this process.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hasten.inside.process.readable import readable

from .patience import PATIENCE_SECONDS

# Each line that it reads is a list of programs; it answers with their exit codes once all have ended.
_SERVER = """
import json, os, runpy, sys
import torch

def become(script, folder, environment):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    files = (os.devnull, 0, os.O_RDONLY), (script + ".out", 1, os.O_WRONLY), (script + ".err", 2, os.O_WRONLY)
    for path, number, how in files:
        opened = os.open(path, how | (os.O_CREAT | os.O_TRUNC if number else 0), 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")

for line in sys.stdin:
    children = []
    for program in json.loads(line):
        child = os.fork()
        if not child:
            become(**program)
            sys.exit()
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print(json.dumps(codes), flush=True)
"""


@dataclass(frozen=True)
class Program:
    """A Python script, where it runs, and all of its environment."""

    script: Path
    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def run(programs: Sequence[Program]) -> list[Ended]:
    """All of them at once; what each printed, when all have ended."""
    told = [
        {"script": str(one.script), "folder": str(one.folder), "environment": dict(one.environment)}
        for one in programs
    ]
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(told) + "\n")
    server.stdin.flush()
    if not readable(server.stdout.fileno(), PATIENCE_SECONDS):
        server.kill()
        _server.cache_clear()
        raise AssertionError(f"{programs} did not end")
    codes = json.loads(server.stdout.readline())
    return [
        Ended(code, *(Path(f"{one.script}.{end}").read_text(errors="replace") for end in ("out", "err")))
        for code, one in zip(codes, programs, strict=True)
    ]


@cache
def _server() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdin=pipe, stdout=pipe, text=True)
    atexit.register(server.communicate)  # closes its input, at which it ends
    return server
