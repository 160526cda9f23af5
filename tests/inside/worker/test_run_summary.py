"""What a whole training tells at its end."""

from __future__ import annotations

import json
import time

import torch

from hasten.inside.observing.raw_step import RawStep
from hasten.inside.worker.run_summary import Summarizer
from hasten.records.codec import from_json, to_json
from hasten.records.quality import RunSummary


def test_metrics_come_with_their_time_and_the_steps_done_until_then() -> None:
    summarizer = Summarizer()
    before = time.monotonic()
    summarizer.metric_said({"accuracy": 0.1})
    summarizer.step_ended(RawStep())
    summarizer.step_ended(RawStep())
    summarizer.metric_said({"accuracy": 0.5, "loss": 2.0})
    told = summarizer.summary()
    assert [(one.name, one.value, one.step) for one in told.metrics] == [
        ("accuracy", 0.1, 0), ("accuracy", 0.5, 2), ("loss", 2.0, 2),
    ]  # fmt: skip
    times = [told.metrics[0].seconds, *told.step_ends, told.metrics[1].seconds]
    assert times == sorted(times)
    assert before <= times[0]
    assert times[-1] <= time.monotonic()


def test_the_losses_are_those_of_the_last_step_that_had_any() -> None:
    summarizer = Summarizer()
    for losses in ([torch.tensor(2.0)], [torch.tensor(1.0), torch.tensor(0.5)], []):
        summarizer.step_ended(RawStep(losses=list(losses)))
    assert summarizer.summary().losses == (1.0, 0.5)


def test_it_can_be_sent() -> None:
    summarizer = Summarizer()
    summarizer.step_ended(RawStep(losses=[torch.tensor(2.0)]))
    summarizer.remark("bf16 has no effect here")
    assert (
        from_json(RunSummary, json.loads(json.dumps(to_json(summarizer.summary())))) == summarizer.summary()
    )
    assert summarizer.summary().remarks == ("bf16 has no effect here",)
