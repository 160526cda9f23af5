"""Commands that end before any training: what is wrong is told in one message, and the exit code is as drawn
in hasten.errors.
"""

from __future__ import annotations

import json

import pytest

from .conftest import Project

PLAN = "format = 1\n[techniques.bf16]\n"


@pytest.mark.parametrize("verb", ["profile", "tune", "run"])
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("lost.py", "there is no script at lost.py (looked from "),
        ("folder", "folder is a folder: name the Python script that trains"),
        ("broken.py", "broken.py is not a Python script: invalid syntax (broken.py, line 2)"),
    ],
)
def test_no_script(project: Project, verb: str, script: str, message: str) -> None:
    (project.folder / "folder").mkdir()
    project.write("broken.py", "import os\nx = = 1\n")
    done = project.hasten(verb, script)
    assert done.returncode == 2
    assert done.stderr.startswith(f"hasten: {message}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_debug_shows_our_own_traceback(project: Project) -> None:
    done = project.hasten("run", "--debug", "lost.py")
    assert done.returncode != 0
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.rstrip().endswith(f"there is no script at lost.py (looked from {project.folder})")


@pytest.mark.parametrize("verb", ["profile", "tune"])
def test_a_script_that_never_trains(project: Project, verb: str) -> None:
    project.write("report.py", "print('only a report')\n")
    done = project.hasten(verb, "--allow-writes", "report.py")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(
        "hasten: report.py ended without training: hasten saw no optimizer step and no backward pass"
    )


def test_a_script_that_ends_with_an_exit_code(project: Project) -> None:
    project.write("fails.py", "raise SystemExit(7)\n")
    done = project.hasten("profile", "--allow-writes", "fails.py")
    assert done.returncode == 1
    said = "stopped by itself with exit code 7, before it had trained long enough to be measured"
    assert done.stderr == f"hasten: fails.py {said}\n"


def test_a_script_that_raises_at_once(project: Project) -> None:
    path = project.write("fails.py", "import json\n\njson.loads('{')\n")
    done = project.hasten("profile", "--allow-writes", "fails.py")
    assert done.returncode == 1
    assert done.stderr.count("Traceback (most recent call last):\n") == 1  # the script's own
    said = "hasten: fails.py raised an error of its own (hasten changed nothing in this run): json.decoder"
    assert said in done.stderr
    assert f'File "{path}", line 3, in <module>\n' in done.stderr
    assert "json.decoder.JSONDecodeError: Expecting property name" in done.stderr
    assert "hasten/inside" not in done.stderr


# ---- tune
def test_a_refusal_as_json(project: Project) -> None:
    project.write("report.py", "print('only a report')\n")
    done = project.hasten("tune", "--quiet", "--allow-writes", "--json", "-", "report.py")
    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert result["outcome"] == "refused"
    assert done.stderr == f"hasten: {result['reason']}\n"  # and no progress: it is --quiet


def test_a_refusal_as_a_json_file(project: Project) -> None:
    project.write("report.py", "print('only a report')\n")
    project.hasten("tune", "--allow-writes", "--json", "result.json", "report.py")
    assert json.loads((project.folder / "result.json").read_text())["outcome"] == "refused"


def test_a_place_where_nothing_can_be_kept(project: Project) -> None:
    project.write("train.py", "print('trains')\n")
    project.write(".hasten", "in the way")
    done = project.hasten("tune", "train.py")
    assert done.returncode == 2
    assert f"hasten keeps its plan and trials in {project.folder}/.hasten/train, which cannot" in done.stderr


# ---- run
def test_without_a_plan_it_runs_unchanged_and_says_so(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    done = project.hasten("run", "train.py")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr == (
        "hasten: no plan for train.py yet, so it runs unchanged; make one with: hasten tune train.py\n"
    )


def test_no_plan_says_nothing(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.toml", PLAN)
    done = project.hasten("run", "--no-plan", "train.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")


def test_the_empty_plan_says_so(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.toml", "format = 1\n")
    done = project.hasten("run", "train.py")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr == "hasten: the plan in .hasten/train/plan.toml is empty: the script runs unchanged\n"


@pytest.mark.parametrize("arguments", [[], ["--plan", "elsewhere.toml"]], ids=["its own", "another"])
def test_a_broken_plan_stops_before_the_script_starts(project: Project, arguments: list[str]) -> None:
    project.write("train.py", "open('started', 'w')\n")
    for name in (".hasten/train/plan.toml", "elsewhere.toml"):
        project.write(name, "format = 1\n[techniques.fp4]\n")
    done = project.hasten("run", *arguments, "train.py")
    path = arguments[1] if arguments else ".hasten/train/plan.toml"
    assert done.returncode == 2
    assert done.stderr.startswith(f"hasten: {path}: techniques.fp4 is not a technique; there are ")
    assert not (project.folder / "started").exists()


def test_a_plan_that_is_not_there(project: Project) -> None:
    project.write("train.py", "open('started', 'w')\n")
    done = project.hasten("run", "--plan", "lost.toml", "train.py")
    assert done.returncode == 2
    assert done.stderr == "hasten: there is no plan at lost.toml. Make one with: hasten tune SCRIPT\n"
    assert not (project.folder / "started").exists()


FOREIGN = "format = 1\n[made_for]\nmachine = 'an abacus'\n[techniques.bf16]\n"


def test_a_plan_for_another_machine_is_used_with_a_remark(project: Project) -> None:
    project.write("train.py", "print('trained')\n")
    project.write(".hasten/train/plan.toml", FOREIGN)
    done = project.hasten("run", "train.py")
    remark, in_force = done.stderr.splitlines()
    assert remark.startswith("hasten: the plan was made on another machine (an abacus); this is ")
    assert in_force == "hasten: training under .hasten/train/plan.toml: bf16"
    assert (done.returncode, done.stdout) == (0, "trained\n")


def test_strict_stops_before_the_script_starts(project: Project) -> None:
    project.write("train.py", "open('started', 'w')\n")
    project.write(".hasten/train/plan.toml", FOREIGN)
    done = project.hasten("run", "--strict", "train.py")
    assert done.returncode == 2
    assert done.stderr.startswith("hasten: the plan was made on another machine (an abacus); this is ")
    assert done.stderr.endswith("\nhasten: stopping before the script starts, as --strict asks\n")
    assert not (project.folder / "started").exists()


def test_strict_wants_a_plan(project: Project) -> None:
    project.write("train.py", "open('started', 'w')\n")
    done = project.hasten("run", "--strict", "train.py")
    assert done.returncode == 2
    assert done.stderr == "hasten: there is no plan for train.py. Make one with: hasten tune train.py\n"
    assert not (project.folder / "started").exists()
