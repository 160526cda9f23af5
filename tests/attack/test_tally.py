"""That the count of attacks can fail."""

from __future__ import annotations

import pytest

from .__main__ import Tally, table


def report(node: str, when: str, outcome: str, longrepr: object = None) -> pytest.TestReport:
    return pytest.TestReport(
        node,
        (node, 0, node),
        {},
        outcome,  # type: ignore[arg-type]
        longrepr,  # type: ignore[arg-type]
        when,  # type: ignore[arg-type]
        user_properties=[("attack", "files")],
    )


def test_a_case_counts_once_and_a_failed_takedown_is_not_handled() -> None:
    tally = Tally()
    for when in ("setup", "call", "teardown"):
        tally.pytest_runtest_logreport(report("good", when, "passed"))
        tally.pytest_runtest_logreport(report("bad", when, "failed" if when == "teardown" else "passed"))
    tally.pytest_runtest_logreport(report("gone", "setup", "skipped", ("f.py", 1, "Skipped: needs root")))
    assert tally.by_area()["files"] == {"handled": 1, "not handled": 1, "not run here": 1}
    printed = table(tally)
    assert "NOT HANDLED: bad" in printed
    assert "not run here, 1: needs root" in printed


def test_what_is_no_attack_does_not_count() -> None:
    tally = Tally()
    plain = report("plain", "call", "passed")
    plain.user_properties = []
    tally.pytest_runtest_logreport(plain)
    assert not tally.outcomes
