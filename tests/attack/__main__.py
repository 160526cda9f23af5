"""Run every attack, and print what was handled and what was not: ``python -m tests.attack [ARGUMENTS]``.

Arguments are those of pytest.

Exit code 0 only where nothing is "not handled" and at least ``LEAST_CASES`` were run.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import pytest

from . import AREAS

LEAST_CASES = 300


class Tally:
    """A pytest plugin that counts outcomes by area. A case whose set-up or take-down fails is not handled."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}  # node id -> "handled", "not handled" or "not run here"
        self.areas: dict[str, str] = {}
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        area = dict(report.user_properties).get("attack")
        if area is None:
            return
        self.areas[report.nodeid] = str(area)
        if report.failed:
            self.outcomes[report.nodeid] = "not handled"
        elif report.skipped:
            self.outcomes[report.nodeid] = "not run here"
            if isinstance(report.longrepr, tuple):
                self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "handled")

    def by_area(self) -> dict[str, Counter[str]]:
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for node, outcome in self.outcomes.items():
            counted[self.areas[node]][outcome] += 1
        return counted


def table(tally: Tally) -> str:
    """One row an area, the sum, why cases were not run, and every case that was not handled."""
    counted = tally.by_area()
    rows = [f"{'':62}{'handled':>9}{'not handled':>13}{'not run here':>14}"]
    for area, what in AREAS.items():
        rows.append(_row(f"{area}: {what}", counted.get(area, Counter())))
    rows.append(_row("all", Counter(tally.outcomes.values())))
    rows += [f"not run here, {count}: {reason}" for reason, count in tally.reasons.most_common()]
    rows += [f"NOT HANDLED: {node}" for node, how in sorted(tally.outcomes.items()) if how == "not handled"]
    return "\n".join(rows)


def _row(label: str, outcomes: Counter[str]) -> str:
    return f"{label:62}{outcomes['handled']:9}{outcomes['not handled']:13}{outcomes['not run here']:14}"


def main(arguments: list[str]) -> int:
    tally = Tally()
    code = pytest.main(["-m", "attack", "--thorough", "-q", "tests", *arguments], plugins=[tally])
    print(table(tally))
    ran = Counter(tally.outcomes.values())
    if ran["handled"] < LEAST_CASES:
        print(f"only {ran['handled']} cases were handled, and {LEAST_CASES} are wanted")
        return 1
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
