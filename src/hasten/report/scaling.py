"""What training on more machines would bring, in tables and a few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..records.codec import to_json
from ..records.scaling import Cluster, Link, Range, Scaled, ScalingForecast
from ..units import bytes_words, counted, seconds_words
from .forecast import span_words

_COLUMNS = ("workers", "hosts", "samples each", "step", "samples/s", "efficiency")


def scaling_lines(found: ScalingForecast, assumed: Sequence[str]) -> list[str]:
    """Print the prediction. ``assumed``: what was not measured, a clause each."""
    batch = counted(found.workload.batch, "sample")
    return [
        *_measured(found),
        "",
        f"With the script's own batch of {batch} (the same training):",
        *_table(found.same),
        *_verdict(found),
        "",
        f"With {batch} for each worker (another training: it needs another learning",
        "rate, and hasten verify must judge its quality):",
        *_table(found.grown),
        "",
        f"This assumes {'; '.join([*assumed, *_assumed(found)])}.",
    ]


def scaling_json(found: ScalingForecast, assumed: Sequence[str]) -> dict[str, Any]:
    """The whole prediction, in seconds, bytes and samples."""
    content = to_json(found)
    assert isinstance(content, dict)
    return {**content, "assumed": list(assumed)}


def _measured(found: ScalingForecast) -> Iterator[str]:
    work = found.workload
    steps = ", ".join(f"{seconds_words(seconds)} for {samples}" for samples, seconds in work.step.measured)
    backward = f"the backward pass is {work.step.backward_share:.0%} of it"
    yield f"Measured here: a step takes {steps} samples; {backward}."
    if len(work.step.measured) > 1:
        fixed = seconds_words(work.step.mid.fixed_seconds)
        yield f"{fixed} of a step do not depend on its samples: more workers do not shorten these."
    else:
        yield "How a step depends on its samples is unknown: batches of other sizes could not be tried."
    yield f"Workers exchange {bytes_words(work.gradient_bytes)} of gradients in each step."


def _table(rows: Sequence[Scaled]) -> Iterator[str]:
    columns = [
        *_COLUMNS,
        *(["epoch"] if rows[0].epoch_seconds else []),
        *(["cost"] if rows[0].epoch_price else []),
    ]
    cells = [columns, *(_cells(row) for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    for line in cells:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))


def _cells(row: Scaled) -> list[str]:
    cells = [f"{row.workers:,}", f"{row.hosts:,}", f"{row.samples_each:,}"]
    cells += [_times(row.step_seconds), _numbers(row.samples_per_second)]
    cells.append(f"{row.efficiency.mid:.0%} ({row.efficiency.low:.0%} to {row.efficiency.high:.0%})")
    cells += [_times(row.epoch_seconds)] if row.epoch_seconds else []
    cells += [f"{row.epoch_price.mid:.3g}"] if row.epoch_price else []
    return cells


def _times(span: Range) -> str:
    return f"{span_words(span.mid)} ({span_words(span.low)} to {span_words(span.high)})"


def _numbers(span: Range) -> str:
    return f"{span.mid:,.0f} ({span.low:,.0f} to {span.high:,.0f})"


def _verdict(found: ScalingForecast) -> Iterator[str]:
    at = next(row for row in found.same if row.workers == found.pays_up_to)
    alone = found.same[0].samples_per_second.mid
    gain = f"{at.samples_per_second.mid / alone:.2f} times as fast as one"
    if at is found.same[-1]:
        yield f"{counted(at.workers, 'worker')} {'train' if at.workers > 1 else 'trains'} {gain}."
    elif at.workers == 1:
        yield "More than one worker does not pay: two train less than 10% faster."
    else:
        yield f"More than {at.workers:,} workers do not pay: {at.workers:,} train {gain},"
        yield "and twice as many less than 10% faster still."
    if found.same[-1].workers < found.grown[-1].workers:
        yield f"More than {counted(found.workload.batch, 'worker')} would leave some without a sample."


def _assumed(found: ScalingForecast) -> Iterator[str]:
    yield "workers as fast as this machine"
    cluster, work = found.cluster, found.workload
    if len(work.step.measured) > 1:
        yield "that steps with fewer samples than were measured follow the same line"
    if any(row.hosts > 1 for row in found.grown):
        yield f"{_link_words(cluster.between)} between hosts"
    if cluster.per_host > 1:
        yield f"{_link_words(cluster.within)} within a host"
    yield _failures(cluster)


def _link_words(link: Link) -> str:
    return f"{link.bytes_per_second * 8 / 1e9:.3g} Gbit/s and {seconds_words(link.latency_seconds)}"


def _failures(cluster: Cluster) -> str:
    if cluster.host_failure_seconds is None:
        return "that no host fails"
    return (
        f"a failure of each host every {cluster.host_failure_seconds / 3600:,.0f} hours, a checkpoint every "
        f"{span_words(cluster.checkpoint_seconds)} and {span_words(cluster.restart_seconds)} to start again"
    )
