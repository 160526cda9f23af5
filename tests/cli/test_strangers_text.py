"""What strangers wrote, through the commands themselves: plans, names of files and classes."""

from __future__ import annotations

import pytest

from ..quickly import quickly
from ..report.test_strangers_text import HOSTILE, hidden
from ..thorough import cases
from .conftest import Project

NAMES = {  # of scripts
    "[bold]train.py": "[bold]train.py",
    "\x1b[2Jtrain.py": r"\x1b[2Jtrain.py",
    "train\u202egpj.py": r"train\u202egpj.py",
    "train\nhasten: all is well.py": r"train\nhasten: all is well.py",
    "train\udcff.py": r"train\udcff.py",
}
TRAINS = quickly("""
import torch
kind = type(%r, (torch.nn.Linear,), {})
model = kind(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(45):
    model(torch.rand(8, 4)).sum().backward()
    optimizer.step()
""")


def toml(text: str) -> str:
    """As a string of TOML."""
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("key", ["script", "machine", "torch"])
def test_a_plan_of_somebody_elses(project: Project, key: str) -> None:
    project.write("train.py", "print('trained')\n")
    all_of_it = " ".join(written for name, (written, _) in HOSTILE.items() if "half" not in name)
    project.write("plan.toml", f'format = 1\n[made_for]\ndigest = "another"\n{key} = {toml(all_of_it)}\n')
    done = project.hasten("run", "--plan", "plan.toml", "train.py")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert not hidden(done.stderr)
    assert all(shown in done.stderr for name, (_, shown) in HOSTILE.items() if "half" not in name)


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("what", ["{} = 1", "[techniques.{}]", "[techniques.threads]\n{} = 1"])
def test_keys_of_a_plan(project: Project, what: str) -> None:
    project.write("train.py", "")
    project.write("plan.toml", f"format = 1\n{what.format(toml(chr(27) + '[2J'))}\n")
    done = project.hasten("run", "--plan", "plan.toml", "train.py")
    assert done.returncode == 2
    assert not hidden(done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_script_by_another_name(project: Project, name: str) -> None:
    (project.folder / name).write_text("print('mine')\n")
    done = project.hasten("run", name)
    assert (done.returncode, done.stdout) == (0, "mine\n")
    assert not hidden(done.stderr)
    assert done.stderr.count("\n") == 1
    assert NAMES[name] in done.stderr


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("kind", cases(["[/nope]", "\x1b]0;mine\x07"], ["\x1b]0;mine\x07"]), ids=ascii)
def test_a_class_by_another_name(project: Project, kind: str) -> None:
    name = "[bold]train.py"
    project.write(name, TRAINS % kind)
    done = project.hasten("profile", "--allow-writes", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert not hidden(done.stdout)
    shown = kind.replace("\x1b", r"\x1b").replace("\x07", r"\x07")
    assert f"trains __main__.{shown}: 10 parameters" in done.stdout


@pytest.mark.attack("intruders")
def test_what_the_script_prints_is_its_own(project: Project) -> None:
    project.write("train.py", "print('\\x1b[31m[/nope]\\x1b[0m')\n")
    assert project.hasten("run", "--no-plan", "train.py").stdout == "\x1b[31m[/nope]\x1b[0m\n"
    assert project.hasten("run", "--use", "threads:count=1", "train.py").stdout == "\x1b[31m[/nope]\x1b[0m\n"
