"""What the rows of ``benchmarks.runs`` say, as tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

from hasten.bench.comparing.statistics import interval, mean_interval
from hasten.records.quality import Interval
from hasten.records.trial import Ratio
from hasten.units import counted

NOTHING = "nothing.py"  # a script that does nothing: what starting hasten costs
AS_TUNED = "as tuned"  # the plan that a tune of the run found
OF_TEN = 9  # forecasts that are to hold

Row = dict[str, Any]
Pair = tuple[Row, Row]  # plain and under the plan, one after another


class Promise(Protocol):
    """What a case is measured against."""

    @property
    def bar(self) -> float | None: ...

    @property
    def above(self) -> float | None: ...

    @property
    def judged(self) -> str: ...


def summary(rows: Sequence[Row], cases: Mapping[str, Promise]) -> str:
    """All tables for which there are rows."""
    runs, empty = of_kind(rows, "run"), of_kind(rows, "empty")
    parts = []
    if runs:
        parts += [runs_table(runs, cases), forecast_table(runs), where_words(runs)]
    if empty:
        parts += [empty_table(empty), where_words(empty)]
    return "\n\n".join(part for part in parts if part) or "No whole run has been measured yet."


def of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def where_words(rows: Sequence[Row]) -> str:
    made = sorted({f"{row['machine']}, torch {row['torch']}" for row in rows})
    return f"Measured on {'; '.join(made)}."


# ---- whole runs
def runs_table(rows: Sequence[Row], cases: Mapping[str, Promise]) -> str:
    lines = [
        "| whole run | plan | rounds | plain | under it | times faster (95%) | wanted | metric, plain | "
        "under it less plain (95%) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    machines = {row["machine"] for row in rows}
    for (case, _, plan, machine, *_), group in groups(rows):
        pairs = pairs_of(group)
        if not pairs:
            continue
        plain, planned = ([pair[arm]["seconds"] for pair in pairs] for arm in (0, 1))
        times = times_faster(pairs)
        cells = [
            run_words(group[0]) + at_words(machine, machines),
            plan,
            str(len(pairs)),
            f"{fmean(plain):.1f} s",
            f"{fmean(planned):.1f} s",
            times_words(times),
            wanted_words(cases.get(case), plan, times),
            *metric_cells(pairs),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_words(row: Row) -> str:
    """Which training, and how long it is."""
    unit = row.get("unit", "epochs")
    return f"{row['case']}, {row['epochs']} {unit.removesuffix('s') if row['epochs'] == 1 else unit}"


def at_words(machine: str, machines: Collection[str]) -> str:
    """On which processor, where there are several."""
    return f", {machine.split(',')[0]}" if len(machines) > 1 else ""


def groups(rows: Sequence[Row]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Rows of one case under plans from one source on one machine, by hasten as it was when the last of them
    was measured.
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        plan = row["plan"] if isinstance(row["plan"], str) else AS_TUNED
        key = (row["case"], row["epochs"], plan, row["machine"], row["torch"])
        found.setdefault(key, []).append(row)
    for key, group in found.items():
        yield key, [row for row in group if row.get("commit") == group[-1].get("commit")]


def pairs_of(rows: Sequence[Row]) -> list[Pair]:
    """The two arms of each round; a round that was stopped in between does not count."""
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["session"], row["case"], row["round"]), {})[row["arm"]] = row
    return [(arms["plain"], arms["plan"]) for arms in found.values() if len(arms) == 2]


def times_faster(pairs: Sequence[Pair]) -> Ratio | None:
    """Student's t on the logarithms, one value a round; None for fewer than two."""
    found = interval([math.log(plan["seconds"] / plain["seconds"]) for plain, plan in pairs], "pairs")
    return found.inverted() if found is not None else None


def times_words(times: Ratio | None) -> str:
    return f"{times.value:.2f}x ({times.low:.2f} to {times.high:.2f})" if times is not None else "-"


def wanted_words(promise: Promise | None, plan: str, times: Ratio | None) -> str:
    """What a case is to reach under the plan that it is judged by, and whether it does."""
    if promise is None or promise.bar is None or plan != promise.judged:
        return "-"
    wanted = f"{promise.bar:g}x" + (f", above {promise.above:g}" if promise.above is not None else "")
    if times is None:
        return wanted
    reached = times.value >= promise.bar and (promise.above is None or times.low > promise.above)
    return f"{wanted}: {'reached' if reached else 'missed'}"


def metric_cells(pairs: Sequence[Pair]) -> tuple[str, str]:
    """Plain's mean, and the difference with its interval."""
    difference = mean_interval([plan["metric"] - plain["metric"] for plain, plan in pairs])
    mean = fmean(plain["metric"] for plain, _ in pairs)
    return f"{mean:.4f}", difference_words(difference, 4) if difference is not None else "-"


def difference_words(found: Interval, digits: int) -> str:
    return f"{found.value:+.{digits}f} ({found.low:+.{digits}f} to {found.high:+.{digits}f})"


# ---- forecasts
FORETOLD = {"plain": "before", "plan": "after"}  # in a forecast, by arm


@dataclass(frozen=True)
class Held:
    """Whether the intervals of one tune hold the runs that came, by arm."""

    of: tuple[str, str]  # which training, and where
    held: Mapping[str, Sequence[bool]]
    line: str


def forecast_table(rows: Sequence[Row]) -> str:
    """How often the interval that a tune printed holds the run that came; "" without any."""
    found = list(held_forecasts(rows))
    if not found:
        return ""
    head = [
        "| tune | plain, forecast | measured, mean | in the interval | under the plan, forecast | "
        "measured, mean | in the interval |",
        "|---|---|---|---|---|---|---|",
    ]
    last = list({tune.of: tune for tune in found}.values())
    return "\n".join([*head, *(tune.line for tune in found), "", forecasts_words(found, last)])


def held_forecasts(rows: Sequence[Row]) -> Iterator[Held]:
    """Of each tune that told what a run takes."""
    machines = {row["machine"] for row in rows}
    for session in dict.fromkeys(row["session"] for row in rows):
        mine = [row for row in rows if row["session"] == session]
        first, forecast = mine[0], mine[0]["forecast"]
        if forecast is None or not is_of_runs(forecast, first):
            continue
        cells, held = [run_words(first) + at_words(first["machine"], machines)], {}
        for arm, name in FORETOLD.items():
            seconds = [row["seconds"] for row in mine if row["arm"] == arm]
            foretold = of_run(forecast, name, first["epochs"])
            held[arm] = [foretold["low"] <= one <= foretold["high"] for one in seconds]
            mean = f"{fmean(seconds):.1f} s" if seconds else "-"
            cells += [span(foretold), mean, f"{sum(held[arm])} of {len(seconds)}"]
        yield Held((run_words(first), first["machine"]), held, f"| {' | '.join(cells)} |")


def is_of_runs(forecast: Row, row: Row) -> bool:
    """Whether it says what a run takes: as a whole, or by its epochs and what comes once."""
    if forecast["of"] == "epoch" and row.get("unit", "epochs") == "epochs":
        return bool(forecast.get("once"))
    return bool(forecast["of"] == "run")


def of_run(forecast: Row, name: str, epochs: int) -> dict[str, float]:
    """What it says of a run of this many epochs, ``name`` being "before" or "after"."""
    if forecast["of"] == "run":
        return dict(forecast[name])
    once = [part[name] for part in forecast["once"]]
    return {end: epochs * forecast[name][end] + sum(part[end] for part in once) for end in forecast[name]}


def forecasts_words(tunes: Sequence[Held], last: Sequence[Held]) -> str:
    """Of all tunes, and of the last one of each training on each machine: hasten as it is."""
    plain, planned = (of_arm(last, arm) for arm in FORETOLD)
    enough = all(10 * sum(held) >= OF_TEN * len(held) for held in (plain, planned))
    trainings = len({tune.of[0] for tune in last})
    return (
        f"The interval of the forecast holds {holds_words(tunes)}. Of the last tune of each of these "
        f"{counted(trainings, 'training')} on each machine it holds {holds_words(last)}: "
        f"{'' if enough else 'fewer than '}nine of ten."
    )


def holds_words(tunes: Sequence[Held]) -> str:
    plain, planned = (of_arm(tunes, arm) for arm in FORETOLD)
    of_plain = f"{sum(plain)} of {counted(len(plain), 'plain run')}"
    return f"{of_plain} and {sum(planned)} of {len(planned)} under the plan"


def of_arm(tunes: Sequence[Held], arm: str) -> list[bool]:
    return [one for tune in tunes for one in tune.held[arm]]


def span(found: Mapping[str, float]) -> str:
    return f"{found['value']:.1f} s ({found['low']:.1f} to {found['high']:.1f})"


# ---- empty plans
def empty_table(rows: Sequence[Row]) -> str:
    """What a run under an empty plan takes longer, and how much of that is the start of hasten."""
    start = difference(rows, NOTHING)
    lines = [
        "| script | rounds | plain | longer under the empty plan (95%) | without the start of hasten |",
        "|---|---|---|---|---|",
    ]
    for script in dict.fromkeys(row["case"] for row in rows if row["case"] != NOTHING):
        found = difference(rows, script)
        plain = fmean(row["seconds"] for row in rows if row["case"] == script and row["arm"] == "plain")
        if found is None:
            continue
        left = f"{found.value - start.value:+.2f} s" if start is not None else "-"
        longer = difference_words(found, 2)
        lines.append(f"| {script} | {found.count} | {plain:.2f} s | {longer} s | {left} |")
    if start is not None:
        lines += ["", f"Starting hasten takes {difference_words(start, 2)} s: a script that does nothing."]
    return "\n".join(lines)


def difference(rows: Sequence[Row], script: str) -> Interval | None:
    """Seconds under the empty plan less plain, over rounds."""
    pairs = pairs_of([row for row in rows if row["case"] == script])
    return mean_interval([plan["seconds"] - plain["seconds"] for plain, plan in pairs])


def page_words(rows: Sequence[Row], cases: Mapping[str, Promise]) -> str:
    """For docs/measuring.md."""
    if not of_kind(rows, "run"):
        return (
            "None has been measured yet: `python -m benchmarks.runs --example fashion_cnn --rounds 5` does."
        )
    return summary(rows, cases)
