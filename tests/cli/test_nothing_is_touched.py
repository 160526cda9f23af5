"""Trials write in every way there is, and the user's files stay: names, bytes, modes, times, links."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hasten.inside.sandbox import landlock

from ..quickly import quickly
from .conftest import Project

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("files"),
]

# Writes into the folder "early" before its first step, into "late" during training, and reads all of it back.
# As with any script that is run a second time, some of what it makes may be there already.
WRITES = quickly("""
import csv, ctypes, json, mmap, os, pickle, shutil, sqlite3, subprocess, sys
import numpy, torch
from pathlib import Path
from safetensors.torch import load_file, save_file
from torch.utils.tensorboard import SummaryWriter

WEIGHTS = {"weight": torch.arange(6.0)}
PICTURE = numpy.arange(6.0)

def checkpoints(here):
    torch.save(WEIGHTS, here / "zip.pt")
    torch.save(WEIGHTS, here / "legacy.pt", _use_new_zipfile_serialization=False)
    save_file(WEIGHTS, here / "weights.safetensors")
    loaded = [torch.load(here / name) for name in ("zip.pt", "legacy.pt")]
    loaded.append(load_file(here / "weights.safetensors"))
    assert all(weights["weight"].equal(WEIGHTS["weight"]) for weights in loaded)

def arrays(here):
    numpy.save(here / "array.npy", PICTURE)
    assert (numpy.load(here / "array.npy") == PICTURE).all()
    mapped = numpy.memmap(here / "memmap.bin", dtype="float64", mode="w+", shape=6)
    mapped[:] = PICTURE
    mapped.flush()
    assert (numpy.fromfile(here / "memmap.bin") == PICTURE).all()
    with open(here / "object.pickle", "wb") as file:
        pickle.dump(PICTURE, file)
    assert (pickle.loads((here / "object.pickle").read_bytes()) == PICTURE).all()

def plain_files(here):
    (here / "overwritten.txt").write_text("new")
    assert (here / "overwritten.txt").read_text() == "new"
    with open(here / "appended.csv", "a", newline="") as file:
        csv.writer(file).writerow(["new", 1])
    assert (here / "appended.csv").read_text().endswith("new,1\\n")
    with open(here / "updated.bin", "r+b") as file:
        file.seek(3)
        file.write(b"new")
    assert (here / "updated.bin").read_bytes()[3:6] == b"new"
    with open(here / "mapped.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[4096:4099] = b"new"
    assert (here / "mapped.bin").read_bytes()[4096:4099] == b"new"
    (here / "created.txt").unlink(missing_ok=True)
    with open(here / "created.txt", "x") as file:
        file.write("new")
    assert (here / "created.txt").read_text() == "new"

def names(here):
    (here / "temporary.txt").write_text("new")
    os.rename(here / "temporary.txt", here / "replaced.txt")
    assert (here / "replaced.txt").read_text() == "new" and not (here / "temporary.txt").exists()
    (here / "removed.txt").unlink(missing_ok=True)
    assert "removed.txt" not in os.listdir(here)
    os.makedirs(here / "made" / "below", exist_ok=True)
    assert os.listdir(here / "made") == ["below"]
    if (here / "empty").exists():
        os.rmdir(here / "empty")
    shutil.rmtree(here / "tree", ignore_errors=True)
    assert not (here / "empty").exists() and not (here / "tree").exists()
    if not (here / "symlink").is_symlink():
        os.symlink("overwritten.txt", here / "symlink")
    assert (here / "symlink").read_text() == "new"

def facts(here):
    os.utime(here / "touched.txt", (1, 1))
    os.chmod(here / "closed.txt", 0o600)
    os.truncate(here / "truncated.txt", 2)
    assert (here / "touched.txt").stat().st_mtime == 1
    assert (here / "closed.txt").stat().st_mode & 0o777 == 0o600
    assert (here / "truncated.txt").read_text() == "ol"

def others(here):
    with SummaryWriter(here / "runs") as board:
        board.add_scalar("loss", 1.0, 1)
    assert os.listdir(here / "runs")
    database = sqlite3.connect(here / "log.db")
    with database:
        database.execute("CREATE TABLE IF NOT EXISTS log (line TEXT)")
        database.execute("INSERT INTO log VALUES ('new')")
    assert ("new",) in database.execute("SELECT line FROM log").fetchall()
    database.close()
    subprocess.run(["sh", "-c", "echo new > shell.txt"], cwd=here, check=True)
    assert (here / "shell.txt").read_text() == "new\\n"
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(bytes(here / "c.txt"), b"w"))
    assert libc.fwrite(b"new", 1, 3, file) == 3 and libc.fclose(file) == 0
    assert (here / "c.txt").read_text() == "new"

def write_everything(here):
    for write in (checkpoints, arrays, plain_files, names, facts, others):
        write(here)

print("TRACKERS", json.dumps({key: value for key, value in os.environ.items() if key.startswith(TRACKERS)}))
torch.set_num_threads(1)
torch.set_num_interop_threads(1)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
write_everything(Path("early"))
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 2, (16,))).backward()
    optimizer.step()
    if step == 3:
        write_everything(Path("late"))
        print("written", flush=True)
    if step % 50 == 0:
        torch.save(model.state_dict(), "last.pt")
        with open("log.txt", "a") as log:
            log.write(f"{step}\\n")
""")
TRACKERS = ("WANDB_", "MLFLOW_", "COMET_", "NEPTUNE_", "CLEARML_")
CHANGED = {  # what is other in "early" and in "late" after a run without protection
    "zip.pt", "legacy.pt", "weights.safetensors", "array.npy", "memmap.bin", "object.pickle",
    "overwritten.txt", "appended.csv", "updated.bin", "mapped.bin", "created.txt",
    "replaced.txt", "removed.txt", "made", "made/below", "empty", "tree", "tree/inner.txt", "symlink",
    "touched.txt", "closed.txt", "truncated.txt", "runs", "log.db", "shell.txt", "c.txt",
}  # fmt: skip
STEPS, WARMUP, ENDLESS = 40, 20, "100000000"
HASTEN = ("-m", "hasten.cli.main")
# With as few pairs as a claim needs, and without waiting for other programs: more takes minutes, and writes
# no otherwise.
FEW_PAIRS = """
import sys
from hasten.bench.comparing import abba_blocks
from hasten.cli.main import main
from hasten.tuning import budget, costs
costs.PAIRS_MOST, costs.LOOKS_MOST = 4, 0
abba_blocks.MOST_ABBA_BLOCKS = abba_blocks.LEAST_ABBA_BLOCKS
budget._PATIENCE_SHARE = 0.0
sys.exit(main(sys.argv[1:]))
"""


def prepare(project: Project) -> None:
    project.write("train.py", f"TRACKERS = {TRACKERS}\n{WRITES}")
    for folder in ("early", "late"):
        for name in ("overwritten", "replaced", "removed", "touched", "closed", "truncated", "tree/inner"):
            project.write(f"{folder}/{name}.txt", "old\n")
        project.write(f"{folder}/appended.csv", "old,0\r\n")
        for name in ("updated", "mapped"):
            (project.folder / folder / f"{name}.bin").write_bytes(bytes(8192))
        (project.folder / folder / "empty").mkdir()
    project.write("log.txt", "an older run\n")
    (project.folder / "latest").symlink_to("log.txt")


def tree(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below ``folder`` but hasten's own: kind, mode, owner, time, and content or target."""
    paths = (path for path in sorted(folder.rglob("*")) if path.relative_to(folder).parts[0] != ".hasten")
    return {str(path.relative_to(folder)): _facts(path) for path in paths}


def _facts(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
    if stat.S_ISREG(found.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, content


@dataclass
class Measured:
    """What a command left behind, and what it said."""

    project: Project
    before: dict[str, tuple[object, ...]]
    done: subprocess.CompletedProcess[str]

    @property
    def changed(self) -> set[str]:
        after = tree(self.project.folder)
        return {name for name in self.before | after if self.before.get(name) != after.get(name)}


def measured(folder: Path, *words: str, command: Sequence[str] = HASTEN) -> Measured:
    """Run hasten in a project of its own. Skips where this machine cannot lead writes elsewhere."""
    project = Project(folder)
    prepare(project)
    before = tree(project.folder)
    done = project.python(*command, *words)
    if "--allow-writes" in done.stderr:
        pytest.skip(f"this machine cannot lead writes elsewhere: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return Measured(project, before, done)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    options = ("--steps", str(STEPS), "--warmup", str(WARMUP))
    return measured(tmp_path_factory.mktemp("profiled"), "profile", *options, "train.py", ENDLESS)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("tuned")
    options = ("--budget", "120", "--only", "fused_optimizer")
    return measured(folder, "tune", *options, "train.py", ENDLESS, command=("-c", FEW_PAIRS))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(tmp_path_factory.mktemp("trained"), "run", "--use", "threads:count=1", "train.py", "5")


def test_a_profile_touches_nothing(profiled: Measured) -> None:
    assert "written\n" in profiled.done.stdout
    assert profiled.changed == set()


def outputs(tuned: Measured) -> list[str]:
    """What the workers printed that trained. One whose start alone is measured ends at its first step."""
    paths = sorted(tuned.project.folder.glob(".hasten/train/trials/*/worker-*.stdout"))
    return [text for text in (path.read_text() for path in paths) if text]


def test_a_tune_touches_nothing(tuned: Measured) -> None:
    assert len(outputs(tuned)) >= 2
    assert all("written\n" in text for text in outputs(tuned))
    assert tuned.changed == set()


def test_nothing_is_left_over(profiled: Measured, tuned: Measured) -> None:
    assert profiled.project.left_over() == tuned.project.left_over() == []


def test_a_run_writes_as_without_hasten(trained: Measured) -> None:
    """So each of the writers would have been seen above."""
    for folder in ("early", "late"):
        assert {f"{folder}/{name}" for name in CHANGED} - trained.changed == set()
    assert {"last.pt", "log.txt"} <= trained.changed


# ---- experiment trackers
def trackers(output: str) -> dict[str, str]:
    """The variables that the script printed, without those that whoever runs the tests has set."""
    (line,) = (line for line in output.splitlines() if line.startswith("TRACKERS "))
    seen: dict[str, str] = json.loads(line.removeprefix("TRACKERS "))
    return {key: value for key, value in seen.items() if os.environ.get(key) != value}


def test_trackers_log_no_trial_to_a_server(profiled: Measured, tuned: Measured) -> None:
    for measured, text in ((profiled, profiled.done.stdout), (tuned, outputs(tuned)[-1])):
        seen = trackers(text)
        assert (seen["WANDB_MODE"], seen["CLEARML_OFFLINE_MODE"]) == ("offline", "1")
        assert seen["MLFLOW_TRACKING_URI"].startswith(measured.project.temporary.as_uri())


def test_a_run_is_logged_as_without_hasten(trained: Measured) -> None:
    assert trackers(trained.done.stdout) == {}


# ---- where no overlay can be laid
SAVES = quickly("""
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, rows in enumerate(DataLoader(torch.randn(100000, 8), batch_size=16, num_workers=1)):
    optimizer.zero_grad()
    model(rows).sum().backward()
    optimizer.step()
    if step == 2:
        {write}
""")
# A process that Landlock holds may mount nothing, whatever else it may.
HELD = """
import os, sys
from hasten.inside.sandbox.landlock import deny_writes
deny_writes(["/"])
os.execv(sys.executable, [sys.executable, "-m", "hasten.cli.main", *sys.argv[1:]])
"""


@pytest.fixture
def without_overlays(project: Project) -> Project:
    try:
        landlock.version()
    except OSError as refused:
        pytest.skip(str(refused))
    project.write("log.txt", "an older run\n")
    return project


def profile_held(project: Project, write: str, *options: str) -> subprocess.CompletedProcess[str]:
    project.write("train.py", SAVES.format(write=write))
    return project.python("-c", HELD, "profile", "--steps", "3", "--warmup", "2", *options, "train.py")


@pytest.mark.parametrize(
    ("write", "name"),
    [("open('log.txt', 'a')", "'log.txt'"), ("torch.save(model.state_dict(), 'last.pt')", "'last.pt'")],
)
def test_a_denied_write_is_explained(without_overlays: Project, write: str, name: str) -> None:
    before = tree(without_overlays.folder)
    done = profile_held(without_overlays, write)
    before["train.py"] = tree(without_overlays.folder)["train.py"]
    assert (done.returncode, done.stdout) == (1, "")
    advice = done.stderr.splitlines()[-1]
    assert advice.startswith(f"Writing {name} was denied: a trial may only change temporary files")
    assert "run again with --allow-writes if the script may write while it is measured" in advice.lower()
    assert "the kernel refused mount" in advice
    assert tree(without_overlays.folder) == before


@pytest.mark.thorough
def test_a_script_that_writes_nothing_is_measured_without_overlays(without_overlays: Project) -> None:
    done = profile_held(without_overlays, "pass")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_allowed_writes_are_not_denied(without_overlays: Project) -> None:
    done = profile_held(without_overlays, "open('log.txt', 'a').write('new')", "--allow-writes")
    assert (done.returncode, done.stderr) == (0, "")
    assert (without_overlays.folder / "log.txt").read_text() == "an older run\nnew"
    assert list(without_overlays.temporary.iterdir()) == []  # of the loader's worker that was killed, either
