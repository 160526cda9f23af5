"""The catalogue imports a technique when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import pytest

from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG

RENDERED = """
import sys
from hasten.inside.job import Job
from hasten.launch.one_process import render
from hasten.machine import this_machine
from hasten.plans.files import SavedPlan, changed
from hasten.records.plan import BASELINE

plan = changed(SavedPlan(BASELINE), ["malloc", "dataset_in_ram"], []).plan
render(Job(("train.py",), this_machine(), plan), {})
found = (name.split(".") for name in sys.modules if name.startswith("hasten.inside.techniques."))
print(*sorted({parts[3] for parts in found} - {"base", "catalog", "exclusion", "support"}))
"""


def test_each_is_called_as_it_is_listed() -> None:
    assert [technique.name for technique in CATALOG.values()] == list(CATALOG)
    assert all(issubclass(technique, Technique) for technique in CATALOG.values())


def test_what_starts_a_run_imports_the_techniques_of_its_plan_alone() -> None:
    done = subprocess.run([sys.executable, "-c", RENDERED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dataset_in_ram", "malloc"]


def test_what_is_not_in_it_is_not() -> None:
    assert "no_such" not in CATALOG
    with pytest.raises(KeyError):
        CATALOG["no_such"]
    assert CATALOG.get("no_such") is None


def test_it_can_be_changed_and_be_as_before() -> None:
    names = list(CATALOG)
    with mock.patch.dict(CATALOG, {"another": Technique}):
        assert list(CATALOG) == [*names, "another"]
        assert CATALOG["another"] is Technique
    assert list(CATALOG) == names
