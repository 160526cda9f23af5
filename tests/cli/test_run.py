"""Under ``hasten run`` a script is what it is under Python: output, exit code, traceback, surroundings."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess

import pytest

from ..machine.processors import bf16_refused_here
from ..patience import PATIENCE_SECONDS
from ..quickly import quickly
from .conftest import Project

PLAN = "format = 1\n[techniques.bf16]\n"
IN_FORCE = "hasten: training under plan.toml: bf16\n"

ENDINGS = {
    "comes to its end": "print('done')",
    "exit code": "import sys\nprint('done')\nsys.exit(7)",
    "exit message": "raise SystemExit('given up')",
    "exit with nothing": "raise SystemExit",
    "at once": "import os\nos._exit(3)",
    "raises": "def train():\n    raise ValueError('boom')\ntrain()",
    "raises because of another": """
def load():
    try:
        {}['key']
    except KeyError as error:
        raise RuntimeError('no data') from error
try:
    load()
except RuntimeError:
    1 / 0
""",
    "raises without a source": "exec('raise ValueError')",
    "syntax error behind an import": "open('module.py', 'w').write('x = = 1')\nimport module",
    "interrupts itself": "print('working', flush=True)\nraise KeyboardInterrupt",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "its own excepthook": "import sys\nsys.excepthook = lambda *_: print('caught')\nraise ValueError",
    "a thread goes on": """
import threading
gate = threading.Event()
threading.Thread(target=lambda: (gate.wait(), print('thread'))).start()
threading.Timer(0.05, gate.set).start()
print('main')
""",
    "a pool's threads are idle": """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
print(pool.submit(abs, -1).result())
""",
    "a pool's threads are at work": """
import time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
for number in range(3):
    pool.submit(lambda number: (time.sleep(0.05), print(number)), number)
print('main')
""",
    "a pool's processes are idle": """
from concurrent.futures import ProcessPoolExecutor
pool = ProcessPoolExecutor(1)
print(pool.submit(abs, -1).result())
""",
    "at exit": "import atexit\natexit.register(print, 'bye')\nraise ValueError('boom')",
    "warns": "import warnings\nwarnings.warn('old', DeprecationWarning)\nprint('done')",
    "main guard": "if __name__ == '__main__':\n    print('is main')",
    "unflushed": "import sys\nsys.stdout.write('no newline')",
    "bytes": "import sys\nsys.stdout.buffer.write(bytes(range(128)))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_under_python(project: Project, ending: str) -> None:
    project.write("train.py", ENDINGS[ending])
    project.write("plan.toml", PLAN)
    plain = project.python("train.py")
    planned = project.hasten("run", "--plan", "plan.toml", "train.py")
    assert planned.returncode == plain.returncode
    assert planned.stdout == plain.stdout
    assert planned.stderr == IN_FORCE + plain.stderr


COMPILED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(20, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.ones(4, 20)).sin().sum().backward()
    optimizer.step()
print('done')
"""


@pytest.mark.thorough
def test_a_script_that_is_compiled_for_the_first_time_ends(project: Project) -> None:
    """torch leaves a pool with idle threads, unless it finds what it compiled before."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler here")
    project.environment["TORCHINDUCTOR_CACHE_DIR"] = str(project.folder / "cold")
    project.write("train.py", COMPILED)
    done = project.hasten("run", "--use", "compile", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


SURROUNDINGS = """
'''A script with a docstring.'''
import json, multiprocessing, os, pickle, sys

class Setting:
    value = 3

def in_a_child(queue):
    queue.put([os.path.basename(__file__), __name__])

if __name__ == "__main__":
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    child = multiprocessing.get_context("spawn").Process(target=in_a_child, args=(queue,))
    child.start()
    child.join()
    print(json.dumps({
        "argv": sys.argv,
        "path": sys.path,
        "file": __file__,
        "name": __name__,
        "doc": __doc__,
        "builtins": type(__builtins__).__name__,
        "main": sys.modules["__main__"].__file__,
        "pickled": pickle.loads(pickle.dumps(Setting())).value,
        "spawned": queue.get(),
        "stdin": sys.stdin.read(),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "package": __package__,
        "specification": __spec__ and __spec__.name,
    }))
"""


@pytest.fixture(
    scope="module",
    params=[["train.py"], ["below/train.py"], ["link.py"], ["-m", "below.train"]],
    ids=" ".join,
)
def surroundings(request: pytest.FixtureRequest, shared_project: Project) -> tuple[str, str]:
    """What a script sees under Python, and under a plan."""
    project = shared_project
    for name in ("train.py", "below/train.py"):
        project.write(name, SURROUNDINGS)
    project.write("below/__init__.py", "")
    project.write("plan.toml", PLAN)
    if request.param == ["link.py"]:
        (project.folder / "link.py").symlink_to("below/train.py")
    words = [*request.param, "--lr", "0.1", "--", "-x"]
    plain = project.python(*words, stdin="given")
    planned = project.hasten("run", "--plan", "plan.toml", *words, stdin="given")
    assert plain.stderr == ""
    return plain.stdout, planned.stdout


def test_a_script_sees_what_it_sees_under_python(surroundings: tuple[str, str]) -> None:
    plain, planned = surroundings
    assert json.loads(planned) == json.loads(plain)


WORKING = "import sys, time\nprint('working', file=sys.stderr, flush=True)\ntime.sleep(600)\n"


def test_ctrl_c_is_the_scripts(project: Project) -> None:
    project.write("train.py", WORKING)
    project.write("plan.toml", PLAN)
    running = project.start("run", "--plan", "plan.toml", "train.py")
    assert running.stderr is not None
    while "working" not in running.stderr.readline():
        pass
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == -signal.SIGINT
    assert error.endswith("KeyboardInterrupt\n")
    assert project.processes() == []


TINY_CNN = quickly("""
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
model[0].register_forward_hook(lambda module, inputs, output: print(output.dtype))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(25):
    optimizer.zero_grad()
    output = model(torch.randn(8, 3, 8, 8))
    torch.nn.functional.cross_entropy(output, torch.randint(0, 2, (8,))).backward()
    optimizer.step()
print("trained", output.dtype)
""")


def run_tiny_cnn(project: Project, *options: str) -> subprocess.CompletedProcess[str]:
    project.environment["OMP_NUM_THREADS"] = "1"  # more only wait for each other beside other tests
    project.write("tiny.py", TINY_CNN)
    project.write(".hasten/tiny/plan.toml", PLAN)
    return project.hasten("run", *options, "tiny.py")


@pytest.mark.skipif(bool(bf16_refused_here()), reason="this CPU has no bfloat16 instructions")
def test_a_plan_is_in_force_and_said_to_be(project: Project) -> None:
    done = run_tiny_cnn(project)
    assert done.stderr == "hasten: training under .hasten/tiny/plan.toml: bf16\n"
    assert done.stdout == "torch.bfloat16\n" * 25 + "trained torch.float32\n"
    assert done.returncode == 0


@pytest.mark.skipif(not bf16_refused_here(), reason="this CPU has bfloat16 instructions")
def test_a_plan_that_does_not_apply_is_said_not_to(project: Project) -> None:
    done = run_tiny_cnn(project)
    assert "hasten: bf16 does not apply here and is left out: this CPU has no bfloat16" in done.stderr
    assert done.stdout == "torch.float32\n" * 25 + "trained torch.float32\n"
    assert done.returncode == 0


UNCONFIRMED = """\
format = 1
[measured]
outcome = "not-confirmed"
accuracy = "held"
[techniques.threads]
count = 1
"""
CAVEAT = (
    "not confirmed: the tune that found it ended before that. Its accuracy held in the compared "
    "steps; its gain is a guess"
)


@pytest.mark.attack("truth")
def test_a_plan_that_is_not_confirmed_is_named_and_not_used(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.unconfirmed.toml", UNCONFIRMED)
    done = project.hasten("run", "train.py")
    path = ".hasten/train/plan.unconfirmed.toml"
    assert done.stderr == (
        f"hasten: the plan in {path} is not used, because it is {CAVEAT}. To train under it anyway: "
        f"hasten run --plan {path} train.py\n"
        "hasten: no plan for train.py yet, so it runs unchanged; make one with: hasten tune train.py\n"
    )
    assert done.stdout == "trained\n"


@pytest.mark.attack("truth")
def test_a_plan_that_is_not_confirmed_says_so_where_it_is_named(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    path = ".hasten/train/plan.unconfirmed.toml"
    project.write(path, UNCONFIRMED)
    done = project.hasten("run", "--plan", path, "train.py")
    assert done.stderr == (
        f"hasten: the plan in {path} is {CAVEAT}\nhasten: training under {path}: threads\n"
    )


def test_next_to_a_confirmed_plan_it_is_not_mentioned(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.toml", UNCONFIRMED.replace("not-confirmed", "gain"))
    project.write(".hasten/train/plan.unconfirmed.toml", UNCONFIRMED)
    done = project.hasten("run", "train.py")
    assert done.stderr == "hasten: training under .hasten/train/plan.toml: threads\n"


def test_techniques_can_be_put_in_and_taken_out_by_hand(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.toml", PLAN)
    done = project.hasten("run", "--use", "threads:count=1", "train.py")
    assert done.stderr == "hasten: training under the techniques named by --use: threads\n"
    done = project.hasten("run", "--without", "bf16", "train.py")
    assert "is empty: the script runs unchanged" in done.stderr
    assert done.stdout == "trained\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--use", "fp4"], "--use fp4: there is no technique 'fp4'; there are "),
        (["--use", "threads"], "--use threads: threads needs count, a whole number"),
        (["--use", "threads:2"], "--use threads:2: settings are KEY=VALUE, found '2'"),
        (["--without", "fp4"], "--without fp4: there is no technique 'fp4'; there are "),
        (
            ["--no-plan", "--use", "bf16"],
            "--no-plan trains without any technique: leave out --use and --without",
        ),
    ],
)
def test_a_technique_that_there_is_none_of(project: Project, options: list[str], message: str) -> None:
    project.write("train.py", "open('started', 'w')\n")
    project.write(".hasten/train/plan.toml", PLAN)
    done = project.hasten("run", *options, "train.py")
    assert done.returncode == 2
    assert done.stderr.startswith(f"hasten: {message}")
    assert not (project.folder / "started").exists()


@pytest.mark.parametrize("options", [["--no-plan"], ["--plan", "plan.toml"]], ids=["plain", "planned"])
def test_a_notebook_runs_as_one_program(project: Project, options: list[str]) -> None:
    cells = ["import sys\nx = 1", ["%matplotlib inline\n", "print(x, sys.argv[1:])"], "1 / 0"]
    content = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    path = project.write("train.ipynb", json.dumps(content))
    project.write("plan.toml", PLAN)
    done = project.hasten("run", *options, "train.ipynb", "--lr", "0.1")
    assert (done.returncode, done.stdout) == (1, "1 ['--lr', '0.1']\n")
    assert f"hasten: {path}, cell 2 is run without: %matplotlib inline\n" in done.stderr
    assert f'  File "{path}, cell 3", line 1, in <module>\n    1 / 0\n' in done.stderr
    assert "hasten/inside" not in done.stderr


LEFT_OUT = """\
hasten: training under plan.toml: fused_optimizer
hasten: fused_optimizer does not apply here and is left out: no optimizer of the script's can be fused: \
Rprop has no fused form in torch
"""


def run_what_cannot_be_fused(project: Project, *options: str) -> subprocess.CompletedProcess[str]:
    project.write("tiny.py", TINY_CNN.replace("SGD(model.parameters(), lr=0.1)", "Rprop(model.parameters())"))
    project.write("plan.toml", "format = 1\n[techniques.fused_optimizer]\n")
    return project.hasten("run", "--plan", "plan.toml", *options, "tiny.py")


def test_a_technique_that_does_not_apply_is_left_out(project: Project) -> None:
    done = run_what_cannot_be_fused(project)
    assert done.stderr == LEFT_OUT
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained torch.float32")


def test_strict_stops_where_a_technique_does_not_apply(project: Project) -> None:
    done = run_what_cannot_be_fused(project, "--strict")
    assert done.stderr == LEFT_OUT + "hasten: stopping, as --strict asks\n"
    one_step = "torch.float32\n"  # in which each of a script's models has come
    assert (done.returncode, done.stdout) == (2, one_step)


LOADED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 6), torch.randn(80, 1))
loader = DataLoader(data, batch_size=4, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
live = sum(p.numel() for p in model.parameters())
print(len(loader), live, sum(v.numel() for v in model.state_dict().values()))
"""


def quality(options: str) -> str:
    """What is said of a plan that changes the training."""
    name = options.partition(":")[0]
    return (
        f"hasten: training under the techniques named by --use: {name}\n"
        f"hasten: {name} changes the training itself. To check that the model is as good: "
        f"hasten verify --use {options} train.py --lr 0.1\n"
    )


def test_what_changes_the_training_says_so_and_what_it_did(project: Project) -> None:
    project.write("train.py", LOADED)
    done = project.hasten("run", "--use", "batch_size:factor=2", "train.py", "--lr", "0.1")
    assert done.stdout == "10 65 65\n"
    assert done.stderr.startswith(quality("batch_size:factor=2"))
    assert "hasten: batch_size: batches of 8 in place of 4; " in done.stderr


@pytest.mark.thorough
def test_a_pruned_model_is_smaller_and_its_checkpoint_is_not(project: Project) -> None:
    pytest.importorskip("torch_pruning", reason="torch-pruning is not installed: pip install 'hasten[prune]'")
    project.write("train.py", LOADED)
    use = "prune:ratio=0.5,after=5"
    done = project.hasten("run", "--use", use, "train.py", "--lr", "0.1")
    cut = "prune: parameters 65 to 33, multiply-accumulates of a pass 224 to 112"
    assert done.stderr == f"{quality(use)}hasten: {cut}\n"
    assert done.stdout == "20 33 65\n"


@pytest.mark.thorough
def test_a_training_too_short_for_its_plan_is_told(project: Project) -> None:
    pytest.importorskip("torch_pruning", reason="torch-pruning is not installed: pip install 'hasten[prune]'")
    project.write("train.py", LOADED)
    use = "prune:ratio=0.5,after=500"
    done = project.hasten("run", "--use", use, "train.py", "--lr", "0.1")
    late = "prune has no effect here: nothing is cut before step 500, and 80 were taken"
    assert done.stderr == f"{quality(use)}hasten: {late}\n"
    assert done.stdout == "20 65 65\n"


@pytest.mark.attack("messages")
@pytest.mark.parametrize("words", [["--no-plan"], ["--use", "threads:count=1"]], ids=["unchanged", "planned"])
def test_a_script_whose_name_begins_as_an_option(project: Project, words: list[str]) -> None:
    project.write("-t.py", "import sys\nprint(sys.argv[1:])\n")
    done = project.hasten("run", *words, "--", "-t.py", "-x")
    assert (done.returncode, done.stdout) == (0, "['-x']\n")
