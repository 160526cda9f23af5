"""The list of techniques as people read it."""

from __future__ import annotations

import io

from hasten.records.technique_list import Entry, Listing
from hasten.report.console import open_console
from hasten.report.technique_list import print_techniques


def test_what_hinders_all_of_them_comes_first_and_once() -> None:
    entries = tuple(
        Entry(name, "does it", "application", "exact", "live", ("the script cannot be tuned", *more))
        for name, more in (("first", ()), ("second", ("no GPU",)))
    )
    stream = io.StringIO()
    print_techniques(Listing("t.py", "", entries, obstacles=("t.py:7 does it itself",)), open_console(stream))
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert lines[0] == "cannot be tuned: t.py:7 does it itself"
    assert [line for line in lines if line.startswith("no: ")] == [
        "no: the script cannot be tuned",
        "no: the script cannot be tuned; no GPU",
    ]
