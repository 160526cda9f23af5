"""The report of ``hasten verify`` as plain text."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from hasten.records.caution import Caution
from hasten.records.plan import Plan
from hasten.records.quality import Interval, Metric, Point, QualityVerdict, Reached, Tolerance, WholeRun
from hasten.records.trial import Ratio
from hasten.report.console import open_console
from hasten.report.machine_readable import verify_json
from hasten.report.quality import print_verify


def run(arm: str, seed: int, final: float, seconds: float) -> WholeRun:
    return WholeRun(arm, seed, seconds, 200, {"accuracy": (Point(final, seconds - 1, 200),)})


HELD = QualityVerdict(
    outcome="held",
    reason="",
    metric=Metric("accuracy", pattern="accuracy ([0-9.]+)"),
    runs=(
        run("baseline", 0, 0.80, 20.0), run("plan", 0, 0.81, 9.0),
        run("plan", 1, 0.795, 9.5), run("baseline", 1, 0.79, 21.0),
    ),
    tolerance=Tolerance(),
    allowed=0.003975,
    baseline=0.795,
    difference=Interval(0.0075, -0.003, 0.018, 2),
    wall=Ratio(0.45, 0.4, 0.5, 2, "pairs"),
    reached=Reached(
        0.795, (Point(0.80, 19.0, 200), None), (Point(0.81, 8.0, 200), Point(0.795, 8.5, 200)), None, None
    ),
    plan=Plan({"threads": {"count": 1}, "bf16": {}}),
    remarks=("bf16 has no effect here: 0 of 40 products",),
    protection="overlay",
    folder=".hasten/train/trials/004",
)  # fmt: skip


def report(verdict: QualityVerdict) -> list[str]:
    stream = io.StringIO()
    print_verify(verdict, open_console(stream, 200))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_held() -> None:
    assert report(HELD) == [
        "",
        "seed  accuracy, plain  under the plan  difference  whole run, plain  under the plan",
        "0     0.8              0.81            +0.01       20 s              9 s",
        "1     0.79             0.795           +0.005      21 s              9.5 s",
        "",
        "Quality is held: accuracy +0.0075 under the plan (-0.003 to +0.018 at 95%, 2 seeds).",
        "Quality is accuracy, what 'accuracy ([0-9.]+)' matches in its output; higher is better, and up to "
        "0.00398 (0.5% of the baseline's 0.795) worse counts as held.",
        "A whole run, start and evaluation included: 2.22x (2.00 to 2.50) faster.",
        "accuracy 0.795 (the baseline's final value, its median over seeds) is first reached after "
        "19 s (200 steps) plain, 8.25 s (200 steps) under the plan.",
        "  Not reached plain with 1 of 2 seeds.",
        "Plan: threads (count=1), bf16.",
        "About the plan: bf16 has no effect here: 0 of 40 products.",
        "Output of the runs, and all values: .hasten/train/trials/004",
    ]


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"outcome": "lost"}, "Quality is lost: accuracy +0.0075 under"),
        ({"outcome": "cannot tell"}, "Cannot tell whether quality is held: accuracy +0.0075 under"),
        (
            {"outcome": "cannot tell", "difference": None, "reason": "it sets its own seed"},
            "Cannot tell whether quality is held: it sets its own seed.",
        ),
        ({"difference": None, "reason": "the same training"}, "Quality is held: the same training."),
        ({"outcome": "failed", "reason": "plan, seed 0: boom"}, "Failed: plan, seed 0: boom."),
    ],
)
def test_the_headline(changes: dict[str, object], headline: str) -> None:
    verdict = replace(HELD, **changes)  # type: ignore[arg-type]
    assert [line for line in report(verdict) if line.startswith(headline)]


@pytest.mark.parametrize(
    ("enough", "words"),
    [(7, "about 7 seeds would probably be enough: --seeds 7"), (None, "a thousand seeds")],
)
def test_how_many_seeds_would_be_enough(enough: int | None, words: str) -> None:
    assert words in "\n".join(report(replace(HELD, outcome="cannot tell", seeds_enough=enough)))


@pytest.mark.parametrize(
    ("seconds", "steps", "words"),
    [
        ((0.4, 0.2, 0.5), (1, 1, 1), "2.50x (2.00 to 5.00) faster; by steps: alike."),
        ((2, 1.25, 4), (1.6, 1.25, 2), "slower, 0.50x (0.25 to 0.80) as fast; by steps: slower, 0.62x (0.50"),
        ((1, 0.5, 2), (1, 0.8, 1.25), "no difference found, 1.00x (0.50 to 2.00) as fast; by steps: no diff"),
    ],
)
def test_of_times_only_what_the_interval_excludes_is_said(
    seconds: tuple[float, float, float], steps: tuple[float, float, float], words: str
) -> None:
    assert HELD.reached is not None
    both = replace(HELD.reached, seconds=Ratio(*seconds, 2, "pairs"), steps=Ratio(*steps, 2, "pairs"))
    assert f"Over the 2 seeds where both reach it: {words}" in "\n".join(report(replace(HELD, reached=both)))


@pytest.mark.parametrize(("protection", "words"), [("off", "--allow-writes"), ("landlock", "Landlock")])
def test_less_protection_is_said(protection: str, words: str) -> None:
    assert words in "\n".join(report(replace(HELD, protection=protection)))


def test_what_may_spoil_it_is_told_in_both_forms() -> None:
    verdict = replace(HELD, warnings=(Caution("not written down", text="the disk is full"),))
    told = "some results could not be saved: the disk is full"
    assert f"Warning: {told}" in report(verdict)
    assert verify_json(verdict)["warnings"] == [told]
