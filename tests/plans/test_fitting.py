"""A plan made elsewhere: what of it remains, and what must be said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.launch.shares import shares
from hasten.machine.torch_build import torch_version
from hasten.plans.files import SavedPlan
from hasten.plans.fitting import fit
from hasten.records.machine import Core, Machine
from hasten.records.plan import Plan
from hasten.scripts.sources import Sources
from hasten.scripts.workspace import Script

from ..bench.made_up import machine

PLAN = Plan({"malloc": {}, "threads": {"count": 2}, "bf16": {}})
HERE = machine()
TORCH = torch_version()


@pytest.fixture
def script(tmp_path: Path) -> Script:
    path = tmp_path / "train.py"
    path.write_text("print('trains')\n")
    return Script(path, ("--lr", "0.1"))


def saved_for(script: Script, /, **changes: str) -> SavedPlan:
    """The plan as tune writes it for this script, this machine and this torch, less ``changes``."""
    made_for = {
        "script": str(script.path),
        "digest": script.digest(),
        "machine": HERE.identity,
        "torch": TORCH,
    }
    return SavedPlan(PLAN, made_for | changes)


def only_remark(saved: SavedPlan, script: Script, machine: Machine = HERE) -> tuple[Plan, str]:
    plan, remarks = fit(saved, script, machine)
    (remark,) = remarks
    return plan, remark


def test_nothing_is_said_where_all_is_as_it_was(script: Script) -> None:
    assert fit(saved_for(script), script, HERE) == (PLAN, [])


def test_other_arguments_are_no_news(script: Script) -> None:
    assert fit(saved_for(script), replace(script, arguments=("--lr", "1")), HERE) == (PLAN, [])


def test_a_plan_that_says_nothing_of_its_origin_fits(script: Script) -> None:
    """As written by hand."""
    assert fit(SavedPlan(PLAN), script, HERE) == (PLAN, [])


def test_a_changed_script(script: Script) -> None:
    saved = saved_for(script)
    script.path.write_text("print('trains otherwise')\n")
    plan, remark = only_remark(saved, script)
    assert plan == PLAN
    assert remark == f"{script.path} has changed since its plan was made: tune again to be sure"


@pytest.mark.attack("truth")
@pytest.mark.parametrize("gone", [False, True])
def test_a_changed_module(script: Script, gone: bool) -> None:
    """The script itself is as it was."""
    losses, nets = script.path.with_name("losses.py"), script.path.with_name("nets.py")
    for path in (losses, nets):
        path.write_text("pass\n")
    sources = Sources(script, "tuned")
    sources.imported(map(str, (losses, nets)))
    saved = saved_for(script)
    saved = replace(saved, made_for={**saved.made_for, "modules": sources.digests().modules})
    assert fit(saved, script, HERE) == (PLAN, [])
    losses.unlink() if gone else losses.write_text("raise SystemExit\n")
    plan, remark = only_remark(saved, script)
    assert plan == PLAN
    assert remark == "losses.py changed since the plan was made: tune again to be sure"
    nets.write_text("changed = True\n")
    _, remark = only_remark(saved, script)
    assert remark == "losses.py and nets.py changed since the plan was made: tune again to be sure"


def test_the_modules_of_another_script_are_not_looked_at(script: Script) -> None:
    saved = saved_for(script, script="other.py", digest="c0ffee")
    saved = replace(saved, made_for={**saved.made_for, "modules": {"its_own.py": "c0ffee"}})
    assert only_remark(saved, script)[1] == "the plan was made for another script, other.py"


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("modules", [None, 3, "losses.py", ["losses.py"], True, {}])
def test_modules_that_are_no_table(script: Script, modules: object) -> None:
    saved = saved_for(script)
    assert fit(replace(saved, made_for={**saved.made_for, "modules": modules}), script, HERE) == (PLAN, [])


def test_another_script(script: Script) -> None:
    plan, remark = only_remark(saved_for(script, script="other.py", digest="c0ffee"), script)
    assert plan == PLAN
    assert remark == "the plan was made for another script, other.py"


def test_a_script_that_was_moved_is_the_same(script: Script) -> None:
    assert fit(saved_for(script, script="old/place.py"), script, HERE) == (PLAN, [])


def test_another_machine(script: Script) -> None:
    elsewhere = machine(physical_cores=64)
    plan, remark = only_remark(saved_for(script), script, elsewhere)
    assert plan == PLAN
    assert HERE.identity in remark
    assert elsewhere.identity in remark


@pytest.mark.parametrize(
    "changes",
    [{"available_bytes": 1}, {"environment": {"TORCH_LOGS": ""}}, {"python": "3.13.0"}, {"cpu_flags": ()}],
)
def test_a_machine_is_the_same_on_another_day(script: Script, changes: dict[str, object]) -> None:
    assert fit(saved_for(script), script, machine(**changes)) == (PLAN, [])


def test_another_torch(script: Script) -> None:
    plan, remark = only_remark(saved_for(script, torch="1.0"), script)
    assert plan == PLAN
    assert remark.startswith(
        f"the plan was made with torch 1.0; this is {TORCH}. Here it trains under all of it"
    )


@pytest.mark.parametrize(
    ("changes", "left_out", "reason"),
    [
        ({"environment": {"MALLOC_ARENA_MAX": "1"}}, "malloc", "you set MALLOC_ARENA_MAX yourself"),
        ({"environment": {"LD_PRELOAD": "libjemalloc.so"}}, "malloc", "you preload .*libjemalloc"),
        ({"libc": "musl"}, "malloc", "needs glibc, found musl"),
        ({"environment": {"OMP_NUM_THREADS": "1"}}, "threads", "you set OMP_NUM_THREADS yourself"),
    ],
)
def test_what_cannot_apply_here_is_left_out(
    script: Script, changes: dict[str, object], left_out: str, reason: str
) -> None:
    plan, remark = only_remark(saved_for(script), script, machine(**changes))
    assert plan == PLAN.without(left_out)
    assert re.search(f"^{left_out} does not apply here and is left out: .*{reason}", remark)


def test_a_plan_for_ranks_fits_where_as_many_are_started(script: Script) -> None:
    """Each rank sees half of the machine, as it did when the plan was made."""
    here = machine(cores=tuple(Core((n,)) for n in range(4)))
    seen = shares(here, 2)[0].part_of(here)
    made_for = dict(saved_for(script, machine=seen.identity).made_for, nproc_per_node=2)
    saved = SavedPlan(PLAN, made_for)
    assert fit(saved, script, here, 2) == (PLAN, [])
    _, remark = only_remark(saved, script, here)
    assert remark == "the plan was made for 2 processes: start it with --nproc-per-node 2"
    _, remark = only_remark(replace(saved, made_for={**made_for, "nproc_per_node": "many"}), script, seen)
    assert remark.startswith("the plan was made for many processes")


def test_all_that_differs_is_said_together(script: Script) -> None:
    saved = saved_for(script, script="other.py", digest="c0ffee", torch="1.0")
    elsewhere = machine(cpu_model="Abacus", environment={"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"})
    plan, remarks = fit(saved, script, elsewhere)
    assert plan == Plan({"bf16": {}})
    assert [
        re.search("script|machine|torch|malloc|threads", remark).group()  # type: ignore[union-attr]
        for remark in remarks
    ] == ["script", "machine", "torch", "malloc", "threads"]


# ---- what a plan that was made elsewhere does here
@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    "changes", [{"machine": "an abacus"}, {"torch": "1.0"}, {"machine": "x", "torch": "1"}]
)
@pytest.mark.parametrize(("measured", "gain"), [({"speedup": 2.9}, "its 2.90x was"), ({}, "its gain was"),
                                                ({"speedup": "fast"}, "its gain was")])  # fmt: skip
def test_it_is_said_once_what_it_does_here(
    script: Script, changes: dict[str, str], measured: dict[str, object], gain: str
) -> None:
    saved = replace(saved_for(script, **changes), measured=measured)
    plan, remarks = fit(saved, script, HERE)
    assert plan == PLAN
    assert len(remarks) == len(changes)
    assert " ".join(remarks).count("Here it trains") == 1
    assert remarks[-1].endswith(
        f". Here it trains under all of it; {gain} measured there and may differ here: to measure it, "
        f"hasten tune {script.label}"
    )


@pytest.mark.attack("messages")
def test_what_is_left_of_it_is_said(script: Script) -> None:
    elsewhere = machine(cpu_model="Abacus", environment={"OMP_NUM_THREADS": "1"})
    _, remarks = fit(saved_for(script), script, elsewhere)
    assert "Here it trains under malloc, bf16; its gain was" in remarks[0]
    assert remarks[1].startswith("threads does not apply here")


@pytest.mark.attack("messages")
def test_a_plan_of_which_nothing_applies_is_said_to_do_nothing(script: Script) -> None:
    saved = replace(saved_for(script, machine="an abacus"), plan=Plan({"malloc": {}}))
    plan, remarks = fit(saved, script, machine(libc="musl"))
    assert plan == Plan()
    assert (
        f"Nothing of it applies here. To find out what is faster here: hasten tune {script.label}"
        in remarks[0]
    )


@pytest.mark.attack("messages")
def test_an_empty_plan_from_elsewhere_asks_to_tune(script: Script) -> None:
    saved = replace(saved_for(script, machine="an abacus"), plan=Plan())
    assert fit(saved, script, HERE)[1][0].endswith(
        f". To find out what is faster here: hasten tune {script.label}"
    )


@pytest.mark.attack("processors")
@pytest.mark.parametrize(
    ("then", "here", "missing"),
    [
        (["avx2", "amx_bf16"], ("avx2",), "this processor has no amx_bf16, so bf16 may even be slower"),
        (["avx512_bf16", "amx_bf16"], ("avx2",), "this processor has no avx512_bf16, amx_bf16, so"),
        (["avx2"], ("avx2", "amx_bf16"), ""),
        (["amx_bf16"], (), ""),  # it does not tell
        (["<script>"], ("avx2",), ""),  # a plan may come from anybody
        ("amx_bf16", ("avx2",), ""),
        (7, ("avx2",), ""),
        ([["amx_bf16"]], ("avx2",), ""),
    ],
)
def test_instructions_that_a_lower_precision_misses_here_are_named(
    script: Script, then: object, here: tuple[str, ...], missing: str
) -> None:
    saved = saved_for(script, machine="an abacus")
    saved = replace(saved, made_for={**saved.made_for, "cpu_flags": then})
    _, remark = only_remark(saved, script, machine(cpu_flags=here))
    assert missing in remark
    assert ("may even be slower" in remark) is bool(missing)


def test_in_float32_no_instructions_are_missed(script: Script) -> None:
    saved = replace(saved_for(script, machine="an abacus"), plan=Plan({"malloc": {}}))
    saved = replace(saved, made_for={**saved.made_for, "cpu_flags": ["amx_bf16"]})
    assert "slower" not in only_remark(saved, script, machine(cpu_flags=("avx2",)))[1]
