"""Workers as the coordinator starts them, with tiny scripts: to the end, whatever that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.workers.ending import PlanRefused, ScriptEnded, ScriptOver
from hasten.bench.workers.process import WorkerProcess
from hasten.bench.workers.worker_output import Output
from hasten.errors import WorkerError
from hasten.inside.job import Job, Perturbation
from hasten.launch.one_process import render
from hasten.records.plan import Plan

from ...patience import PATIENCE_SECONDS
from ...techniques.made_up import machine
from ..distributed.forked import plain_forked, run_forked, workers_forked
from ..distributed.ranks import Ended

TRAIN = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item(), flush=True)
"""
AFTER = PATIENCE_SECONDS  # after which a test has failed


class Stage:
    """A script, where its output goes, and the workers started for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "train.py"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.workers: list[WorkerProcess] = []

    def job(self, source: str, **other: Any) -> Job:
        self.script.write_text(source)
        return Job(argv=(str(self.script), "--epochs", "2"), machine=machine(), **other)

    def worker(self, source: str, **other: Any) -> WorkerProcess:
        worker = WorkerProcess(
            self.job(source, **other), self.environment, Output(self.folder / "out", self.folder / "err")
        )
        self.workers.append(worker)
        return worker

    def started(self, source: str, **other: Any) -> WorkerProcess:
        worker = self.worker(source, **other)
        worker.wait_started(AFTER)
        return worker

    def ending(self, source: str, **other: Any) -> ScriptEnded:
        """How the script ends when it is let run."""
        with pytest.raises(ScriptOver) as over:
            self.started(source, **other).steps(1000, AFTER)
        return over.value.ended

    def run(self, source: str, **other: Any) -> subprocess.CompletedProcess[str]:
        """In a worker without a coordinator, as `hasten run` does."""
        command, environment = render(self.job(source, **other), self.environment)
        return self._output_of(command, environment)

    def run_forked(self, source: str, **other: Any) -> Ended:
        """The same, with torch imported from the start."""
        return run_forked(self.job(source, **other), self.folder)

    def plain(self, source: str) -> subprocess.CompletedProcess[str]:
        """By Python, without us."""
        job = self.job(source)
        return self._output_of([sys.executable, *job.argv], self.environment)

    def plain_forked(self, source: str) -> Ended:
        """The same, with torch imported from the start."""
        self.job(source)
        return plain_forked(self.script)

    def _output_of(
        self, command: list[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=AFTER,
            check=False,
        )


@pytest.fixture
def forks() -> Iterator[None]:
    """Workers with whom is conversed start with torch imported: what is tested comes after that."""
    with workers_forked():
        yield


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for worker in made.workers:
        worker.stop()


# ---- a conversation
CONVERSATION = (
    """
import os, sys
before_torch = "torch" in sys.modules or "numpy" in sys.modules
assert not before_torch, "the worker imported torch before the script did"
assert not [name for name in os.environ if name.startswith("HASTEN")], "our variables are left"
assert sys.argv[1:] == ["--epochs", "2"]
assert not [entry for entry in sys.path if entry.endswith("inside")], "our folder is on the path"
"""
    + TRAIN
    + "train(12)"
)


def test_a_conversation_from_start_to_end(stage: Stage) -> None:
    plain = [float(line) for line in stage.plain_forked(TRAIN + "train(12)").stdout.split()]
    worker = stage.started(CONVERSATION)
    first, rest = worker.history[:], worker.steps(3)
    assert (len(first), len(rest)) == (1, 3)
    with pytest.raises(ScriptOver) as over:
        worker.steps(100)
    steps = [*first, *rest, *over.value.ended.steps]
    assert over.value.ended.how == "completed"
    assert [step.losses[0] for step in steps] == plain
    assert {step.signature for step in steps} == {(0, 1, 1)}
    assert {(step.samples, step.inputs) for step in steps} == {(None, 8)}
    assert all(sum(step.phases.values()) == pytest.approx(step.seconds) for step in steps)


@pytest.mark.usefixtures("forks")
def test_questions_and_switches_between_steps(stage: Stage) -> None:
    worker = stage.started(TRAIN + "train(1000)")
    seen = worker.observation()
    assert [root.parameters for root in seen.roots] == [49]
    assert [optimizer.name for optimizer in seen.optimizers] == ["Adam"]
    assert seen.threads == 1
    assert seen.start_seconds > 0
    assert worker.switch(Plan({"fused_optimizer": {}, "bf16": {}})) == ""
    worker.steps(2)
    assert [(proof.technique, proof.effective) for proof in worker.proofs()] == [
        ("fused_optimizer", True),
        ("bf16", True),
    ]
    assert "no dataset is read" in worker.switch(Plan({"bf16": {}, "dataset_in_ram": {}}))
    assert worker.proofs() == ()
    assert len(worker.steps(2)) == 2
    assert worker.observation().uses == ()


@pytest.mark.usefixtures("forks")
def test_a_worker_starts_under_its_plan(stage: Stage) -> None:
    worker = stage.started(TRAIN + "train(1000)", plan=Plan({"fused_optimizer": {}}))
    worker.steps(1)
    (proof,) = worker.proofs()
    assert proof.effective


@pytest.mark.usefixtures("forks")
def test_a_plan_that_does_not_apply_is_refused_at_the_start(stage: Stage) -> None:
    worker = stage.worker(TRAIN + "train(1000)", plan=Plan({"dataset_in_ram": {}}))
    with pytest.raises(PlanRefused, match="dataset_in_ram: no dataset"):
        worker.wait_started(AFTER)


WRAPPED = """
import torch

class Ascends(torch.optim.Optimizer):
    def __init__(self, base):
        super().__init__(base.param_groups, {})
        self.base = base

    def second_step(self):
        self.base.step()

model = torch.nn.Linear(4, 1)
optimizer = Ascends(torch.optim.SGD(model.parameters(), lr=0.1))
for _ in range(4):
    model(torch.randn(8, 4)).sum().backward()
    optimizer.second_step()
"""


@pytest.mark.usefixtures("forks")
def test_of_an_optimizer_around_another_it_is_told_which_one_steps(stage: Stage) -> None:
    seen = stage.ending(WRAPPED).observation
    assert seen is not None
    assert {one.name: one.stepped for one in seen.optimizers} == {"Ascends": False, "SGD": True}


SEEDED = (
    """
import random
import numpy
"""
    + TRAIN
    + """
print(random.random(), numpy.random.rand(), torch.rand(1).item())
train(4)
"""
).replace("torch.manual_seed(0)", "")


@pytest.mark.usefixtures("forks")
def test_a_seed_decides_all_random_numbers(stage: Stage) -> None:
    endings = [stage.ending(SEEDED, seed=seed, traced=True) for seed in (3, 3, 4)]
    first, again, other = (ended.trace for ended in endings)
    assert len(first) == 4
    assert first == again
    assert all(a.streams != b.streams for a, b in zip(first, other, strict=True))
    lines = [line for line in (stage.folder / "out").read_text().splitlines() if " " in line]
    assert lines[0] == lines[1] != lines[2]


@pytest.mark.usefixtures("forks")
def test_noise_is_put_into_a_baseline(stage: Stage) -> None:
    source = TRAIN + "train(4)"
    plain = stage.ending(source, seed=1, traced=True)
    noisy = stage.ending(source, seed=1, traced=True, perturbation=Perturbation(1e-5))
    assert [step.streams for step in plain.trace] == [step.streams for step in noisy.trace]
    assert [step.losses for step in plain.trace] != [step.losses for step in noisy.trace]


# ---- ends
def test_a_script_that_raises_tells_its_own_traceback(stage: Stage) -> None:
    ended = stage.ending("def broken():\n    raise ValueError('no more data')\n\nbroken()\n")
    assert ended.how == "raised"
    assert ended.detail.splitlines()[-1] == "ValueError: no more data"
    assert "in broken" in ended.detail
    assert str(Path("hasten", "inside")) not in ended.detail
    assert stage.workers[0]._process.wait(AFTER) == 1
    assert (stage.folder / "err").read_text() == ended.detail


@pytest.mark.usefixtures("forks")
def test_an_error_inside_the_model_shows_no_frame_of_ours(stage: Stage) -> None:
    ended = stage.ending(TRAIN + "train(2)\nmodel(torch.zeros(3, 5))")
    assert ended.how == "raised"
    assert len(ended.steps) == 1
    assert "in <module>" in ended.detail
    assert str(Path("hasten", "inside")) not in ended.detail


@pytest.mark.parametrize(
    ("end", "how", "detail"),
    [
        ("sys.exit(3)", "exit", "3"),
        pytest.param("sys.exit('out of disk')", "said", "out of disk", marks=pytest.mark.thorough),
        pytest.param("sys.exit()", "completed", "", marks=pytest.mark.thorough),
    ],
)
def test_a_script_that_exits_tells_its_code(stage: Stage, end: str, how: str, detail: str) -> None:
    ended = stage.ending(f"import sys\n{end}")
    assert (ended.how, ended.detail) == (how, detail)


def test_a_script_that_never_trains_is_over_before_it_starts(stage: Stage) -> None:
    worker = stage.worker("print('no training here')")
    with pytest.raises(ScriptOver) as over:
        worker.wait_started(AFTER)
    assert over.value.ended == ScriptEnded("completed", "", (), (), steps_in_all=0)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        pytest.param("os._exit(7)", "ended with exit code 7", marks=pytest.mark.thorough),
        pytest.param("os.kill(os.getpid(), 11)", "killed by SIGSEGV", marks=pytest.mark.thorough),
        ("os.kill(os.getpid(), 9)", r"killed by SIGKILL \(out of memory\?\)"),
    ],
)
def test_a_process_that_just_ends_is_an_error_with_its_reason(stage: Stage, end: str, message: str) -> None:
    worker = stage.worker(f"import os\n{end}")
    with pytest.raises(WorkerError, match=message):
        worker.wait_started(AFTER)


def test_a_script_that_hangs_is_given_up(stage: Stage) -> None:
    worker = stage.worker("import threading\nthreading.Event().wait()")
    with pytest.raises(WorkerError, match="seems to hang"):
        worker.wait_started(0.5)


# ---- the script's children
CHILDREN = (
    """
import os, threading
from pathlib import Path

def sockets():
    held = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    return {name for name in held if name.startswith("socket:")}

OURS = sockets()
"""
    + TRAIN
    + """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 1000000
    def __getitem__(self, index):
        note = Path(FOLDER, f"child-{os.getpid()}")
        if not note.exists():
            fresh = Path(FOLDER, f"new-{os.getpid()}")
            fresh.write_text(" ".join(sockets() & OURS))
            fresh.rename(note)
        return torch.zeros(4)

FOLDER = os.path.dirname(__file__)
assert OURS, "the worker holds its end of the conversation"
for rows in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2):
    loss = model(rows).mean()
    loss.backward()
    optimizer.step()
"""
)


NOTING_ITS_PID = """
import os, signal

def note(path, *pids):
    with open(path + ".new", "w") as file:
        print(*pids, file=file)
    os.rename(path + ".new", path)

"""


def alive(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def children_of(stage: Stage, worker: WorkerProcess) -> list[Path]:
    """What the loader's processes noted, once both of them have."""
    while len(found := sorted(stage.folder.glob("child-*"))) < 2:
        worker.steps(1, AFTER)
    return found


@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_processes_of_the_scripts_loader_hold_no_end_of_the_conversation(stage: Stage) -> None:
    worker = stage.started(CHILDREN)
    assert [note.read_text() for note in children_of(stage, worker)] == ["", ""]
    assert len(worker.steps(3)) == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel by prctl")
def test_a_child_of_the_scripts_dies_with_the_worker(stage: Stage) -> None:
    """One that does not check on its parent, as a loader's processes do."""
    note = stage.folder / "child"
    stage.worker(
        NOTING_ITS_PID
        + f"child = os.fork()\nif child:\n    note({str(note)!r}, os.getpid(), child)\nsignal.pause()"
    )
    assert wait_for(note.exists)
    worker, child = map(int, note.read_text().split())
    assert alive(child)
    os.kill(worker, signal.SIGKILL)
    assert wait_for(lambda: not alive(child))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel by prctl")
def test_a_child_whose_parent_is_gone_before_it_could_ask_the_kernel_dies_too(stage: Stage) -> None:
    note = stage.folder / "grandchild"
    stage.worker(
        NOTING_ITS_PID
        + "reading, writing = os.pipe()\n"
        + "if os.fork() == 0:\n"
        + "    grandchild = os.fork()\n"
        + "    if grandchild:\n"
        + "        os.write(writing, str(grandchild).encode())\n"
        + "        os._exit(0)\n"
        + "    signal.pause()\n"
        + f"note({str(note)!r}, os.read(reading, 20).decode())\n"
        + "signal.pause()\n"
    )
    assert wait_for(note.exists)
    grandchild = int(note.read_text())
    assert wait_for(lambda: not alive(grandchild))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel by prctl")
def test_a_worker_dies_with_its_coordinator(stage: Stage) -> None:
    """Also one that does not listen, because its script is busy."""
    note = stage.folder / "worker"
    job = stage.job(NOTING_ITS_PID + f"note({str(note)!r}, os.getpid())\nsignal.pause()")
    coordinator = (
        "import os, signal, time\n"
        "from pathlib import Path\n"
        "from hasten.bench.workers.worker_output import Output\n"
        "from hasten.bench.workers.process import WorkerProcess\n"
        "from hasten.inside.job import Job\n"
        "from tests.techniques.made_up import machine\n"
        f"output = Output(Path({str(stage.folder / 'out')!r}), Path({str(stage.folder / 'err')!r}))\n"
        f"worker = WorkerProcess(Job(argv={job.argv!r}, machine=machine()), os.environ, output)\n"
        f"while not os.path.exists({str(note)!r}):\n"
        "    time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", coordinator],
        cwd=root, env=stage.environment, capture_output=True, text=True, timeout=AFTER, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker = int(note.read_text())
    try:
        assert wait_for(lambda: not alive(worker))
    finally:
        if alive(worker):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.usefixtures("forks")
def test_a_child_that_trains_does_not_speak_for_the_worker(stage: Stage) -> None:
    source = (
        TRAIN + "import os\ntrain(1)\nif os.fork() == 0:\n    train(5)\n    os._exit(0)\nos.wait()\ntrain(2)"
    )
    ended = stage.ending(source)
    assert ended.how == "completed"
    assert len(ended.steps) == 2


# ---- without a coordinator
def test_a_run_prints_and_ends_as_the_script(stage: Stage) -> None:
    source = TRAIN + "train(5)\nraise SystemExit(5)"
    done, plain = stage.run(source), stage.plain(source)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_a_run_says_what_of_its_plan_does_not_apply(stage: Stage) -> None:
    plan = Plan({"fused_optimizer": {}, "channels_last": {}})
    done = stage.run_forked(TRAIN + "train(3)\nprint(optimizer.param_groups[0]['fused'])", plan=plan)
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
    said = "hasten: channels_last does not apply here and is left out: the model has no 2-d convolutions\n"
    assert done.stderr == said


BY_HAND = """
import torch
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    (torch.ones(2, 4) @ weight - 1).pow(2).mean().backward(); optimizer.step()
"""
PAST_THE_MODEL = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model.forward(torch.ones(2, 4)).mean().backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    "source", [BY_HAND, PAST_THE_MODEL], ids=["no model", "a model that is never called"]
)
def test_where_no_module_is_called_the_plan_is_in_force_from_the_first_step_on(
    stage: Stage, source: str
) -> None:
    plan = Plan({"fused_optimizer": {}, "bf16": {}})
    done = stage.run_forked(f"{source}\nprint(optimizer.param_groups[0]['fused'])", plan=plan)
    assert (done.code, done.stdout) == (0, "True\n"), done.stderr
    assert done.stderr.startswith("hasten: bf16 does not apply here and is left out: ")
    assert "no module is called in its training steps" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("forks")
def test_a_trial_where_no_module_is_called_is_under_its_plan_too(stage: Stage) -> None:
    worker = stage.started(BY_HAND.replace("range(3)", "range(1000)"), plan=Plan({"fused_optimizer": {}}))
    worker.steps(2)
    assert [proof.evidence for proof in worker.proofs()] == ["2 fused updates"]


@pytest.mark.attack("messages")
def test_a_run_in_which_nothing_trained_says_so(stage: Stage) -> None:
    done = stage.run("import torch\nprint('done')", plan=Plan({"fused_optimizer": {}, "malloc": {}}))
    assert (done.returncode, done.stdout) == (0, "done\n")
    said = "hasten: fused_optimizer of the plan could not be applied: no training was seen\n"
    assert done.stderr == said


@pytest.mark.attack("messages")
@pytest.mark.parametrize("ending", [pytest.param("", marks=pytest.mark.thorough), "raise SystemExit(0)"])
def test_a_strict_run_that_missed_something_cleans_up_and_ends_with_2(stage: Stage, ending: str) -> None:
    """Whatever the script saves at its end is saved."""
    source = f"import atexit\nimport torch\natexit.register(print, 'saved')\n{ending}"
    done = stage.run(source, plan=Plan({"fused_optimizer": {}}), strict=True)
    assert (done.returncode, done.stdout) == (2, "saved\n")


@pytest.mark.attack("messages")
def test_a_run_that_fails_says_what_of_its_plan_was_missed(stage: Stage) -> None:
    source = (
        TRAIN + "train(1)\noptimizer.param_groups[0]['fused'] = False\ntrain(8)\nraise ValueError('boom')"
    )
    done = stage.run(source, plan=Plan({"fused_optimizer": {}}), strict=True)
    assert done.returncode == 1
    assert "ValueError: boom" in done.stderr
    assert "hasten: fused_optimizer has no effect here: 0 fused updates" in done.stderr


@pytest.mark.thorough
def test_a_strict_run_stops_there(stage: Stage) -> None:
    done = stage.run(TRAIN + "train(3)\nprint('done')", plan=Plan({"channels_last": {}}), strict=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "stopping, as --strict asks" in done.stderr


@pytest.mark.thorough
def test_a_run_says_what_takes_no_effect(stage: Stage) -> None:
    source = TRAIN + "train(1)\noptimizer.param_groups[0]['fused'] = False\ntrain(30)\nprint('done')"
    done = stage.run(source, plan=Plan({"fused_optimizer": {}}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert "fused_optimizer" in done.stderr


# ---- several trainings, one after another
SEVERAL = """
import torch

def fold(model, steps, inputs=(8, 4)):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(inputs)).pow(2).mean().backward()
        optimizer.step()
    print(optimizer.param_groups[0]["fused"], flush=True)

def dense():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))

def pictures():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3))
"""
PICTURES = "(8, 3, 8, 8)"
LATER = "for the model or optimizer that came after step 30"


def test_each_of_several_trainings_is_under_the_plan(stage: Stage) -> None:
    source = SEVERAL + "for _ in range(3):\n    fold(dense(), 30)"
    done = stage.run_forked(source, plan=Plan({"fused_optimizer": {}, "zero_grad_to_none": {}}))
    assert (done.code, done.stdout) == (0, 3 * "True\n")
    assert done.stderr.count("\n") <= 1, "what does not apply is said once, not for each of them"


def test_what_applies_to_a_later_training_alone_is_in_force_there(stage: Stage) -> None:
    source = SEVERAL + (
        f"fold(dense(), 30)\nmodel = pictures()\nfold(model, 30, {PICTURES})\n"
        "print(model[2].weight.is_contiguous(memory_format=torch.channels_last))"
    )
    done = stage.run_forked(source, plan=Plan({"channels_last": {}}))
    assert done.stdout.splitlines()[-1] == "True", done.stderr
    assert done.stderr.splitlines() == [
        "hasten: channels_last does not apply here and is left out: the model has no 2-d convolutions",
        f"hasten: channels_last applies {LATER}, and is in force from there on",
    ]


def test_what_applies_by_turns_is_said_twice(stage: Stage) -> None:
    """A search over settings has a training for each of them."""
    source = SEVERAL + f"for _ in range(5):\n    fold(pictures(), 30, {PICTURES})\n    fold(dense(), 30)"
    done = stage.run_forked(source, plan=Plan({"channels_last": {}}))
    said = [line.split(" (so ")[0].split(": the model")[0] for line in done.stderr.splitlines()]
    out, into = "does not apply for the model or optimizer that", "applies for the model or optimizer that"
    assert [line.removeprefix("hasten: channels_last ").split(" came")[0] for line in said] == [
        *(out, into, out, into)
    ]
    assert done.stderr.count("not said again") == 2


@pytest.mark.attack("messages")
@pytest.mark.parametrize("kept", [False, True], ids=["the first is gone", "the first is still there"])
def test_a_training_for_which_a_technique_is_not_in_force_is_named(stage: Stage, kept: bool) -> None:
    first = f"model = pictures()\nfold(model, 30, {PICTURES})\n" + ("" if kept else "del model\n")
    done = stage.run_forked(SEVERAL + first + "fold(dense(), 30)", plan=Plan({"channels_last": {}}))
    assert done.code == 0, done.stderr
    (said,) = done.stderr.splitlines()
    not_in_force = f"does not apply {LATER} and is left out", f"has no effect {LATER}"
    assert said.startswith(f"hasten: channels_last {not_in_force[kept]}: ")


@pytest.mark.usefixtures("forks")
def test_a_trial_goes_on_under_its_plan_and_tells_where_a_model_is_new(stage: Stage) -> None:
    source = SEVERAL + "for _ in range(9):\n    fold(dense(), 30)"
    worker = stage.started(source, plan=Plan({"fused_optimizer": {}}))
    worker.steps(35)
    assert [at for at, step in enumerate(worker.history) if step.new_model] == [0, 30]
    assert [proof.evidence for proof in worker.proofs()] == ["6 fused updates"]
    assert worker.observation().trainings == (36,), "the second may be of the first's yet"
    worker.steps(20)
    assert worker.observation().trainings == (30, 26)


@pytest.mark.usefixtures("forks")
def test_the_end_of_a_trials_script_brings_its_proofs(stage: Stage) -> None:
    ended = stage.ending(SEVERAL + "fold(dense(), 30)", plan=Plan({"fused_optimizer": {}}))
    assert [(proof.technique, proof.effective) for proof in ended.proofs] == [("fused_optimizer", True)]


# ---- our own failures
SABOTAGE = """
from hasten.inside.observing.observer import Observer

def fail(*_):
    raise TypeError("a bug of hasten's")

Observer.backward_ends = fail
"""


def test_a_run_goes_on_without_us_where_our_watching_fails(stage: Stage) -> None:
    done = stage.run_forked(TRAIN + SABOTAGE + "train(5)", plan=Plan({"fused_optimizer": {}}))
    assert done.code == 0
    assert done.stdout == stage.plain_forked(TRAIN + "train(5)").stdout
    assert "a bug in hasten and not in the script; the script runs on without it" in done.stderr
    assert "TypeError: a bug of hasten's" in done.stderr


@pytest.mark.usefixtures("forks")
def test_a_trial_in_which_our_watching_fails_is_over_and_says_why(stage: Stage) -> None:
    worker = stage.worker(TRAIN + SABOTAGE + "train(5)")
    with pytest.raises(WorkerError, match=r"bug in hasten(?s:.)*TypeError: a bug of hasten's"):
        worker.wait_started(AFTER)


LACKING_TORCH = """
import sys
parts = sys.modules["hasten.inside.internals.parts"]
parts.check.__defaults__ = ((parts.Part("torch.nn:Module", "_call_gone", ""),),)
"""


@pytest.mark.attack("messages")
@pytest.mark.thorough
def test_a_torch_that_lacks_what_we_need_is_told_and_the_script_runs(stage: Stage) -> None:
    done = stage.run(LACKING_TORCH + TRAIN + "train(3)\nprint('done')", plan=Plan({"fused_optimizer": {}}))
    assert done.returncode == 0
    assert done.stdout.endswith("done\n")
    assert "without what of its plan is switched while it trains: torch " in done.stderr
    assert "has no torch.nn.Module._call_gone, by which hasten follows a training" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.attack("messages")
def test_a_trial_under_such_a_torch_is_over_and_says_why(stage: Stage) -> None:
    worker = stage.worker(LACKING_TORCH + TRAIN + "train(3)")
    with pytest.raises(WorkerError, match=r"^torch \S+ has no torch.nn.Module._call_gone"):
        worker.wait_started(AFTER)


# ---- trainings that cannot be followed
DIRECT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.second(self.first(x))

model = Net()
model.register_forward_hook(print)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    loss = model.forward(torch.randn(8, 4)).sum()
    loss.backward()
    optimizer.step()
"""
SCRIPTED = """
import torch, warnings

warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of torch advise against it
model = torch.jit.script(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(DIRECT, "train.py:16 calls Net.forward(...) directly", id="forward called past hooks"),
        pytest.param(SCRIPTED, "TorchScript module (Linear)", id="TorchScript", marks=pytest.mark.thorough),
    ],
)
def test_what_cannot_be_followed_is_told(stage: Stage, source: str, expected: str) -> None:
    (obstacle,) = stage.started(source).observation().obstacles
    assert expected in obstacle
    done = stage.run_forked(source, plan=Plan({"bf16": {}}))
    assert done.code == 0
    assert f"hasten: the plan is not applied: {obstacle}" in done.stderr


# ---- what must be done before the script goes on
def test_a_technique_of_the_process_is_started_as_soon_as_torch_is_imported(stage: Stage) -> None:
    source = "import torch\nprint(torch.get_num_interop_threads(), flush=True)\n" + TRAIN + "train(3)"
    done = stage.run(source, plan=Plan({"interop_threads": {"count": 7}}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "7"
    assert len(done.stdout.splitlines()) == 4
