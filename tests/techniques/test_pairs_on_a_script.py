"""Techniques that change no result alone change none in pairs: one script under each two that go together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.inside.job import Job
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.exclusion import within
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan, Settings
from tests.inside.distributed.forked import _work, forked

SCRIPT = Path(__file__).with_name("many_parts.py")
# lazy_dynamo is not among them: these processes are forks of one that has imported torch's compiler
SETTINGS: dict[str, Settings] = {
    "debugging_off": {},
    "pad_trim": {},
    "compile": {"backend": "aot_eager"},  # all of it but the kernels, which take half a minute to make
    "channels_last": {},
    "drop_bias": {},
    "graph_free_evaluation": {},
    "fused_optimizer": {},
    "merge_groups": {},
    "zero_grad_to_none": {},
    "optimizer_in_backward": {},
    "checkpointing": {},
    "async_save": {},
    "dataset_in_ram": {},
    "batched_fetch": {},
    "sample_store": {},
    "loader_workers": {"count": 1},
    "persistent_workers": {},
    "evaluation_in_ram": {},
    "gc_control": {},
}
WITH_WORKERS = {"persistent_workers"}  # the script's own loader has one then
TELLING = {
    ("channels_last", "fused_optimizer"),
    ("drop_bias", "checkpointing"),
    ("graph_free_evaluation", "evaluation_in_ram"),
    ("batched_fetch", "async_save"),
}
APART = 1e-4  # relative: sums are in another order, over 30 steps


def together(*names: str) -> Plan:
    return Plan({name: SETTINGS[name] for name in names})


def pairs() -> Iterator[object]:
    for first, second in itertools.combinations(SETTINGS, 2):
        if within(together(first, second), CATALOG) is None:
            often = {(first, second), (second, first)} & TELLING
            yield pytest.param(first, second, marks=[] if often else pytest.mark.thorough)


def run(plan: Plan, folder: Path) -> tuple[list[float], str]:
    """The numbers that the script prints, and what hasten said."""
    folder.mkdir()
    workers = int(bool(WITH_WORKERS & set(plan.techniques)))
    script = folder / "train.py"
    script.write_text(SCRIPT.read_text().replace("WORKERS = 0", f"WORKERS = {workers}"))
    job = Job(argv=(str(script),), machine=this_machine(), plan=plan, samples=str(folder / "samples"))
    (ended,) = forked([lambda: _work(job)], folder)
    assert ended.code == 0, ended.stderr[-3000:]
    return [float(number) for number in re.findall(r"[-\d.e]+$", ended.stdout, re.MULTILINE)], ended.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    numbers, said = run(BASELINE, tmp_path_factory.mktemp("plain") / "run")
    assert said == ""
    assert len(numbers) == 30 + 3 + 1
    return numbers


def trains_the_same(plan: Plan, plain: list[float], folder: Path) -> str:
    numbers, said = run(plan, folder)
    assert numbers == pytest.approx(plain, rel=APART), said
    return said


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.thorough) for name in SETTINGS])
def test_alone(name: str, plain: list[float], tmp_path: Path) -> None:
    """Each has an effect on this script: else pairs with it would show nothing."""
    assert trains_the_same(together(name), plain, tmp_path / "run") == ""


@pytest.mark.parametrize(("first", "second"), list(pairs()))
def test_a_pair(first: str, second: str, plain: list[float], tmp_path: Path) -> None:
    trains_the_same(together(first, second), plain, tmp_path / "run")
