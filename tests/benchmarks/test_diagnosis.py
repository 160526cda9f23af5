"""What is planted, and what the rows say of profiles that should name it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import diagnosis
from benchmarks.diagnosis_summary import holds, is_right, right_enough, summary
from benchmarks.plants import PLANTS
from benchmarks.plants.plant import Plant, changed


def row(case: str, truth: float, *told: tuple[str, float], right: tuple[str, ...] = ("input",)) -> Any:
    return {
        "case": case,
        "right": list(right),
        "true_share": truth,
        "causes": [{"name": name, "share": share} for name, share in told],
        "machine": "Pencil and Paper",
        "torch": "2.13.0",
    }


GOOD = row("slow_samples", 0.6, ("input", 0.65), ("compute", 0.3))
WRONG = row("slow_decode", 0.6, ("compute", 0.7), ("input", 0.3))
SMALL = row("slow_collate", 0.2, ("compute", 0.9))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_each_plant_makes_another_script(plant: Plant) -> None:
    """Both are Python, and print what the benchmark times them by."""
    texts = [plant.script_with_it(), plant.script_without()]
    assert texts[0] != texts[1]
    for text in texts:
        compile(text, plant.name, "exec")
        assert 'print(f"epoch {epoch}: ' in text


def test_there_are_enough_and_no_name_comes_twice() -> None:
    assert len(PLANTS) == len({plant.name for plant in PLANTS}) >= 20


def test_a_change_that_finds_no_place_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"pictures.py has 0 times: nothing like it"):
        changed("pictures", (("nothing like it", ""),))


def test_a_profile_is_right_by_its_first_cause_and_its_bound() -> None:
    assert (is_right(GOOD), holds(GOOD)) == (True, True)
    assert (is_right(WRONG), holds(WRONG)) == (False, False)
    assert not is_right(row("nothing_told", 0.5))


def test_a_bound_may_be_less_by_what_the_clock_errs() -> None:
    assert holds(row("a", 0.6, ("input", 0.56)))
    assert not holds(row("a", 0.6, ("input", 0.54)))


@pytest.mark.parametrize(
    ("rows", "enough"),
    [([GOOD], True), ([GOOD, WRONG], False), ([GOOD, SMALL], True), ([], True)],
)
def test_enough_must_be_right_of_those_that_take_a_large_share(rows: list[Any], enough: bool) -> None:
    assert right_enough(rows) is enough


def test_the_newest_row_of_a_script_counts() -> None:
    assert right_enough([WRONG, {**GOOD, "case": "slow_decode"}])


def test_the_table() -> None:
    lines = summary([GOOD, WRONG, SMALL]).splitlines()
    assert lines[2] == "| slow samples | 60% | input | 65% | yes | yes |"
    assert lines[3] == "| slow decode | 60% | compute | 30% | **no** | **no** |"
    assert "too small here" in lines[4]
    told = "Of 2 plants that take 25% of an epoch or more, 1 are the first cause reported"
    assert lines[-1].startswith(told)
    assert summary([]).startswith("None have been measured yet")


def test_the_true_share_is_of_the_median_epoch() -> None:
    assert diagnosis.true_share({"without": [[1.0, 9.0], [1.0]], "with": [[4.0]]}) == pytest.approx(0.75)


def test_epochs_are_timed_by_the_lines_that_end_them(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("for epoch in range(9):\n    print(f'epoch {epoch}: loss 1', 'x' * epoch)\n")
    found = diagnosis.epochs_of(script, 0.0)
    assert len(found) >= diagnosis.EPOCHS
    assert min(found) >= 0
    script.write_text("print('epoch 0: loss 1')\n")
    with pytest.raises(SystemExit, match="ended after 1 epochs"):
        diagnosis.epochs_of(script, 0.0)


def test_it_fails_where_the_first_cause_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        diagnosis, "diagnosed", lambda plant, rounds, seconds: {**WRONG, "profile_seconds": 1.0}
    )
    file = tmp_path / "rows.jsonl"
    monkeypatch.setattr(sys, "argv", ["diagnosis", "slow_decode", "--file", str(file)])
    with pytest.raises(SystemExit, match="less than 95%"):
        diagnosis.main()
    (kept,) = map(json.loads, file.read_text().splitlines())
    assert (kept["case"], kept["causes"][0]["name"]) == ("slow_decode", "compute")
