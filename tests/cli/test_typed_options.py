"""Options become the words again that they were parsed from."""

from __future__ import annotations

import pytest

from hasten.cli.commands import parse
from hasten.cli.engine_options import NAMES
from hasten.cli.run import PARAMETERS
from hasten.cli.typed_options import words_of


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--no-plan", "--strict"],
        ["--use=bf16", "--use=threads:count=2", "--without=malloc"],
        ["--checkpoint=kept", "--every=600s", "--keep=3"],
        ["--plan=-odd name; $(x)", "--ranks=script", "--backend=gloo"],
    ],
)
def test_what_was_typed_comes_back(words: list[str]) -> None:
    found = words_of(PARAMETERS, parse(["run", *words, "train.py"]), NAMES)
    assert sorted(found) == sorted(words)
    again = words_of(PARAMETERS, parse(["run", *found, "train.py"]), NAMES)
    assert again == found


def test_what_is_the_engines_is_left_out() -> None:
    typed = [
        "run",
        "--engine",
        "torchrun",
        "--hosts",
        "h1,h2",
        "--nproc_per_node",
        "2",
        "--strict",
        "train.py",
    ]
    assert words_of(PARAMETERS, parse(typed), NAMES | {"nproc_per_node"}) == ["--strict"]
