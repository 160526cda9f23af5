"""What becomes of a training on two hosts to which something happens, and how long that takes.

    python -m benchmarks.faults run [KEY ...]   let each happen, or these; append rows to results/faults.jsonl
    python -m benchmarks.faults write           write the table into docs/faults.md, from the newest rows

Hosts are network namespaces, so this needs root on Linux. What happens, and what must be seen then, is in
tests/machines/faults, where the tests have it from; no number in the table is typed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.hosts import why_no_hosts
from tests.machines import hosts as made
from tests.machines import sshd
from tests.machines.cluster import Cluster, environment_of
from tests.machines.faults.bed import DEADLINE_SECONDS, OURS, OWN, Bed, in_one_process
from tests.machines.faults.happening import PATIENCE_SECONDS
from tests.machines.faults.table import ANEW, ENDS, FAULTS, Fault
from tests.machines.hosts import Hosts

from hasten.machine import this_machine

from .fault_words import WORDS
from .results import DOCS, FOLDER, between, now

FILE = FOLDER / "faults.jsonl"
PAGE = DOCS / "faults.md"
_BEGIN, _END = "<!-- faults: begin -->", "<!-- faults: end -->"
_KINDS = {OWN: "its own", OURS: "none"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "write"))
    parser.add_argument("keys", nargs="*", metavar="KEY", help='as in "killed, own ranks"')
    arguments = parser.parse_args()
    if arguments.what == "run":
        raise SystemExit(
            0 if run([one for one in FAULTS if not arguments.keys or one.key in arguments.keys]) else 1
        )
    PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), _BEGIN, _END, table(rows())), encoding="utf-8")


def run(faults: Sequence[Fault]) -> bool:
    """Whether all were as they must be."""
    right = True
    with _hosts() as (hosts, folder):
        expected = {script: in_one_process(folder / f"alone-{script}", script) for script in (OWN, OURS)}
        for number, fault in enumerate(faults):
            try:
                row = one(fault, hosts, folder / str(number), expected[fault.script])
            except AssertionError as error:  # it did not come to what was to happen
                print(f"{fault.key}: {error}", flush=True)
                right = False
                continue
            with FILE.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{fault.key}: {'; '.join(row['wrong']) or 'right'} {_cells(row)[1:]}", flush=True)
            right = right and not row["wrong"]
    return right


def one(fault: Fault, hosts: Hosts, folder: Path, expected: list[float]) -> dict[str, Any]:
    """Let it happen, in that folder."""
    folder.mkdir()
    seen = fault.happens(Bed(Cluster(hosts, folder, environment_of(hosts, folder)), fault.script))
    wrong = fault.wrong(seen, expected)
    if wrong:
        print(seen.text)
    return {
        "key": fault.key,
        "name": fault.name,
        "script": fault.script,
        "then": fault.then,
        "notice_seconds": seen.notice_seconds(fault.said[0]) if fault.said else None,
        "recover_seconds": seen.recover_seconds if fault.then != ENDS else None,
        "end_seconds": seen.end_seconds,
        "again": seen.again,
        "code": seen.code,
        "wrong": wrong,
        "deadline_seconds": DEADLINE_SECONDS,
        "patience_seconds": PATIENCE_SECONDS,
        "at": now(),
        "torch": version("torch"),
        "machine": this_machine().identity,
    }


@contextmanager
def _hosts() -> Iterator[tuple[Hosts, Path]]:
    why = why_no_hosts() or sshd.why_not()
    if why:
        raise SystemExit(why)
    with ExitStack() as until_end:
        folder = Path(until_end.enter_context(tempfile.TemporaryDirectory()))
        found = until_end.enter_context(made.hosts(folder))
        until_end.enter_context(sshd.servers({host: found.start(host) for host in found.names}, folder))
        yield found, folder


def rows() -> dict[str, dict[str, Any]]:
    """The newest of each fault."""
    kept = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return {row["key"]: row for row in kept}


def table(kept: Mapping[str, dict[str, Any]]) -> str:
    """As Markdown, in the order of the faults: those of one name under its words."""
    lines = [
        "| fault | torchrun | Slurm, MPI | the script's ranks | then | noticed after |"
        " ended, or trains again, after | steps again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    named = ""
    for fault in FAULTS:
        if fault.key not in kept:
            continue
        words = WORDS[fault.name] if fault.name != named else ("", "")
        first = fault.name if fault.name != named else ""
        named = fault.name
        lines.append(f"| {' | '.join((first, *words, *_cells(kept[fault.key])))} |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    over = row["end_seconds"] if row["then"] == ENDS else row["recover_seconds"]
    again = str(row["again"]) if row["then"] != ENDS else ""
    then = row["then"] if row["then"] != ANEW else "begins anew"
    return [_KINDS[row["script"]], then, _seconds(row["notice_seconds"]), _seconds(over), again]


def _seconds(found: float | None) -> str:
    return "" if found is None else f"{max(found, 0.0):.1f} s"


if __name__ == "__main__":
    main()
