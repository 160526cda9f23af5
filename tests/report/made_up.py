"""Results of tunes that never took place."""

from __future__ import annotations

from dataclasses import replace

from hasten.records.cause import Cause
from hasten.records.comparison import LossCurve
from hasten.records.conclusion import Conclusion
from hasten.records.curve import ThreadCurve, ThreadPoint
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason, WhyNot
from hasten.records.result import Refused, Tried, TuneResult
from hasten.records.trial import Ratio
from hasten.records.verdict import GuardVerdict, Invariants

PLAN = Plan({"threads": {"count": 2}, "bf16": {}})
RATIO = Ratio(0.8, 0.75, 0.85, 6, "pairs")
HELD = GuardVerdict(
    accuracy="held",
    steps=120,
    invariants=Invariants(("batches", "modes", "rates", "optimizer", "streams")),
    loss_curve=LossCurve(True, 0.003, 0.0, 0.012, "bfloat16"),
)
DEPARTED = replace(HELD, accuracy="not held", loss_curve=LossCurve(False, 0.05, 0.0, 0.012, "bfloat16"))
GAINED = Reason("gain")
FAILED = Reason("failed", failure="raised KeyError: '[/x]' [b]")
CURVE = ThreadCurve(
    usual=4,
    together_with=Plan({"bf16": {}}),
    points=(
        ThreadPoint(1),
        ThreadPoint(2, RATIO),
        ThreadPoint(4, Ratio(1.0, 1.0, 1.0, 0, "pairs")),
    ),
    usual_seconds=0.01,
)

GAIN = TuneResult(
    outcome="gain",
    reason=Conclusion("confirmed"),
    plan=PLAN,
    speedup=RATIO.inverted(),
    ratio=RATIO,
    measured=RATIO,
    baseline_step_seconds=0.0142,
    baseline_samples_per_second=4507.0,
    tried=(
        Tried("bf16", {}, Ratio(0.8, 0.78, 0.82, 9, "ABBA blocks"), BASELINE, True, GAINED, "live"),
        Tried("threads", {"count": 2}, RATIO, Plan({"bf16": {}}), True, GAINED, "pairs"),
        Tried("channels_last", {}, None, PLAN, False, FAILED, "live", 0.5),
    ),
    refused=(Refused("malloc", (WhyNot("said", "needs glibc, found musl"), WhyNot("said", "and more"))),),
    guard=HELD,
    tune_seconds=100.0,
    setup_seconds=2.0,
    breakeven_steps=700,
    causes=(Cause("compute", 0.9, "90% of a step is forward, loss and backward", ("bf16",)),),
    threads=CURVE,
    protection="overlay",
    machine="Pencil and Paper 9000, 4 cores, 16 GiB, Linux x86_64",
    versions={"hasten": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
)
NO_GAIN = replace(
    GAIN,
    outcome="no-gain",
    reason=Conclusion("noise"),
    plan=BASELINE,
    speedup=None,
    ratio=None,
    measured=Ratio(0.99, 0.97, 1.01, 6, "pairs"),
    setup_seconds=0.0,
    breakeven_steps=None,
)
GUARD_FAILED = replace(NO_GAIN, reason=Conclusion("not held"), measured=None, guard=DEPARTED)
NOT_CHECKED = replace(
    NO_GAIN,
    outcome="not-checked",
    reason=Conclusion("not checked"),
    measured=None,
    guard=GuardVerdict(
        "not checked",
        why_not="killed",
        failure="the script's process was killed by SIGKILL (out of memory?)",
    ),
)
