"""What can be known before anything is started is refused before: one message, exit code 2, no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hasten.machine import this_machine
from hasten.plans.files import SavedPlan, write_plan
from hasten.records.plan import Plan, Settings

from .typed import Typed

pytestmark = pytest.mark.attack("arguments")

LONG = "9" * 5000
NO_NUMBERS = ["abc", "", " ", "nan", "1.5", "0x2", "1e3", LONG]
NO_COUNTS = ["0", "-2", "99999999", *NO_NUMBERS]
NO_SECONDS = ["nan", "inf", "-inf", "1e999", "9" * 301, "0", "-1", "abc", "", "3s", "1e-400", "1e9", LONG]
OPTIONS: dict[tuple[str, str], list[str]] = {
    ("run", "--nproc-per-node"): NO_COUNTS,
    ("tune", "--nproc-per-node"): NO_COUNTS,
    ("verify", "--nproc-per-node"): ["0", "-2", "1.5"],
    ("techniques", "--nproc-per-node"): ["0", "-2", "1.5"],
    ("profile", "--nproc-per-node"): ["0", "-2", "1.5"],
    ("profile", "--backend"): ["nccl", ""],
    ("profile", "--steps"): ["1", *NO_COUNTS],
    ("profile", "--warmup"): NO_COUNTS,
    ("verify", "--seeds"): ["1", *NO_COUNTS],
    ("tune", "--budget"): NO_SECONDS,
    ("demo", "--budget"): NO_SECONDS,
    ("verify", "--tolerance"): ["nan", "-1", "inf", "1e999", "%", "x%", "", LONG],
    ("run", "--backend"): ["nccl", "GLOO", "", "mpich"],
    ("tune", "--backend"): ["nccl", "GLOO", "", "mpich"],
    ("tune", "--risk"): ["none", "", "exact,draws"],
    ("run", "--ranks"): ["mine", ""],
    ("run", "--plan"): [""],
    ("verify", "--plan"): [""],
    ("tune", "--json"): [""],
}


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [(verb, option, value) for (verb, option), values in OPTIONS.items() for value in values],
    ids=lambda text: text[:12],
)
def test_a_value_that_no_option_takes(refused: Typed, verb: str, option: str, value: str) -> None:
    said = refused(verb, f"{option}={value}", *(["train.py"] if verb != "demo" else []))
    assert f"hasten {verb}: error: argument {option}: " in said
    assert len(said.splitlines()[-1]) < 300
    assert "expected" in said or "choose from" in said


@pytest.mark.skipif((os.cpu_count() or 1) >= 1000, reason="this machine has room for them")
@pytest.mark.parametrize("count", ["1000", "4096"])
def test_more_processes_than_the_machine_has_room_for(refused: Typed, count: str) -> None:
    said = refused("run", "--nproc-per-node", count, "train.py")
    assert said.startswith(f"hasten: --nproc-per-node {count}: ")
    assert "so choose at most " in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune", "--nproc-per-node", "2"], "train.py is not distributed itself"),
        (["tune", "--backend", "shm"], "say in how many by --nproc-per-node N"),
        (["profile", "--nproc-per-node", "2"], "train.py is not distributed itself: leave it out"),
        (["profile", "--backend", "shm"], "say in how many by --nproc-per-node N"),
        (["techniques", "--nproc-per-node", "2"], "train.py is not distributed itself: leave it out"),
        (["techniques", "--backend", "shm"], "say in how many by --nproc-per-node N"),
        (["verify", "--use", "bf16", "--nproc-per-node", "2"], "train.py is not distributed itself: leave"),
        (["verify", "--use", "bf16", "--backend", "shm"], "say in how many by --nproc-per-node N"),
        (["run", "--no-plan", "--use", "bf16"], "leave out --use and --without"),
        (["run", "--no-plan", "--without", "bf16"], "leave out --use and --without"),
        (["run", "--without", "fp4"], "there is no technique 'fp4'"),
        (["verify", "--without", "fp4"], "there is no technique 'fp4'"),
        (["run", "--without", ""], "there is no technique ''"),
        (["tune", "--only", "bf16", "--only", "fp4"], "--only fp4: there is no technique 'fp4'"),
        (["tune", "--only", ""], "there is no technique ''"),
        (["tune", "--only", "bf16,threads"], "there is no technique 'bf16,threads'"),
        (["run", "--use", "fp4"], "there is no technique 'fp4'"),
        (["verify", "--use", "fp4"], "there is no technique 'fp4'"),
        (["run", "--use", ""], "there is no technique ''"),
        (["run", "--use", ":count=2"], "there is no technique ''"),
        (["run", "--use", "threads:count"], "settings are KEY=VALUE, found 'count'"),
        (["run", "--use", "threads:=2"], "threads needs count"),
        (["run", "--use", "threads:count=2,count=3"], "count is given twice"),
        (["run", "--use", "threads:count=2,size=3"], "threads needs count"),
        (["run", "--use", f"threads:count={LONG}"], "threads needs count"),
        (["run", "--use", f"threads:count={'[' * 20000}"], "threads needs count"),
        (["run", "--use", "threads:count=[2]"], "threads needs count"),
        (["run", "--use", "threads:count=true"], "threads needs count"),
        (["run", "--use", "threads:count=-1"], "threads needs count"),
        (["run", "--use", "threads:count=inf"], "count must be a number that is finite, found inf"),
        (["run", "--use", "prune:ratio=nan"], "ratio must be a number that is finite, found nan"),
        (["run", "--use", "bf16", "--use", "fp16"], "bf16 and fp16 exclude each other"),
        (["verify", "--use", "bf16", "--use", "fp16"], "bf16 and fp16 exclude each other"),
        (["verify", "--use", "bf16", "--metric", ""], "--metric '' is not a name"),
        (["verify", "--use", "bf16", "--metric", "("], "is not a regular expression"),
        (["verify", "--use", "bf16", "--metric", "(a){99999999999}"], "is not a regular expression"),
        (["verify", "--use", "bf16", "--metric", "(a)(b)"], "has 2 groups, and one must be the number"),
    ],
    ids=lambda words: " ".join(words)[:40] if isinstance(words, list) else "",
)
def test_words_that_cannot_be_carried_out(refused: Typed, words: list[str], message: str) -> None:
    said = refused(*words, "train.py")
    assert said.startswith("hasten: ")
    assert message in said


@pytest.mark.parametrize("verb", ["doctor", "profile", "tune", "run", "verify", "techniques"])
@pytest.mark.parametrize(
    ("script", "message"),
    [
        (["lost.py"], "there is no script at lost.py"),
        (["folder"], "folder is a folder"),
        (["train.py/more"], "train.py/more"),
        (["-m", "lost"], "there is no module named lost"),
        (["-m", ""], "there is no module named"),
        (["-m", "a..b"], "there is no module named a..b"),
        (["-m", ".train"], "there is no module named .train"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_no_script_of_that_name(refused: Typed, verb: str, script: list[str], message: str) -> None:
    assert message in refused(verb, *script)


# ---- where the result is to go
TARGETS = {
    "no/such/x.json": "No such file or directory",
    "folder": "is a folder: name a file in it",
    "folder/": "is a folder: name a file in it",
    ".": "is a folder: name a file in it",
    "train.py": "would overwrite the script itself",
    "./folder/../train.py": "would overwrite the script itself",
    "train.py/x.json": "Not a directory",
    "nowhere": "No such file or directory",  # a link into a folder that is not there
    "circle": "Too many levels of symbolic links",
    "/proc/x.json": "No such file or directory",
    "x" * 300: "File name too long",
}


@pytest.mark.parametrize("verb", ["doctor", "profile", "tune", "verify", "techniques"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[:20])
def test_a_result_that_could_not_be_written(refused: Typed, verb: str, target: str) -> None:
    os.symlink("lost/x.json", "nowhere")
    os.symlink("circle", "circle")
    said = refused(verb, "--json", target, "train.py")
    assert said.startswith(f"hasten: --json {target}")
    assert TARGETS[target] in said
    assert Path("train.py").read_text() == "open('started', 'w')\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("verb", ["doctor", "tune"])
def test_a_folder_that_may_not_be_written(refused: Typed, verb: str) -> None:
    Path("folder").chmod(0o500)
    assert "Permission denied" in refused(verb, "--json", "folder/x.json", "train.py")


def test_a_result_of_before_is_still_there_when_it_is_refused_for_something_else(refused: Typed) -> None:
    Path("x.json").write_text("of before")
    refused("profile", "--json", "x.json", "lost.py")
    assert Path("x.json").read_text() == "of before"


# ---- plans
@pytest.mark.parametrize("verb", ["run", "verify"])
@pytest.mark.parametrize("name", ["lost.toml", "folder", "train.py", "empty", "binary", "x" * 300])
def test_a_plan_that_is_none(refused: Typed, verb: str, name: str) -> None:
    Path("empty").write_text("")
    Path("binary").write_bytes(bytes(range(256)))
    said = refused(verb, "--plan", name, "train.py")
    assert said.startswith("hasten: ")
    assert name in said


@pytest.mark.parametrize("verb", ["run", "verify"])
def test_a_plan_of_two_that_exclude_each_other(refused: Typed, verb: str) -> None:
    write_plan(Path("plan.toml"), SavedPlan(Plan({"compile": {}, "drop_bias": {}})))
    said = refused(verb, "--plan", "plan.toml", "train.py")
    assert "plan.toml: compile and drop_bias exclude each other: " in said


# ---- ranks
RANKS = "processes:count=2,threads=1,bind=cores"


@pytest.mark.parametrize("from_file", [False, True])
@pytest.mark.parametrize(
    "words",
    ["batch_size:factor=2", "optimizer_in_backward", "prune:ratio=0.3", "device_prefetch", "threads:count=1"],
)
def test_ranks_under_what_they_cannot_train(refused: Typed, words: str, from_file: bool) -> None:
    name = words.partition(":")[0]
    asked = ["--use", words, "--use", RANKS]
    if from_file:
        layout: Settings = {"count": 2, "threads": 1, "bind": "cores"}
        write_plan(Path("plan.toml"), SavedPlan(Plan({"processes": layout})))
        asked = ["--plan", "plan.toml", "--use", words]
    said = refused("run", *asked, "train.py")
    assert " exclude each other: " in said
    assert name in said
    assert "processes" in said


@pytest.mark.parametrize("words", ["batch_size:factor=2", "optimizer_in_backward", "prune:ratio=0.3"])
def test_processes_by_their_number_in_addition(refused: Typed, words: str) -> None:
    name = words.partition(":")[0]
    said = refused("run", "--use", words, "--nproc-per-node", "2", "train.py")
    assert f"--nproc-per-node 2: processes and {name} exclude each other: " in said
    assert f"--without {name}" in said


@pytest.mark.skipif(bool(this_machine().accelerators), reason="there is a GPU for it")
def test_a_backend_that_needs_what_is_not_here(refused: Typed) -> None:
    said = refused("run", "--use", "processes:count=2,backend=nccl", "train.py")
    assert "the backend nccl is for GPUs" in said
