"""What is made of known effects' rows; nothing is measured here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import known_effects as benchmark
from benchmarks.known_effects import GAINS, in_turn
from benchmarks.known_effects_summary import (
    Estimate,
    bend_of,
    failed,
    gain_words,
    known_effects,
    rest_of,
    summary,
)
from benchmarks.measuring import known_effects_words
from benchmarks.plots import wilson
from scipy import stats  # type: ignore[import-untyped]

from hasten.bench.comparing.decisions import is_gain, least_found
from hasten.bench.comparing.statistics import interval

ROUNDS = 1000


def calibration(idle: float = 0.1, once: float = 1.1, twice: float = 2.1) -> dict[str, Any]:
    """The rest is a tenth of the counted work, 100 rounds."""
    return {
        "kind": "calibration",
        "round": 0,
        "rounds": [0, ROUNDS, 2 * ROUNDS],
        "step_seconds": [idle, once, twice],
    }


def comparison(
    gain: float,
    pairs: Sequence[float],
    live: Sequence[float] = (0.0, 0.0),
    rounds_b: int = ROUNDS,
    number: int = 0,
    failure: str | None = None,
) -> dict[str, Any]:
    return {
        "kind": "comparison",
        "round": number,
        "gain": gain,
        "rounds": [ROUNDS, rounds_b],
        "live": {"log_ratios": list(live), "failure": None},
        "pairs": {"log_ratios": list(pairs), "failure": failure, "seconds": 1.0},
    }


def test_a_mean_has_its_standard_error() -> None:
    found = Estimate.of([1.0, 3.0])
    assert found.value == 2.0
    assert found.error == pytest.approx(1.0)
    assert Estimate.of([1.0]) == Estimate(1.0, None)
    assert Estimate(0.0123, 0.004).words() == "+1.23% ± 0.40%"
    assert Estimate(-0.0123, None).words(1) == "-1.2%"


def test_the_rest_is_told_in_rounds() -> None:
    rest = rest_of([calibration(), calibration(idle=0.3, once=1.3), comparison(0.0, [0.0, 0.1])])
    assert rest.value == pytest.approx(200)
    assert rest.error == pytest.approx(100)


def test_twice_the_work_that_takes_more_than_twice_the_time_is_seen() -> None:
    assert bend_of([calibration()]).value == pytest.approx(0)
    assert bend_of([calibration(twice=2.14)]).value == pytest.approx(0.02)


def test_the_truth_is_the_ratio_of_work_with_the_rest() -> None:
    (one,) = known_effects([calibration(), comparison(-0.22, [0.2, 0.18], rounds_b=1220)])
    assert one.truth == pytest.approx(math.log(1320 / 1100))
    assert one.bias.value == pytest.approx(0.19 - one.truth)
    assert one.bias.error == pytest.approx(0.01)


def test_rows_of_one_effect_are_taken_together() -> None:
    rows = [
        calibration(),
        comparison(0.1, [-0.1, -0.12], live=[-0.1, -0.3], rounds_b=900),
        comparison(0.1, [-0.08, -0.1], live=[-0.1, -0.1], rounds_b=900, number=1),
        comparison(0.0, [0.0, 0.02]),
        comparison(0.0, [0.0, 0.02, 0.01]),
    ]
    found = known_effects(rows)
    assert [(one.pairs, one.gain, len(one.confirmations)) for one in found] == [
        (2, 0.0, 1),
        (2, 0.1, 2),
        (3, 0.0, 1),
    ]
    truth = math.log(1000 / 1100)
    assert found[1].bias.value == pytest.approx(-0.1 - truth)
    assert found[1].live_bias is not None
    assert found[1].live_bias.value == pytest.approx(-0.15 - truth), "of -0.2 and -0.1: a process counts once"
    assert found[1].live_bias.error == pytest.approx(0.05)


CLEAR = [-0.31, -0.3, -0.29, -0.3]
UNCLEAR = [-0.1, 0.1, -0.05, 0.08]


def test_claims_are_those_that_a_tune_would_make() -> None:
    assert is_gain(CLEAR)
    assert not is_gain(UNCLEAR)
    rows = [calibration(), comparison(0.3, CLEAR), comparison(0.3, UNCLEAR, number=1)]
    (one,) = known_effects(rows)
    assert one.claims == 1
    expected = [least_found(values, 4) for values in (CLEAR, UNCLEAR)]
    assert one.told == pytest.approx(sum(expected) / 2)


def test_intervals_that_hold_the_truth_are_counted() -> None:
    inside, outside = [-0.01, 0.01, 0.0, 0.005], [0.05, 0.051, 0.049, 0.05]
    ratio = interval(outside, "pairs")
    assert ratio is not None
    assert ratio.low > 1
    rows = [calibration(), comparison(0.0, inside), comparison(0.0, outside, number=1)]
    (one,) = known_effects(rows)
    assert one.covered == 1


def test_three_pairs_are_no_claim_and_tell_nothing() -> None:
    (one,) = known_effects([calibration(), comparison(0.3, CLEAR[:3])])
    assert (one.claims, one.told) == (0, None)


def test_what_failed_is_left_out_and_told() -> None:
    rows = [calibration(), comparison(0.0, [0.0, 0.1]), comparison(0.0, [], failure="out of memory")]
    assert failed(rows) == ["out of memory"]
    assert len(known_effects(rows)[0].confirmations) == 1
    assert summary(rows).endswith("1 comparisons failed: out of memory.")


def test_the_summary_says_bias_claims_and_coverage() -> None:
    rows = [
        calibration(),
        comparison(0.0, UNCLEAR),
        comparison(-0.1, CLEAR, rounds_b=1100),  # a gain claimed of what is slower
        comparison(0.3, CLEAR, rounds_b=715),
    ]
    lines = summary(rows).splitlines()
    assert len(lines) == 2 + 3 + 2
    assert lines[2].startswith("| 10% slower | 4 | 0 | 1.0909 | -38.70% ± 0.41% | 0.8% | 1 of 1 |")
    assert lines[3].startswith("| the same | 4 | 0 | 1.0000 | +0.75% ± 4.")
    assert " | 0 of 1 | " in lines[3]
    assert lines[4].startswith("| 30% faster | 4 | 0 | 0.7409 |")
    told = lines[-1]
    assert "at worst -38.70% ± 0.41% (10% slower)" in told
    assert "2 of 3 intervals hold the truth, 66.7% ± 27.2%; of the same against the same, 1 of 1" in told
    assert "Where nothing is gained, 1 gains were claimed in 2 confirmations" in told
    assert "is 100 rounds" in told


def test_without_comparisons_there_is_no_summary() -> None:
    assert summary([]) == summary([calibration()]) == "nothing was measured yet"


@pytest.mark.parametrize(("gain", "words"), [(0.0, "the same"), (0.03, "3% faster"), (-0.3, "30% slower")])
def test_effects_in_words(gain: float, words: str) -> None:
    assert gain_words(gain) == words


def test_each_effect_is_first_in_one_round_of_as_many_as_there_are() -> None:
    orders = [in_turn(GAINS, number) for number in range(len(GAINS))]
    assert [order[0] for order in orders] == list(GAINS)
    assert all(sorted(order) == sorted(GAINS) for order in orders)
    assert in_turn(GAINS, len(GAINS)) == list(GAINS)


def test_a_file_that_was_stopped_in_a_round_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    cut_off = [calibration(), comparison(0.0, [0.0, 0.1])]
    path.write_text("".join(json.dumps(row) + "\n" for row in cut_off))
    asked: list[tuple[int, list[float], int]] = []

    def paper_round(number: int, gains: Sequence[float], pairs: int) -> Iterator[dict[str, Any]]:
        asked.append((number, list(gains), pairs))
        yield calibration()
        for gain in gains:
            yield comparison(gain, [0.0, 0.1], number=number)

    monkeypatch.setattr(benchmark, "one_round", paper_round)
    arguments = ["--rounds", "2", "--pairs", "2", "--gains", "0", "0.1", "--file", str(path)]
    monkeypatch.setattr("sys.argv", ["known_effects", *arguments])
    benchmark.main()
    benchmark.main()
    assert asked == [(0, [0.1], 2), (1, [0.1, 0.0], 2)]
    assert len(path.read_text().splitlines()) == 2 + 2 + 3


def test_the_page_says_how_to_measure_what_is_missing() -> None:
    words = "None has been measured yet: `python -m benchmarks.known_effects --rounds 20` does."
    assert known_effects_words([]) == known_effects_words([calibration()]) == words


def test_the_page_shows_the_table_the_machines_and_the_plot() -> None:
    where = {"machine": "Pencil and Paper 9000", "torch": "2.13.0"}
    rows = [{**row, **where} for row in (calibration(), comparison(0.0, UNCLEAR))]
    words = known_effects_words(rows)
    assert words.startswith(summary(rows))
    assert "Measured on Pencil and Paper 9000, torch 2.13.0." in words
    assert words.endswith("(plots/known_effects.svg)")


@pytest.mark.parametrize(("claims", "count"), [(5, 10), (0, 20), (20, 20), (1, 7)])
def test_a_share_has_wilsons_interval(claims: int, count: int) -> None:
    expected = stats.binomtest(claims, count).proportion_ci(method="wilson")
    assert wilson(claims / count, count) == pytest.approx((expected.low, expected.high), abs=1e-4)
