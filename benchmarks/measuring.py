"""Puts the newest raw numbers of ``benchmarks/results`` into docs/measuring.md, as tables and plots.

python -m benchmarks.measuring
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from . import (
    deployed_again,
    diagnosis,
    diagnosis_summary,
    gpu_tunes,
    guard_cnns,
    guard_kinds,
    guard_page,
    known_effects,
    runs,
    search,
    second_tune,
    slow_processes,
    turning_units,
)
from .false_wins import FILES, budget_for, rows_of, summary
from .known_effects_summary import known_effects as effects_of
from .known_effects_summary import summary as known_effects_summary
from .plots import draw_coverage, draw_known_effects, draw_power, pyplot, save
from .results import DOCS, FOLDER
from .runs_summary import page_words
from .search_summary import summary as search_summary

PAGE = DOCS / "measuring.md"


def main() -> None:
    path = newest("coverage")
    content = json.loads(path.read_text())
    draw_coverage(content["cases"])
    draw_power(content["cases"])
    known = rows_of(known_effects.FILE)
    draw_known_effects(effects_of(known), content["cases"][0])
    parts = {
        "source": f"The numbers below are from [{path.name}](../benchmarks/results/{path.name}), "
        f"{content['cases'][0]['points'][0]['comparisons']:,} simulated confirmations for each row: "
        "a share of 95% is known to 0.2 points (standard error), one of 1% to 0.1.",
        "coverage": coverage_table(content["cases"]),
        "findings": findings_words(content["cases"]),
        "beyond": beyond_table(content["beyond"]),
        "power": power_table(content["cases"]),
        "cost": cost_table(content["cases"]),
        "slow-processes": slow_processes.summary(rows_of(slow_processes.FILE)),
        "runs": page_words(rows_of(runs.FILE), runs.CASES),
        "gpu-tunes": gpu_tunes.summary(rows_of(gpu_tunes.FILE)),
        "diagnosis": diagnosis_summary.summary(rows_of(diagnosis.FILE)),
        "check": check_words(content["cases"]),
        "stretches": stretches_words(json.loads(newest("stretches").read_text())),
        "known-effects": known_effects_words(known),
        "false-wins": false_wins_words(),
        "search": search_summary(rows_of(search.FILE)),
        "deployed-again": deployed_again.summary(rows_of(deployed_again.FILE)),
        "second-tune": second_tune.summary(rows_of(second_tune.FILE)),
        **guard_page.parts(pyplot(), save),
        "guard-cnns": guard_cnns.summary(rows_of(guard_cnns.FILE)),
        "guard-kinds": guard_kinds.summary(rows_of(guard_kinds.FILE), rows_of(guard_cnns.FILE)),
        "turning-units": turning_units.summary(rows_of(turning_units.FILE)),
    }
    page = PAGE.read_text()
    for name, text in parts.items():
        page = filled(page, name, text)
    PAGE.write_text(page)
    print(PAGE)


def newest(name: str) -> Path:
    found = sorted(FOLDER.glob(f"*-{name}.json"))
    if not found:
        raise SystemExit(f"no raw numbers are kept: python -m benchmarks.{name}")
    return found[-1]


def filled(page: str, name: str, text: str) -> str:
    """``page`` with ``text`` between the two comments that bear the name."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    found, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: f"{begin}\n{text}\n{end}",
        page,
        flags=re.DOTALL,
    )
    assert count == 1, f"{name} has no place on the page"
    return found


# ---- words
def coverage_table(cases: list[dict[str, Any]]) -> str:
    lines = [
        "| the two plans' processes | sd of a pair | pairs | the 95% interval holds the mean ratio | holds "
        "the ratio of whole runs | gains claimed with no effect | by the bound alone | "
        "the estimate less that of whole runs | width of the interval, median |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        for point in case["points"]:
            off = point["bias"] + case["truth"] - case["whole_runs"]
            lines.append(
                f"| {case['what']} | {case['spread']:.1%} | {point['pairs']} | {point['coverage']:.1%} | "
                f"{point['coverage_of_whole_runs']:.1%} | {point['claimed']:.2%} | "
                f"{point['claimed_by_the_bound']:.2%} | {off:+.2%} | "
                f"{point['median_width']:.0%} |"
            )
    return "\n".join(lines)


def findings_words(cases: list[dict[str, Any]]) -> str:
    """What the table shows: where the interval is right, if not, and why."""
    alike = [point for case in cases for point in case["points"] if "coverage_with" not in point]
    unlike = [point for case in cases for point in case["points"] if "coverage_with" in point]
    right = [point["coverage"] for point in alike]
    wrong = [point["coverage"] for point in unlike]
    lines = [
        f"**Where the processes of both plans vary alike, the interval is right**: it holds the truth in "
        f"{min(right):.1%} to {max(right):.1%} of all cases, heavy tails and two states included, and a gain "
        f"is claimed where there is none in at most {max(point['claimed'] for point in alike):.1%} "
        "(the bound is made for 1%).",
        "",
        f"**Where the processes of one plan alone are slow now and then, it is not**: {min(wrong):.1%} to "
        f"{max(wrong):.1%}, and more pairs do not help. The reason is that the pairs may not show one slow "
        "process. Then they agree on a ratio that leaves such processes out:",
        "",
        "| the two plans' processes | pairs | comparisons that show no slow process | interval right in "
        "these | in the others | gains that the bound alone would claim, with no effect, in these |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        for point in case["points"]:
            if "coverage_with" in point:
                lines.append(
                    f"| {case['what']} | {point['pairs']} | {point['without_a_slow_process']:.0%} | "
                    f"{point['coverage_without']:.1%} | {point['coverage_with']:.1%} | "
                    f"{point['false_wins_without']:.1%} |"
                )
    most = max(point["pairs"] for point in unlike)
    lines += [
        "",
        f"An interval cannot include what no pair has shown: if {most} processes were not slow, up to "
        f"{1 - 0.05 ** (1 / most):.0%} of all may still be (at 95%). The interval is therefore about "
        "processes like those that were seen. Where the baseline is the less steady one, as under the "
        "default allocator, it errs on the careful side. If the plan is, a claim must not rest on the "
        "interval alone, and does not: the cost of one more slow process is subtracted, and more processes "
        f"of the plan are started if that decides. So a gain is claimed where there is none in at most "
        f"{max(point['claimed'] for point in unlike):.1%}, where the bound alone would do so in up to "
        f"{max(point['claimed_by_the_bound'] for point in unlike):.1%}.",
    ]
    return "\n".join(lines)


def beyond_table(cases: list[dict[str, Any]]) -> str:
    """Where the rule does not suffice."""
    lines = [
        "| the two plans' processes | pairs | gains claimed with no effect | without processes alone | "
        "by the bound alone |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {case['what']} | {point['pairs']} | {point['claimed']:.1%} | {point['claimed_at_once']:.1%} | "
        f"{point['claimed_by_the_bound']:.1%} |"
        for case in cases
        for point in case["points"]
    ]
    return "\n".join(lines)


COST_OF = (0.03, 0.05, 0.1, 0.2)  # true gains


def cost_table(cases: list[dict[str, Any]]) -> str:
    """Of true gains: the share claimed by the bound alone, and by the rule with the processes it starts."""
    lines = [
        f"| the two plans' processes | pairs | {' | '.join(f'{effect:.0%} faster' for effect in COST_OF)} |",
        "|---|---|" + "---|" * len(COST_OF),
    ]
    for case in cases:
        for curve in case["power"]:
            cells = [cost_cell(curve, curve["effects"].index(effect)) for effect in COST_OF]
            lines.append(f"| {case['what']} | {curve['pairs']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cost_cell(curve: dict[str, Any], place: int) -> str:
    bound, at_once, claimed, started = (
        curve[name][place] for name in ("claimed_by_the_bound", "claimed_at_once", "claimed", "started")
    )
    return f"{bound:.0%}, {at_once:.0%}, {claimed:.0%} with {started:.1f}"


def power_table(cases: list[dict[str, Any]]) -> str:
    curves = [(case, curve) for case in cases for curve in case["power"]]
    effects = [effect for effect in curves[0][1]["effects"] if effect >= 0]
    lines = [
        f"| the two plans' processes | pairs | {' | '.join(f'{effect:.0%} faster' for effect in effects)} |",
        "|---|---|" + "---|" * len(effects),
    ]
    for case, curve in curves:
        claimed = dict(zip(curve["effects"], curve["claimed"], strict=True))
        cells = " | ".join(f"{claimed[effect]:.1%}" for effect in effects)
        lines.append(f"| {case['what']} | {curve['pairs']} | {cells} |")
    slower = max(
        share
        for _, curve in curves
        for effect, share in zip(curve["effects"], curve["claimed"], strict=True)
        if effect < 0
    )
    lines += [
        "",
        f"Of plans that are 1% to 30% slower, at most {slower:.2%} were claimed as gains, in any row.",
    ]
    return "\n".join(lines)


def check_words(cases: list[dict[str, Any]]) -> str:
    checks = [case["checked_with_pairs_bench"] for case in cases]
    return (
        f"{sum(check['comparisons'] for check in checks)} of the simulated confirmations were also run "
        f"through `PairsBench` itself, on the same random numbers. The largest difference of a log ratio was "
        f"{max(check['largest_difference'] for check in checks):.0e}."
    )


def known_effects_words(rows: list[dict[str, Any]]) -> str:
    if not effects_of(rows):
        return "None has been measured yet: `python -m benchmarks.known_effects --rounds 20` does."
    made = sorted({f"{row['machine']}, torch {row['torch']}" for row in rows})
    alone = any(known.looks_most == 0 for known in effects_of(rows))
    first = " Rows with 0 processes alone were measured when hasten started none, and are judged so."
    return (
        f"{known_effects_summary(rows)} Measured on {'; '.join(made)}.{first if alone else ''}\n\n"
        "![Gains claimed by the true gain, errors of the estimate, and the same against the same]"
        "(plots/known_effects.svg)"
    )


def stretches_words(content: dict[str, Any]) -> str:
    lines = [
        "| what the plan does | the two plans' processes | true ratio | pairs | the 95% interval holds it | "
        "gains claimed | by the bound alone | the estimate less the truth | the same of regular steps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in content["cases"]:
        for point in case["points"]:
            lines.append(
                f"| {case['what']} | {case['noise']} | {math.exp(case['truth']):.3f} | {point['pairs']} | "
                f"{point['coverage']:.1%} | {point['claimed']:.1%} | {point['claimed_by_the_bound']:.1%} | "
                f"{point['bias']:+.2%} | {point['steps_bias']:+.2%} |"
            )
    idle = [point for case in content["cases"] if not case["truth"] for point in case["points"]]
    comparisons, claimed = (
        sum(p["comparisons"] for p in idle),
        sum(p["claimed"] * p["comparisons"] for p in idle),
    )
    lines += [
        "",
        f"Where nothing is gained, {claimed:.0f} gains were claimed in {comparisons:,} comparisons.",
    ]
    return "\n".join(lines)


_KINDS = {
    "idle": "**One technique that does nothing**",
    "disturbed": "**The same while a program keeps all cores busy for a third of the time**",
    "catalogue": "**All techniques of the catalogue, none of which does anything**",
}


def false_wins_words() -> str:
    found = {kind: rows_of(path) for kind, path in FILES.items()}
    words = [
        f"{_KINDS[kind]}: {summary(rows, budget_for(kind))}."
        if rows
        else f"{_KINDS[kind]}: none has been run yet."
        for kind, rows in found.items()
    ]
    return "\n\n".join(words)


if __name__ == "__main__":
    main()
