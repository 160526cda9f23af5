"""Which cores threads are bound to: on machines on paper, and by what the kernel says of real threads."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hasten.inside.techniques import affinity
from hasten.inside.techniques.affinity import Affinity, ordered, places_in
from hasten.machine import this_machine
from hasten.records.machine import Core, Machine
from hasten.records.plan import Plan, Settings

from ..bench.real_workers import first_output, trials_for
from ..machine.topologies import recorded
from ..thorough import cases
from .made_up import facts, loader, machine, root
from .processes import absent, proof_of, proven
from .test_openmp_runtime import with_libiomp5

COMPACT = {"bind": "compact"}
needs_two_cores = pytest.mark.skipif(
    len(this_machine().cores) < 2 or this_machine().usable_cpus < 2, reason="one core: nothing to choose"
)


def cores(sockets: int, nodes: int, each: int, smt: int = 1) -> tuple[Core, ...]:
    """Cores numbered as Linux does: all first hardware threads, then all second ones."""
    count = sockets * nodes * each
    return tuple(
        Core(tuple(n + count * k for k in range(smt)), n // (nodes * each), n // each) for n in range(count)
    )


def placed(cores: tuple[Core, ...], **other: Any) -> Machine:
    logical = sum(len(core.cpus) for core in cores)
    return machine(cores=cores, logical_cpus=logical, physical_cores=len(cores), **other)


TWO_SOCKETS = placed(cores(2, 1, 4, smt=2))
MANY_NODES = placed(cores(2, 4, 2))
PLAIN = placed(cores(1, 1, 2))


def firsts(where: Machine, kind: str) -> list[int]:
    return [core.cpus[0] for core in ordered(where, kind)]


@pytest.mark.parametrize(
    ("where", "compact", "spread"),
    [
        pytest.param(PLAIN, [0, 1], [0, 1], id="two cores"),
        pytest.param(TWO_SOCKETS, range(8), [0, 4, 1, 5, 2, 6, 3, 7], id="two sockets"),
        pytest.param(placed(cores(2, 1, 4, 2), quota_cpus=3.0), [0, 1, 2], [0, 4, 1], id="a quota"),
        pytest.param(
            MANY_NODES, range(16), [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15], id="eight nodes"
        ),
        pytest.param(placed(cores(2, 4, 2)[3:6]), [3, 4, 5], [3, 4, 5], id="a cpuset across two nodes"),
    ],
)
def test_the_order_in_which_threads_take_cores(where: Machine, compact: Any, spread: Any) -> None:
    assert firsts(where, "compact") == list(compact)
    assert firsts(where, "spread") == list(spread)


def test_fast_cores_are_taken_before_slow_ones() -> None:
    fast, slow = [*range(5, 10), *range(15, 20)], [*range(5), *range(10, 15)]
    assert firsts(recorded("arm-two-kinds"), "compact") == fast + slow


@pytest.mark.parametrize(
    ("where", "kinds"),
    [
        (PLAIN, ["compact"]),
        (TWO_SOCKETS, ["compact", "spread", "cores"]),
        (MANY_NODES, ["compact", "spread"]),
    ],
)
def test_what_is_worth_trying(where: Machine, kinds: list[str]) -> None:
    assert Affinity.refuse(facts(where)) == []
    assert [settings["bind"] for settings in Affinity.options(facts(where))] == kinds


def test_a_place_is_a_core_with_its_hardware_threads() -> None:
    found = Affinity.environment({"bind": "spread"}, placed(cores(2, 1, 2, smt=2)))
    assert found == {"OMP_PLACES": "{0,4},{2,6},{1,5},{3,7}", "OMP_PROC_BIND": "close"}
    assert places_in(found) == [{0, 4}, {2, 6}, {1, 5}, {3, 7}]


def test_libiomp5_is_told_in_its_own_words() -> None:
    where = placed(cores(1, 1, 2), environment={"LD_PRELOAD": "/env/libiomp5.so"})
    found = Affinity.environment(COMPACT, where)
    assert found == {"KMP_AFFINITY": "granularity=fine,proclist=[{0},{1}],explicit"}
    assert places_in(found) == [{0}, {1}]


def test_one_hardware_thread_of_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affinity, "_siblings", lambda cpu: frozenset({cpu % 4, cpu % 4 + 4}))
    assert affinity.first_threads(range(8)) == {0, 1, 2, 3}
    assert affinity.first_threads([1, 4, 5]) == {1, 4}
    assert Affinity.environment({"bind": "cores"}, TWO_SOCKETS) == {}


def test_threads_that_workers_keep_from_their_cores_are_not_bound() -> None:
    workers = (loader(workers=2),)
    assert Affinity.options(facts(TWO_SOCKETS, loaders=workers)) == [{"bind": "cores"}]
    (reason,) = Affinity.refuse(facts(PLAIN, loaders=workers))
    assert reason == "bound threads would wait for the cores that the 2 workers of a loader use"


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (machine(), "does not report where its cores lie"),
        (placed(cores(1, 1, 1)), "one core"),
        (placed(cores(1, 1, 2), system="Darwin"), "cannot be bound on Darwin"),
        (placed(cores(1, 1, 2), environment={"OMP_PLACES": "cores"}), "you set OMP_PLACES yourself"),
        (placed(cores(1, 1, 2), environment={"KMP_AFFINITY": "none"}), "you set KMP_AFFINITY yourself"),
    ],
)
def test_what_it_refuses(where: Machine, reason: str) -> None:
    (found,) = Affinity.refuse(facts(where))
    assert reason in found


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    found = Affinity.refuse(facts(PLAIN, roots=(root(devices=("cuda:0",)),)))
    assert found == ["the training is not on the CPU"]


def test_a_plan_for_two_threads_a_core_does_not_fit_one() -> None:
    assert Affinity.refuse_settings({"bind": "cores"}, TWO_SOCKETS) == []
    assert Affinity.refuse_settings({"bind": "cores"}, PLAIN) != []


@pytest.mark.parametrize("settings", [{}, {"bind": "0-3"}, {"bind": "compact", "cpus": "0"}])
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one of compact, spread, cores"):
        Affinity.check(settings)


def test_the_same_by_hand() -> None:
    assert Affinity.by_hand(COMPACT) == "export OMP_PLACES=cores OMP_PROC_BIND=close"
    assert "taskset" in Affinity.by_hand({"bind": "cores"})


# ---- for real
@needs_two_cores
def test_threads_are_bound_as_the_kernel_says() -> None:
    assert proven("affinity", COMPACT)
    assert absent("affinity", COMPACT)


@needs_two_cores
def test_threads_of_libiomp5_are_bound_too() -> None:
    intel: dict[str, Settings] = {"openmp_runtime": {"kind": "libiomp5", "blocktime": 1}}
    effective, evidence = proof_of("affinity", COMPACT, Plan({"affinity": COMPACT, **intel}), with_libiomp5())
    assert effective, evidence


@needs_two_cores
@pytest.mark.attack("processors")
@pytest.mark.parametrize(
    "script",
    [
        "import os; os.environ['KMP_AFFINITY'] = 'granularity=fine,compact,1,0'",  # as tutorials have it
        "import os; os.environ.clear()",
        *(
            pytest.param(script, marks=pytest.mark.thorough)
            for script in (
                "import os; os.environ['KMP_AFFINITY'] = 'disabled'",
                "import os; os.environ['OMP_PLACES'] = 'cores'",
                "import os; os.environ['OMP_PLACES'] = 'threads'; os.environ['KMP_AFFINITY'] = 'none'",
                "import os; os.environ.pop('OMP_PLACES', None); os.environ.pop('KMP_AFFINITY', None)",
                "import os; os.environ = {}",
            )
        ),
    ],
)
def test_a_script_that_changes_variables_itself_is_bound_as_it_was_started(script: str) -> None:
    """Torch has read them by then."""
    assert proven("affinity", COMPACT, script=script)


@pytest.mark.attack("messages")
def test_where_no_cores_were_asked_for_it_says_so() -> None:
    effective, evidence = proof_of("affinity", COMPACT)
    assert not effective
    assert evidence == "this process was not told which cores to take: OMP_PLACES and KMP_AFFINITY name none"


@pytest.mark.attack("processors")
@pytest.mark.parametrize(
    ("first", "later", "found"),
    [
        ({"OMP_PLACES": "{0},{1}"}, {}, 2),
        ({"OMP_PLACES": "{0},{1}"}, {"OMP_PLACES": "{0}"}, 2),
        ({}, {"OMP_PLACES": "{0,2}"}, 1),  # a program that overwrote what it was started with, its title say
        ({"OMP_PLACES": "cores"}, {"KMP_AFFINITY": "granularity=fine,proclist=[{0},{1},{2}],explicit"}, 3),
        ({"KMP_AFFINITY": "compact", "OMP_PLACES": "{0}"}, {}, 1),
        ({"KMP_AFFINITY": "compact"}, {"KMP_AFFINITY": "none"}, 0),
    ],
)
def test_cores_are_taken_from_whichever_variable_names_them(
    monkeypatch: pytest.MonkeyPatch, first: dict[str, str], later: dict[str, str], found: int
) -> None:
    monkeypatch.setattr(affinity, "started_with", lambda: first)
    monkeypatch.setattr("os.environ", later)
    assert len(affinity.asked_places()) == found


@needs_two_cores
def test_leaving_out_hardware_threads_for_real() -> None:
    """The machine may have none: the process is told that its CPUs are one core's."""
    told = "import hasten.inside.techniques.affinity as a; a._siblings = lambda cpu: a.cpus_in('0-4095')\n"
    start = told + "CATALOG[name]().start(training, asked)"
    effective, evidence = proof_of("affinity", {"bind": "cores"}, script=start)
    assert effective, evidence
    assert absent("affinity", {"bind": "cores"})


_BOUND = "a thread bound by the script"
# Each says on which CPUs something that the script starts may run, as the kernel writes it.
_STARTED = {
    "a fork": """
        reads, writes = os.pipe()
        if os.fork() == 0:
            os.write(writes, repr(bound()).encode())
            os._exit(0)
        found = eval(os.read(reads, 9999))
        os.wait()
    """,
    "a thread": """
        said = []
        thread = threading.Thread(target=lambda: said.append(bound()))
        thread.start(), thread.join()
        found = said[0]
    """,
    "a thread of a pool": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(bound).result()
    """,
    "a program": """
        found = cpus_in(subprocess.check_output([sys.executable, "-c", SAY], text=True))
    """,
    "a program that imports torch": """
        found = cpus_in(subprocess.check_output([sys.executable, "-c", "import torch; " + SAY], text=True))
    """,
    "a program of the shell": """
        os.system(f"{sys.executable} -c '{SAY}' > {FILE}")
        found = cpus_in(open(FILE).read())
    """,
    "a spawned process": """
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(os.sched_getaffinity, (0,))
    """,
    "posix_spawn": """
        actions = [(os.POSIX_SPAWN_OPEN, 1, FILE, os.O_CREAT | os.O_WRONLY, 0o600)]
        os.waitpid(os.posix_spawn(sys.executable, ["python", "-c", SAY], os.environ, file_actions=actions), 0)
        found = cpus_in(open(FILE).read())
    """,
}


@needs_two_cores
@pytest.mark.attack("processors")
@pytest.mark.parametrize(
    "started", cases([*_STARTED, _BOUND], ["a fork", "a program", "a spawned process", _BOUND])
)
def test_what_a_script_starts_may_use_all_cores(started: str, tmp_path: Path) -> None:
    """The main thread is bound, and what it starts would inherit its core."""
    chosen = started == _BOUND
    how = _STARTED["a thread" if chosen else started]
    script = f"""
FILE = {str(tmp_path / "said")!r}
mine = bound()
other = set(EVERY - mine if {chosen} else mine)
if {chosen}:
    os.sched_setaffinity(0, other)
{textwrap.dedent(how)}
assert found == (other if {chosen} else EVERY), found
assert bound() == other
os.sched_setaffinity(0, mine)
"""
    effective, evidence = proof_of("affinity", COMPACT, Plan({"affinity": COMPACT}), script=_KNOWS + script)
    assert effective, evidence


_KNOWS = f"""
import os, subprocess, sys, threading
from hasten.inside.techniques.support.native import cpus_in

EVERY = {set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()!r}
SAY = "print(open(\\"/proc/self/status\\").read().split(\\"Cpus_allowed_list:\\")[1].split()[0])"

def bound():
    return set(cpus_in(open("/proc/thread-self/status").read().split("Cpus_allowed_list:")[1].split()[0]))

assert bound() < EVERY
assert os.sched_getaffinity(0) == EVERY
"""


@needs_two_cores
def test_a_program_that_takes_the_scripts_place_may_use_all_cores() -> None:
    says = "import json, os; print(json.dumps([True, sorted(os.sched_getaffinity(0))]))"
    script = f"import os, sys; sys.stdout.flush(); os.execv(sys.executable, ['python', '-c', {says!r}])"
    _, found = proof_of("affinity", COMPACT, Plan({"affinity": COMPACT}), script=script)
    assert found == sorted(os.sched_getaffinity(0))  # type: ignore[comparison-overlap]


@needs_two_cores
@pytest.mark.attack("processors")
def test_a_script_that_binds_itself_to_the_same_core_is_taken_at_its_word() -> None:
    script = """
mine = bound()
os.sched_setaffinity(0, mine)
assert os.sched_getaffinity(0) == mine
"""
    effective, evidence = proof_of("affinity", COMPACT, Plan({"affinity": COMPACT}), script=_KNOWS + script)
    assert effective, evidence


@needs_two_cores
@pytest.mark.attack("processors")
def test_variables_that_a_script_sets_itself_stay_its_own() -> None:
    script = """
assert "OMP_PLACES" not in os.environ
assert "OMP_PROC_BIND" not in os.environ
os.environ["OMP_PLACES"] = "cores"
training.seams.undo_all()
assert os.environ["OMP_PLACES"] == "cores"
assert bound() == EVERY
"""
    # which fails if an assert does
    proof_of("affinity", COMPACT, Plan({"affinity": COMPACT}), script=_KNOWS + script)


@needs_two_cores
def test_in_a_workers_forked_child_too_where_the_seams_are_undone(tmp_path: Path) -> None:
    """What makes samples is forked there, and a child's training is not the measured one."""
    source = """
        from ground import *
        import os

        torch.manual_seed(0)
        model = Cnn()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        reads, writes = os.pipe()
        if os.fork() == 0:
            os.write(writes, repr(os.sched_getaffinity(0)).encode())
            os._exit(0)
        print(os.read(reads, 9999).decode(), flush=True)
        os.wait()
        for pictures, labels in batches(Pictures()):
            train_step(model, optimizer, pictures, labels)
    """
    plan, environment = Plan({"affinity": COMPACT}), dict(os.environ)
    environment.pop("OMP_NUM_THREADS", None)
    with trials_for(tmp_path, source, environment=environment) as trials, trials.worker(plan) as worker:
        worker.wait_started()
        worker.steps(2)
        assert all(proof.effective for proof in worker.proofs())
        assert first_output(tmp_path).strip() == repr(set(os.sched_getaffinity(0)))


@needs_two_cores
@pytest.mark.attack("processors")
def test_what_one_of_several_ranks_starts_stays_on_its_own_cpus() -> None:
    script = """
from hasten.inside.techniques.support.children_unbound import unbind_children

training.seams.undo_all()
assert bound() == EVERY
unbind_children(training.seams, [], frozenset([max(EVERY)]))
assert os.sched_getaffinity(0) == {max(EVERY)}
"""
    proof_of("affinity", COMPACT, Plan({"affinity": COMPACT}), script=_KNOWS + script)
