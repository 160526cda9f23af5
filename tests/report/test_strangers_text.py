"""Whatever strangers wrote - plans, names of classes and files, errors - cannot steer a terminal."""

from __future__ import annotations

import dataclasses
import io
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hasten.cli.common import console_for
from hasten.records.cause import Cause
from hasten.records.caution import Caution
from hasten.records.diagnosis import Finding, TorchBuild
from hasten.records.machine import Machine
from hasten.records.observation import GpuMemory
from hasten.records.plan import Plan
from hasten.records.reasons import Reason
from hasten.records.technique_list import Entry, Listing
from hasten.records.whole_run import Part, WatchedRun
from hasten.report.doctor import print_doctor
from hasten.report.progress import Lines, Silent, Terminal
from hasten.report.quality import print_verify
from hasten.report.technique_list import print_techniques
from hasten.report.terminal import print_profile, print_tune
from hasten.saying import say

from ..bench.made_up import loader, observation
from ..machine.topologies import recorded
from .made_up import GAIN, GUARD_FAILED
from .test_quality import HELD

HOSTILE = {  # what is written: how it must be shown
    "clears the screen": ("\x1b[2J", r"\x1b[2J"),
    "sets the title (OSC)": ("\x1b]0;mine\x07", r"\x1b]0;mine\x07"),
    "is a link (OSC 8)": ("\x1b]8;;http://x\x1b\\", "\\x1b]8;;http://x\\x1b\\"),
    "of C1": ("\x9b31m\x90", r"\x9b31m\x90"),
    "rubs out": ("\x08\x7f", r"\x08\x7f"),
    "writes over the line": ("yes\rno!", r"yes\rno!"),
    "turns text around": ("\u202egpj\u2066", r"\u202egpj\u2066"),
    "hides": ("a\u200b\ufeff\U000e0041", r"a\u200b\ufeff\U000e0041"),
    "ends a line otherwise": ("a\u2028b\x85c\x0bd", r"a\u2028b\x85c\x0bd"),
    "is half a character": ("\udcff\ud800", r"\udcff\ud800"),
    "ends a string": ("\0", r"\x00"),
    "closes markup": ("[/nope]", "[/nope]"),
    "opens markup": ("[bold]:skull:", "[bold]:skull:"),
    "links by markup": ("[link=file:///x]", "[link=file:///x]"),
}
CLOSED = {  # fields with a word out of few, which nobody else writes
    "outcome", "unit", "arm", "method", "risk", "scope", "protection", "architecture", "system", "layer",
    "code", "found", "decision",
}  # fmt: skip


def poisoned(thing: Any, evil: str) -> Any:
    """``thing`` with ``evil`` in every text that is somebody else's."""
    if isinstance(thing, str):
        return f"{evil}{thing}"
    if isinstance(thing, Plan):
        return Plan({name: poisoned(how, evil) for name, how in thing.techniques.items()})
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = [field.name for field in dataclasses.fields(thing) if field.init and field.name not in CLOSED]
        return dataclasses.replace(thing, **{name: poisoned(getattr(thing, name), evil) for name in names})
    if isinstance(thing, Mapping):
        return {key: poisoned(value, evil) for key, value in thing.items()}
    return type(thing)(poisoned(item, evil) for item in thing) if isinstance(thing, (tuple, list)) else thing


def seen(evil: str) -> Any:
    memory = GpuMemory("cuda:0", 2**30, 2**20, 2**20, 1)
    run = WatchedRun(2.0, True, (Part("steps", 1.0, 9), Part("evaluation", 1.0, 1, where=("train.py:1",))))
    made = observation(loaders=(loader(),), run=run, obstacles=("cannot be followed",), gpu_memory=(memory,))
    steps = made.steps
    return dataclasses.replace(poisoned(dataclasses.replace(made, steps=()), evil), steps=steps)


def a_tune(evil: str) -> None:
    curve = GAIN.threads
    result = dataclasses.replace(poisoned(dataclasses.replace(GAIN, threads=None), evil), threads=curve)
    warnings = Caution("wrote outside", paths=(evil,)), Caution("not written down", text=evil)
    result = dataclasses.replace(result, versions={"torch": evil}, warnings=warnings)
    print_tune(result, console_for(None), f"{evil}train.py", Path(f".hasten/{evil}/plan.toml"))


def a_tune_without_gain(evil: str) -> None:
    print_tune(poisoned(GUARD_FAILED, evil), console_for(None), f"{evil}train.py", Path("plan.toml"))


def a_profile(evil: str) -> None:
    print_profile(seen(evil), [Cause("input", 0.5, evil, (evil,))], console_for(None))


def a_verify(evil: str) -> None:
    metric, courses = HELD.metric.name, [run.courses for run in HELD.runs]
    verdict = poisoned(HELD, evil)
    runs = [dataclasses.replace(run, courses=own) for run, own in zip(HELD.runs, courses, strict=True)]
    kept = dataclasses.replace(verdict.metric, name=metric)
    print_verify(dataclasses.replace(verdict, runs=tuple(runs), metric=kept), console_for(None))


def a_failed_verify(evil: str) -> None:
    print_verify(dataclasses.replace(HELD, outcome="failed", reason=evil), console_for(None))


def a_doctor(evil: str) -> None:
    machine: Machine = recorded("epyc-8-nodes")
    machine = dataclasses.replace(machine, cpu_model=evil, accelerators=(evil,), cpu_flags=(evil,))
    print_doctor(machine, TorchBuild(evil, evil), [Finding(evil, evil, True)], console_for(None))


def techniques(evil: str) -> None:
    entry = Entry(evil, evil, "layer", "exact", "live", (), ({"kind": evil},))
    entries = (entry, dataclasses.replace(entry, reasons=(evil,)))
    print_techniques(Listing(evil, evil, entries, obstacles=(evil,)), console_for(None))


def everything_of(progress: Silent, evil: str) -> None:
    with progress:
        progress.stage(f"observing {evil}")
        progress.observed(seen(evil), [Cause("input", 0.5, evil, ())])
        for row in GAIN.tried:
            progress.trying(evil, row.against)
            progress.tried(dataclasses.replace(row, reason=Reason("failed", failure=evil)))


def plain_progress(evil: str) -> None:
    everything_of(Lines(100), evil)


def live_progress(evil: str) -> None:
    everything_of(Terminal(100), evil)


def a_message(evil: str) -> None:
    say(f"hasten: {evil} cannot be read")


def a_traceback(evil: str) -> None:
    say(f"hasten: train.py raised an error of its own:\n\tValueError: {evil}", lines=True)


PRINTERS: list[Callable[[str], None]] = [
    a_tune, a_tune_without_gain, a_profile, a_verify, a_failed_verify, a_doctor, techniques, plain_progress,
    live_progress, a_message, a_traceback,
]  # fmt: skip


def hidden(text: str) -> set[str]:
    """Characters that nobody would see, but for ends of lines and tabs."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n", "\t"}


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("evil", HOSTILE)
@pytest.mark.parametrize("printer", PRINTERS)
def test_it_is_shown_and_does_nothing(
    printer: Callable[[str], None], evil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, shown = HOSTILE[evil]
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("sys.stderr", stream)
    printer(written)
    said = stream.getvalue()
    assert not hidden(said)
    assert shown in "".join(said.split())  # tables fold what is long


@pytest.mark.attack("intruders")
def test_one_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A file's name cannot pretend to be a line of ours."""
    say("hasten: there is no script at x\nhasten: quality is held")
    assert capsys.readouterr().err == "hasten: there is no script at x\\nhasten: quality is held\n"


@pytest.mark.attack("intruders")
@pytest.mark.parametrize(
    "text", ["größer", "学習", "می\u200cخواهم", "👩‍💻", "a\xa0b", "∑ → ∞", "tab\tseparated"]
)
def test_what_people_write_stays_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(text, lines=True)
    assert capsys.readouterr().err == f"{text}\n"
