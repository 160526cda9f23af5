"""The cards of the techniques are complete, and those in docs are what is made of the sources now."""

from __future__ import annotations

import inspect
import sys

import pytest
from benchmarks.cards import FOLDER, TRIED_WITH, all_pages, card

from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG


def test_the_pages_in_docs_are_up_to_date() -> None:
    """``python -m benchmarks.cards`` writes them."""
    assert {path.name: path.read_text() for path in FOLDER.glob("*.md")} == all_pages()


@pytest.mark.parametrize("name", CATALOG)
def test_a_module_says_when_it_helps_and_where_it_comes_from(name: str) -> None:
    text = inspect.getdoc(sys.modules[CATALOG[name].__module__]) or ""
    assert "Source" in text
    assert len(text.split("\n\n")) >= 3


@pytest.mark.parametrize("name", CATALOG)
def test_a_proof_says_what_it_counts(name: str) -> None:
    own = CATALOG[name].proof
    assert own is not Technique.proof
    assert own.__doc__


def test_a_card_shows_what_was_measured_and_what_was_expected() -> None:
    rows = [
        {
            "technique": "bf16",
            "workload": "convolutions",
            "expected": "gain",
            "why": "of products",
            "found": "no gain",
            "speedup": "1.01x (0.98 to 1.04)",
            "failure": None,
        }
    ]
    here = {"machine": "made up", "torch": "2.13.0", "rows": rows}
    text = card(CATALOG["bf16"], [here, {**here, "rows": []}, {**here, "machine": "another"}])
    assert text.count("| gain: of products | no gain: 1.01x (0.98 to 1.04) |") == 2
    assert "On another, torch 2.13.0" in text
    assert "Unproven: not measured yet." in card(CATALOG["bf16"], [])
    assert "Unproven: no workload is known" in card(CATALOG["affinity"], [])


@pytest.mark.parametrize("name", CATALOG)
def test_the_lines_by_hand_can_be_shown(name: str) -> None:
    assert CATALOG[name].by_hand(TRIED_WITH.get(name, {}))
