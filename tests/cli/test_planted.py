"""The commands in a project that was downloaded: one clear line, at once, and nothing outside is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..attack.planted import SECRET
from ..thorough import cases
from .conftest import Project

pytestmark = [pytest.mark.attack("intruders"), pytest.mark.timeout(150)]

RUN, RANKS = ("run",), ("run", "--no-plan", "--nproc-per-node", "2")
TUNE, VERIFY = ("tune", "--budget", "5"), ("verify",)


@pytest.fixture
def downloaded(project: Project) -> Project:
    (project.folder.parent / ".bashrc").write_bytes(SECRET)
    project.write("train.py", "open('started', 'w')\n")
    return project


def refused(project: Project, *words: str) -> str:
    """What was said, without hasten's name before it."""
    done = project.hasten(*words, "train.py")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert (project.folder.parent / ".bashrc").read_bytes() == SECRET
    assert not (project.folder / "started").exists()
    return done.stderr.removeprefix("hasten: ")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (RUN, "train/plan.toml"),
        pytest.param(VERIFY, "train/plan.toml", marks=pytest.mark.thorough),
        (RANKS, "train/ranks.json"),
        pytest.param(RANKS, "train/trials", marks=pytest.mark.thorough),
        (TUNE, "journal.db"),
        (TUNE, ".lock"),
        (TUNE, "train/trials"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_link_in_the_place_of_a_file_is_refused(
    downloaded: Project, words: tuple[str, ...], name: str
) -> None:
    path = downloaded.folder / ".hasten" / name
    path.parent.mkdir(parents=True)
    path.symlink_to(downloaded.folder.parent / ".bashrc")
    assert refused(downloaded, *words).startswith(f".hasten/{name} is a link, where hasten needs a f")


@pytest.mark.parametrize("words", [RUN, VERIFY], ids=lambda words: words[0])
def test_a_pipe_as_its_plan_is_not_waited_for(downloaded: Project, words: tuple[str, ...]) -> None:
    (downloaded.folder / ".hasten/train").mkdir(parents=True)
    os.mkfifo(downloaded.folder / ".hasten/train/plan.toml")
    assert refused(downloaded, *words).startswith(
        ".hasten/train/plan.toml is a pipe, where hasten needs a file"
    )


@pytest.mark.parametrize("words", [RUN, VERIFY], ids=lambda words: words[0])
@pytest.mark.parametrize("plan", ["pipe", "/dev/zero", "/dev/stdin"])
def test_a_pipe_that_is_named_as_a_plan_is_not_waited_for(
    downloaded: Project, words: tuple[str, ...], plan: str
) -> None:
    os.mkfifo(downloaded.folder / "pipe")
    assert refused(downloaded, *words, "--plan", plan).startswith(f"{plan} is a ")


@pytest.mark.parametrize("verb", ["run", "tune", "profile", "verify", "doctor", "techniques"])
def test_a_pipe_as_a_script_is_not_waited_for(project: Project, verb: str) -> None:
    os.mkfifo(project.folder / "pipe.py")
    done = project.hasten(verb, "pipe.py")
    assert done.returncode == 2
    assert done.stderr == "hasten: pipe.py is not a file: name the Python script that trains\n"


def test_a_notebook_that_is_a_pipe_is_not_waited_for(project: Project) -> None:
    os.mkfifo(project.folder / "pipe.ipynb")
    done = project.hasten("run", "pipe.ipynb")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    "words",
    [TUNE, RANKS, pytest.param(("profile", "--wait"), marks=pytest.mark.thorough)],
    ids=lambda words: words[0],
)
def test_a_folder_that_is_a_link_is_not_used(downloaded: Project, words: tuple[str, ...]) -> None:
    elsewhere = downloaded.folder.parent / "elsewhere"
    elsewhere.mkdir()
    (downloaded.folder / ".hasten").symlink_to(elsewhere)
    if words[0] == "profile":  # it keeps nothing
        downloaded.write("train.py", "pass\n")
        downloaded.hasten(*words, "train.py")
    else:
        assert ".hasten is a link, where hasten needs a folder of its own" in refused(downloaded, *words)
    assert list(elsewhere.iterdir()) == []


def test_two_scripts_of_one_name_have_a_plan_each(project: Project) -> None:
    for name in ("a", "b"):
        project.write(f"{name}/train.py", f"print('{name} trained')\n")
    plan = "format = 1\n[made_for]\nscript = 'a/train.py'\n[techniques.denormals]\n"
    project.write(".hasten/train/plan.toml", plan)
    other = project.hasten("run", "b/train.py")
    assert (other.returncode, other.stdout) == (0, "b trained\n")
    assert other.stderr.startswith("hasten: no plan for b/train.py yet, so it runs unchanged")
    own = project.hasten("run", "a/train.py")
    assert (own.returncode, own.stdout) == (0, "a trained\n")
    assert "hasten: training under .hasten/a.train/plan.toml: denormals\n" in own.stderr
    assert sorted(path.name for path in Path(project.folder / ".hasten").iterdir()) == ["a.train"]


def test_a_plan_of_another_scripts_is_not_used(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    plan = "format = 1\n[made_for]\nscript = 'other.py'\n[techniques.denormals]\n"
    project.write(".hasten/train/plan.toml", plan)
    done = project.hasten("run", "train.py")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    first, *rest = done.stderr.splitlines()
    assert first.startswith(
        "hasten: the plan in .hasten/train/plan.toml was made for another script, 'other.py'"
    )
    assert not any("training under" in line for line in rest)
    asked = project.hasten("run", "--plan", ".hasten/train/plan.toml", "train.py")
    assert "hasten: training under .hasten/train/plan.toml: denormals\n" in asked.stderr


@pytest.mark.parametrize("verb", cases(["tune", "verify", "profile"], {"tune", "profile"}))
def test_what_measures_says_who_measures_already(project: Project, verb: str) -> None:
    project.write("train.py", "import time\nprint('waits', flush=True)\ntime.sleep(600)\n")
    project.write(".hasten/train/plan.toml", "format = 1\n[techniques.denormals]\n")
    first = project.start("tune", "--budget", "600", "train.py", "--name", "first")
    assert first.stderr is not None
    assert "observing" in first.stderr.readline()
    done = project.hasten(verb, "train.py")
    assert done.returncode == 3
    assert done.stderr.startswith(
        f"hasten: process {first.pid} (hasten tune --budget 600 train.py --name first), since "
    )
    assert done.stderr.count("\n") == 1
    first.kill()
    first.communicate()
