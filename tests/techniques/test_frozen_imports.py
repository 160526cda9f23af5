"""What torch's import made is out of the collector's sight, and a script that looks sees it all the same."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from hasten.inside.observing.uses import FINALIZES
from hasten.inside.process.finalizers import with_finalizers
from hasten.inside.techniques.frozen_imports import FrozenImports
from hasten.inside.techniques.gc_control import GcControl
from hasten.inside.techniques.lazy_dynamo import LazyDynamo
from hasten.records.plan import Plan

from .. import warm
from .made_up import facts
from .processes import Run, absent, proof_of

BEGUN = """
import gc, torch
from hasten.inside.seams import Seams
from hasten.inside.techniques.frozen_imports import FrozenImports
from hasten.inside.training import Training

seams = Seams()
training = Training(torch, seams, 0)
technique = FrozenImports()
technique.start(training, {})
"""


# ---- as the script sees the collector
@pytest.mark.parametrize(
    "seen",
    [
        "assert gc.get_freeze_count() == 0",
        "assert any(one is torch.nn.Linear for one in gc.get_objects())",
        "assert any(vars(torch.nn) is one for one in gc.get_referrers(torch.nn.Linear))",
        "before = gc.get_freeze_count(); gc.freeze(); assert gc.get_freeze_count() > before",
        "gc.unfreeze(); technique.install(training, {}); assert not technique.proof(training).effective",
    ],
    ids=["count", "objects", "referrers", "freezes", "thaws"],
)
def test_a_script_sees_what_it_would_see_without_it(run: Run, seen: str) -> None:
    run(f"{BEGUN}{seen}\n")


def test_what_comes_later_is_collected(run: Run) -> None:
    run(
        f"{BEGUN}import weakref\nclass Node: pass\nnode = Node()\nnode.itself = node\n"
        "gone = weakref.ref(node)\ndel node\ngc.collect()\nassert gone() is None\n"
    )


def test_all_is_thawed_when_hasten_lets_go(run: Run) -> None:
    run(
        f"import gc\ncount = gc.get_freeze_count\n{BEGUN}"
        "assert count() > 50_000\nseams.undo_all()\nassert count() == 0\n"
    )


# ---- what it must not keep from being finalized
class Closes:
    def __del__(self) -> None:
        pass


def begun() -> Generator[int]:
    try:
        yield 1
    finally:
        pass


def waiting() -> Iterator[int]:
    found = begun()
    next(found)
    return found


def test_whoever_looks_at_all_objects_freezes_none_of_them(run: Run) -> None:
    run(
        f"{BEGUN}import weakref\nclass Node: pass\nnode = Node()\nnode.itself = node\n"
        "gone = weakref.ref(node)\ngc.get_objects()\nassert gc.get_freeze_count() == 0\n"
        "del node\ngc.collect()\nassert gone() is None\n"
    )


def ended() -> Iterator[int]:
    found = begun()
    list(found)
    return found


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Closes(), "Closes"),
        (waiting(), "generator"),
        (begun(), "generator"),
        (ended(), ""),
        (object(), ""),
        (io.StringIO("text"), ""),
        (socket.socket(), ""),
    ],
    ids=["finalizer", "begun", "not begun", "ended", "nothing", "memory", "socket"],
)
def test_only_what_does_something_when_it_is_collected_is_named(made: object, kind: str) -> None:
    assert with_finalizers([1, made]) == kind


def test_a_file_is_named_while_something_may_be_left_to_write(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with path.open("w") as file:
        assert with_finalizers([file]) == "TextIOWrapper"
    assert with_finalizers([file]) == ""
    with path.open() as read:
        assert with_finalizers([read]) == ""


def test_importing_torch_leaves_nothing_that_waits_to_be_finalized(run: Run) -> None:
    run(
        "import gc\nfrom hasten.inside.process.finalizers import with_finalizers\n"
        "assert with_finalizers(gc.get_objects()) == ''"
    )


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("log = open('log.txt', 'w')", "is finalized when it is collected: TextIOWrapper"),
        ("gc.disable()", "the script has switched the collector off"),
        ("gc.freeze()", "the script has frozen objects itself"),
    ],
    ids=["file", "off", "frozen"],
)
def test_it_leaves_alone_what_the_script_has_done(run: Run, before: str, reason: str) -> None:
    run(
        f"import gc\n{before}\nfrom hasten.inside.training import NotApplicable\ntry:\n    exec({BEGUN!r})\n"
        f"except NotApplicable as error:\n    assert {reason!r} in str(error), error\n"
        "else:\n    raise AssertionError('it was applied')\n"
    )


def test_a_file_in_a_cycle_is_written_at_the_end(tmp_path: Path) -> None:
    """The case that the finalizers are looked at for, in a whole process."""
    script = (
        "class Log:\n    def __init__(self):\n        self.itself, self.file = self, open('log.txt', 'w')\n"
        f"log = Log()\nlog.file.write('kept')\nimport os\nos.chdir({str(tmp_path)!r})\n"
    ).replace("open('log.txt'", f"open({str(tmp_path / 'log.txt')!r}")
    whole = tmp_path / "train.py"
    guarded = "\n".join(f"    {line}" for line in BEGUN.strip().splitlines())
    whole.write_text(
        f"{script}from hasten.inside.training import NotApplicable\ntry:\n{guarded}\n"
        "except NotApplicable:\n    pass\n"
    )
    (done,) = warm.run([warm.Program(whole, tmp_path, os.environ)])
    assert done.code == 0, done.stderr
    assert (tmp_path / "log.txt").read_text() == "kept"


# ---- the technique
def test_its_proof_counts_what_is_frozen() -> None:
    effective, evidence = proof_of("frozen_imports", {}, Plan({"frozen_imports": {}}))
    assert effective
    count, rest = evidence.split(" ", 1)
    assert int(count) > 50_000
    assert rest == "objects are left out of garbage collections"


def test_a_script_with_something_to_finalize_is_not_tried() -> None:
    """It would be refused once torch is imported, after a start."""
    assert FrozenImports.refuse(facts()) == []
    (reason,) = FrozenImports.refuse(facts(uses=(FINALIZES,)))
    assert reason == "something made before torch was imported is finalized when it is collected"


def test_without_it_the_proof_fails() -> None:
    assert absent("frozen_imports", {})


def test_it_is_tried_together_with_what_else_shortens_the_start() -> None:
    assert LazyDynamo.together_with({}, facts()) == {"frozen_imports": {}}
    assert "gc_control" in FrozenImports.conflicts
    assert "frozen_imports" not in GcControl.conflicts, "said on one side"
