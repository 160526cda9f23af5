"""The curve of time against threads, in text."""

from __future__ import annotations

from dataclasses import replace

from hasten.records.curve import ThreadCurve, ThreadPoint
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.trial import Ratio
from hasten.report.threads import thread_lines


def exactly(ratio: float) -> Ratio:
    return Ratio(ratio, ratio, ratio, 5, "pairs")


CURVE = ThreadCurve(
    usual=4,
    together_with=Plan({"bf16": {}}),
    points=(
        ThreadPoint(1, exactly(3.2)),
        ThreadPoint(2, exactly(1.6)),
        ThreadPoint(4, exactly(1.0)),
        ThreadPoint(8, exactly(1.1), hyperthreads=True),
    ),
    usual_seconds=0.01,
)


def test_a_whole_curve() -> None:
    assert thread_lines(CURVE) == [
        "",
        "Time of a step by number of threads, with bf16:",
        "     1     32 ms  ########################################",
        "     2     16 ms  ####################",
        "     4     10 ms  ############  (as torch chooses)",
        "     8     11 ms  ##############  (hyper-threads: more threads than cores)",
        "  More than 4 threads gain nothing.",
    ]


def test_what_is_missing_is_said_with_its_reason() -> None:
    first, second, usual, last = CURVE.points
    some = replace(
        CURVE,
        together_with=BASELINE,
        points=(
            replace(first, ratio=None),
            replace(second, ratio=None),
            usual,
            replace(last, ratio=None, failed=Reason("failed", failure="it hung")),
        ),
    )
    assert thread_lines(some) == [
        "",
        "Time of a step by number of threads:",
        "     4     10 ms  ########################################  (as torch chooses)",
        "  Not measured with 8 threads: it hung.",
        "  Not measured with 1, 2 threads: the budget ended before.",
    ]


def test_one_number_alone_is_no_curve() -> None:
    """There was no time for others; what is not tried says so."""
    points = tuple(replace(point, ratio=None) for point in CURVE.points if point.threads != 4)
    assert thread_lines(replace(CURVE, points=(*points, CURVE.points[2]))) == []


def test_the_last_point_may_be_the_best() -> None:
    rising = replace(CURVE, points=CURVE.points[:3])
    assert thread_lines(rising)[-1] == "  The largest number, 4 threads, is the fastest."


def test_what_the_intervals_do_not_tell_is_not_said_to_be_nothing() -> None:
    vague = ThreadPoint(1, Ratio(1.4, 0.2, 9.0, 2, "pairs"))
    curve = replace(CURVE, points=(vague, *CURVE.points[2:]))
    assert thread_lines(curve)[-1] == "  More than 1 thread seems to help, up to 4, but that is not certain."


def test_one_thread_may_be_enough() -> None:
    flat = replace(CURVE, points=(ThreadPoint(1, exactly(1.0)), ThreadPoint(4, exactly(1.0))))
    assert thread_lines(flat)[-1] == "  More than 1 thread gains nothing."


def test_times_are_relative_where_no_step_was_timed() -> None:
    assert thread_lines(replace(CURVE, usual_seconds=None))[2].split()[:2] == ["1", "3.20"]


def test_a_machine_with_one_number_has_no_curve() -> None:
    assert thread_lines(replace(CURVE, points=CURVE.points[:1])) == []
