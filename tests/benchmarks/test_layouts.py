"""Threads against processes, on a scripted bench: the order, what is kept, and the answers."""

from __future__ import annotations

import math

import pytest
from benchmarks.layouts import Found, answer, measure, measured, one_process, others, plan_of, row_of

from hasten.bench.fake import ScriptedBench
from hasten.records.machine import Core
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from tests.bench.made_up import machine, trial
from tests.machine.topologies import recorded

TWO_CORES = machine(logical_cpus=2, physical_cores=2, cores=(Core((0,)), Core((1,))))


class Scripted:
    """Two processes take ``factor`` of the time of one."""

    def __init__(self, factor: float, failure: str = "") -> None:
        self._factor, self._failure = factor, failure
        self.asked: list[tuple[Plan, Plan, int]] = []

    def compare(self, a: Plan, b: Plan, pairs: int) -> Trial:
        self.asked.append((a, b, pairs))
        ratios = [1.01 * self._factor, self._factor / 1.01]
        return trial(ratios[:pairs], b, a, failure=self._failure or None)


def found(*ratios: float, processes: int = 2, failure: str = "") -> Found:
    return Found(processes, 1, "cores", [math.log(ratio) for ratio in ratios], failure=failure)


def test_on_two_cores_two_processes_are_held_against_two_threads() -> None:
    assert one_process(TWO_CORES) == Plan({"threads": {"count": 2}})
    assert [plan_of(layout) for layout in others(TWO_CORES)] == [
        Plan({"processes": {"count": 2, "threads": 1, "bind": "cores"}})
    ]


@pytest.mark.parametrize("name", ["epyc-8-nodes", "laptop-hybrid", "xeon-2-sockets", "wsl2"])
def test_no_plan_is_measured_twice_and_none_against_itself(name: str) -> None:
    here = recorded(name)
    plans = [plan_of(layout) for layout in others(here)]
    assert len(plans) > 3
    assert len(set(plans)) == len(plans)
    assert one_process(here) not in plans


def test_layouts_take_turns_and_either_order() -> None:
    here = machine(cores=tuple(Core((n,)) for n in range(4)))
    bench = Scripted(0.9)
    two, four = measure(bench, here, rounds=3)
    counts = [b.techniques["processes"]["count"] for _, b, _ in bench.asked]
    assert counts == [2, 4, 4, 2, 2, 4]
    assert {(a, pairs) for a, _, pairs in bench.asked} == {(one_process(here), 2)}
    assert (len(two.log_ratios), len(four.log_ratios)) == (6, 6)
    assert two.ratio is not None
    assert two.ratio.value == pytest.approx(0.9)


def test_what_fails_is_launched_once() -> None:
    bench = Scripted(1.0, "rank 1 was killed")
    (only,) = measure(bench, TWO_CORES, rounds=5)
    assert len(bench.asked) == 1
    assert (only.ratio, only.failure) == (None, "rank 1 was killed")


def test_the_search_s_own_bench_answers_alike() -> None:
    bench = ScriptedBench({"processes": 0.5, "threads": 1.0})
    (only,) = measure(bench, TWO_CORES, rounds=1)
    assert only.step_seconds == [(0.02, 0.01)]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (found(0.8, 0.82), "two processes of one thread beat one process of two threads: 1.23x ("),
        (
            found(1.4, 1.42),
            "one process of two threads beats two processes of one thread: 1.41x (",
        ),
        (
            found(0.9, 1.1),
            "two processes of one thread and one process of two threads cannot be told apart: ",
        ),
        (found(0.8), "two processes of one thread: too few pairs to tell"),
        (found(0.5, 0.5, failure="it hung"), "two processes of one thread: it hung"),
        (found(0.8, 0.82, processes=1), "one process of one thread beats one process of two threads: "),
    ],
)
def test_the_answer_says_what_the_interval_says(what: Found, said: str) -> None:
    assert answer(what, usual_threads=2).startswith(said)


def test_raw_numbers_are_kept() -> None:
    row = row_of(found(0.8, 0.82))
    assert row["log_ratios"] == [math.log(0.8), math.log(0.82)]
    assert (row["processes"], row["threads"], row["bind"]) == (2, 1, "cores")
    assert row["ratio"]["count"] == 2


def test_the_page_has_a_row_a_layout_an_answer_and_what_was_refused() -> None:
    results: dict[str, list[Found] | str] = {
        "fashion_cnn": measure(Scripted(0.8), TWO_CORES, rounds=2),
        "char_gpt": "no loader is read",
    }
    lines = measured(results, TWO_CORES).splitlines()
    assert [line for line in lines if line.startswith("| fashion")] == [
        "| fashion_cnn | 2 x 1, cores | 10 ms | 8 ms | 1.25x (1.23 to 1.27) |"
    ]
    assert lines[-2].startswith(
        "- `fashion_cnn`: two processes of one thread beat one process of two threads"
    )
    assert lines[-1] == "- `char_gpt`: not measured, no loader is read."
