"""What a command line asks of ``hasten tune``, which is not carried out."""

from __future__ import annotations

import pytest

from hasten.cli.commands import parse
from hasten.errors import Refusal
from hasten.records.result import TuneResult
from hasten.tuning import pipeline
from hasten.tuning.request import TuneRequest


def asked_by(monkeypatch: pytest.MonkeyPatch, *words: str) -> TuneRequest:
    """``words``: options of ``hasten tune``, in a folder with ``train.py`` in it."""
    asked: list[TuneRequest] = []

    def seen(request: TuneRequest, progress: object) -> TuneResult:
        asked.append(request)
        raise Refusal("seen")

    monkeypatch.setattr(pipeline, "tune", seen)
    arguments = parse(["tune", *words, "train.py"])
    with pytest.raises(Refusal, match="seen"):
        arguments.verb.execute(arguments)
    (request,) = asked
    return request
