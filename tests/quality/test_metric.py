"""What --metric may say, and what is found by it."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.quality.metric import Wanted, metric_in, wanted_metric
from hasten.records.quality import Point, WholeRun

NAMES = {
    "accuracy ([0-9.]+)": "accuracy",
    r"epoch \d+: val_loss=([\d.]+)": "val_loss",
    r"(?:test|val) acc: (\S+)": "acc",
    "acc=([0-9.]+)": "acc",
    "([0-9.]+)%": "metric",
    "top1=test acc ([0-9.]+)": "top1",
    r"\(quality\) (\S+)": "quality",
}


@pytest.mark.parametrize("text", NAMES)
def test_a_patterns_name(text: str) -> None:
    assert wanted_metric(text).name == NAMES[text]


@pytest.mark.parametrize("text", ["accuracy", "val/acc", "top-1"])
def test_a_name(text: str) -> None:
    assert wanted_metric(text) == Wanted(text)


def test_a_whole_pattern_is_not_cut_at_its_equals_sign() -> None:
    """What follows it alone would match any number."""
    pattern = wanted_metric("acc=([0-9.]+)").pattern
    assert pattern is not None
    assert pattern.findall("epoch=3 acc=0.5") == ["0.5"]
    pattern = wanted_metric("top1=test acc ([0-9.]+)").pattern
    assert pattern is not None
    assert pattern.pattern == "test acc ([0-9.]+)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accuracy [0-9.]+", "needs a group in parentheses around the number"),
        ("accuracy ([0-9.]+", "is not a regular expression"),
        ("(test) accuracy ([0-9.]+)", r"has 2 groups, and one must be the number"),
    ],
)
def test_what_is_neither(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wanted_metric(text)


def told(**values: float) -> WholeRun:
    courses = {name: (Point(value, 1.0, 1),) for name, value in values.items()}
    return WholeRun("baseline", 0, 2.0, 1, courses, last_line="accuracy 0.5")


def test_the_first_that_the_script_told() -> None:
    assert metric_in(told(accuracy=0.5, loss=1.0), Wanted(), False, "train.py").name == "accuracy"


def test_another_by_its_name() -> None:
    metric = metric_in(told(accuracy=0.5, loss=1.0), Wanted("loss"), False, "train.py")
    assert (metric.name, metric.lower_is_better) == ("loss", True)


@pytest.mark.parametrize("name", ["val_loss", "Top1Error", "perplexity"])
def test_of_some_names_lower_is_better(name: str) -> None:
    assert metric_in(told(**{name: 1.0}), Wanted(), False, "train.py").lower_is_better


def test_the_user_may_say_that_lower_is_better() -> None:
    assert not metric_in(told(fid=1.0), Wanted(), False, "train.py").lower_is_better
    assert metric_in(told(fid=1.0), Wanted(), True, "train.py").lower_is_better


def test_where_nothing_is_told_both_ways_are_shown() -> None:
    with pytest.raises(UsageError) as error:
        metric_in(told(), Wanted(), False, "train.py")
    assert "hasten.metric(accuracy=accuracy)" in str(error.value)
    assert "hasten verify --metric 'accuracy ([0-9.]+)' train.py" in str(error.value)
    assert "The last line that it printed: 'accuracy 0.5'." in str(error.value)


def test_a_name_that_is_not_told() -> None:
    with pytest.raises(UsageError, match="reported no metric 'f1'; it reported accuracy, loss"):
        metric_in(told(accuracy=0.5, loss=1.0), Wanted("f1"), False, "train.py")


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(UsageError, match="matched nothing that train"):
        metric_in(told(), wanted_metric("acc ([0-9.]+)"), False, "train.py")
