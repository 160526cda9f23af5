"""Numbers too small for full precision: zero in all threads, or in none."""

from __future__ import annotations

import pytest

from hasten.inside.techniques.denormals import Denormals

from .made_up import facts, machine, root
from .processes import absent, proof_of, proven


def test_the_proof_holds_in_a_process_that_was_started_so() -> None:
    assert proven("denormals", {})


def test_the_proof_fails_in_a_process_that_was_not() -> None:
    assert absent("denormals", {})


def test_set_when_torchs_threads_run_already_it_is_not_proven() -> None:
    """They inherit it from the thread that starts them, and so keep what was then."""
    late = "torch.set_num_threads(2); torch.ones(2**20).mul_(2); torch.set_flush_denormal(True)"
    effective, evidence = proof_of("denormals", {}, script=late)
    assert not effective
    assert "computed by 2 threads" in evidence


def test_what_the_script_sets_itself_stands() -> None:
    found = Denormals.refuse(facts(uses=("set_flush_denormal",)))
    assert found == ["the script calls torch.set_flush_denormal itself, and that stands"]


@pytest.mark.parametrize(
    ("architecture", "refused"), [("x86_64", False), ("aarch64", False), ("s390x", True)]
)
def test_where_torch_can_set_it(architecture: str, refused: bool) -> None:
    assert bool(Denormals.refuse(facts(machine(architecture=architecture)))) is refused


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    assert Denormals.refuse(facts(roots=(root(devices=("cuda:0",)),))) == ["the training is not on the CPU"]


def test_it_is_no_matter_of_rounding_alone() -> None:
    """Adam with eps=0 divides by a root that would become zero."""
    assert Denormals.risk == "close"
    assert "set_flush_denormal(True)" in Denormals.by_hand({})
