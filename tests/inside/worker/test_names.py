"""A script imports what it would import without us, whatever its modules are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.inside.job import VARIABLE, Job
from hasten.launch.one_process import BOOTSTRAP
from hasten.machine import this_machine
from hasten.records.codec import to_json

from ...thorough import cases

pytestmark = pytest.mark.attack("files")

MACHINE = this_machine()


class Folder:
    """Files of a user's, and a Python that is started among them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def plain(self, *words: str, **variables: str) -> str:
        return self._run([sys.executable, *(["-m"] * (not words[0].endswith(".py"))), *words], variables)

    def worker(self, *words: str, **variables: str) -> str:
        """The same under a worker, as ``hasten run`` and every trial start it."""
        job = Job(argv=words, machine=MACHINE, module=not words[0].endswith((".py", ".ipynb")))
        return self._run([sys.executable, str(BOOTSTRAP)], {**variables, VARIABLE: json.dumps(to_json(job))})

    def _run(self, command: list[str], variables: dict[str, str]) -> str:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        done = subprocess.run(
            command,
            cwd=self.path,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


OWN = "name = 'the user'\n"
TELL = "import {0}\nprint({0}.name)\n"
LIBRARIES = ("rich", "tomli", "tomli_w", "psutil", "scipy", "pytest")  # ours, in some place or other
PYTHONS = (
    *("json", "random", "types", "signal", "socket", "tempfile", "statistics", "profile", "code", "queue"),
    *("selectors", "runpy", "textwrap", "traceback", "dataclasses", "ctypes", "select", "platform", "copy"),
    *("logging", "secrets", "ast", "linecache", "functools", "typing", "struct", "datetime", "hashlib"),
)


@pytest.mark.parametrize("name", ["hasten", *LIBRARIES])
@pytest.mark.parametrize("kind", ["a module", "a package"])
def test_a_users_own_module_is_found(folder: Folder, name: str, kind: str) -> None:
    folder.write(f"{name}.py" if kind == "a module" else f"{name}/__init__.py", OWN)
    folder.write("train.py", TELL.format(name))
    assert folder.worker("train.py") == "the user\n"


@pytest.mark.parametrize(
    "name", cases(PYTHONS, ("json", "types", "socket", "runpy", "ctypes", "logging", "typing", "hashlib"))
)
def test_a_module_called_like_one_of_pythons_is_what_plain_python_takes(folder: Folder, name: str) -> None:
    """The user's in most cases; Python's own where it goes before any path or was imported at the start."""
    folder.write(f"{name}.py", OWN)
    tell = f"import {name}\nprint(getattr({name}, 'name', None) == 'the user')\n"
    folder.write("train.py", tell)
    said = folder.plain("train.py")
    assert said in ("True\n", "False\n")
    assert folder.worker("train.py") == said


@pytest.mark.parametrize("name", ["json", "random", "rich", "hasten", "tempfile", "selectors", "signal"])
def test_a_module_on_pythonpath_is_what_plain_python_takes(folder: Folder, name: str) -> None:
    folder.write(f"lib/{name}.py", OWN)
    folder.write("train.py", f"import {name}\nprint(getattr({name}, 'name', None))\n")
    said = folder.plain("train.py", PYTHONPATH=str(folder.path / "lib"))
    assert said == "the user\n"
    assert folder.worker("train.py", PYTHONPATH=str(folder.path / "lib")) == said


def test_a_folder_that_is_no_package_hides_nothing_of_pythons(folder: Folder) -> None:
    folder.write("logging/train.log", "")
    folder.write("train.py", "import logging, json\nprint(logging.INFO, json.dumps(1))\n")
    assert folder.worker("train.py") == "20 1\n"


def test_without_one_of_the_users_own_hasten_is_ours(folder: Folder) -> None:
    folder.write("train.py", "import hasten\nhasten.step()\nprint(hasten.__file__, hasten.is_main())")
    import hasten

    assert folder.worker("train.py") == f"{hasten.__file__} True\n"


def test_ours_is_the_one_that_works_in_the_worker(folder: Folder) -> None:
    """And not another copy, to which no worker listens."""
    text = (
        "import sys, hasten, hasten.inside.script_side as side\n"
        "print(side.listener is not None, hasten.step.__module__, sys.modules['hasten'] is hasten)\n"
    )
    folder.write("train.py", text)
    assert folder.worker("train.py") == "True hasten.inside.script_side True\n"


def test_a_users_package_has_its_submodules(folder: Folder) -> None:
    folder.write("hasten/__init__.py", "from .model import name\n")
    folder.write("hasten/model.py", OWN)
    folder.write(
        "train.py", "import hasten.model\nfrom hasten import name\nprint(name, hasten.__path__ != [])"
    )
    assert folder.worker("train.py") == "the user True\n"


def test_a_users_package_without_init_is_what_plain_python_takes(folder: Folder) -> None:
    folder.write("hasten/model.py", OWN)
    tell = "try:\n from hasten.model import name\nexcept ImportError: name = 'none'\nprint(name)"
    folder.write("train.py", tell)
    assert folder.worker("train.py") == folder.plain("train.py")


def test_one_that_the_script_puts_on_its_path_later_is_found(folder: Folder) -> None:
    folder.write("lib/hasten.py", OWN)
    folder.write("train.py", "import sys\nsys.path.insert(0, 'lib')\n" + TELL.format("hasten"))
    assert folder.worker("train.py") == "the user\n"


@pytest.mark.parametrize("name", ["hasten", "json", "rich"])
def test_a_module_that_is_run_finds_its_neighbours(folder: Folder, name: str) -> None:
    folder.write(f"{name}.py", OWN)
    folder.write("app/__init__.py", "")
    folder.write("app/train.py", TELL.format(name))
    assert folder.worker("app.train") == "the user\n"


def test_a_users_package_of_our_name_is_run(folder: Folder) -> None:
    folder.write("hasten/__init__.py", "")
    folder.write("hasten/train.py", "print(__name__, __spec__.name)")
    assert folder.worker("hasten.train") == "__main__ hasten.train\n"


@pytest.mark.parametrize("name", ["hasten", "json", "rich"])
def test_a_notebook_finds_its_neighbours(folder: Folder, name: str) -> None:
    folder.write(f"{name}.py", OWN)
    cell = {"cell_type": "code", "source": TELL.format(name), "metadata": {}, "outputs": []}
    folder.write("train.ipynb", json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    assert folder.worker("train.ipynb") == "the user\n"


def test_a_training_works_next_to_it(folder: Folder) -> None:
    folder.write("hasten.py", OWN)
    text = (
        "import hasten, torch\n"
        "model = torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(3):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    optimizer.step()\n"
        "print(hasten.name)\n"
    )
    folder.write("train.py", text)
    assert folder.worker("train.py") == "the user\n"


# ---- the command line itself
@pytest.mark.parametrize(
    "name",
    cases(
        ["rich", "click", "torch", "random", "types", "json", "tomli_w", "psutil", "hasten"],
        {"rich", "click", "json", "hasten"},
    ),
)
@pytest.mark.parametrize("path", ["", "."], ids=["beside it", "on PYTHONPATH"])
def test_the_command_line_imports_nothing_of_the_users(folder: Folder, name: str, path: str) -> None:
    if path and name in ("types", "json", "random", "hasten"):
        pytest.skip("Python itself takes these from PYTHONPATH, before anything of ours runs")
    folder.write(f"{name}.py", "open('imported', 'w').close()\nraise SystemExit('the user')\n")
    folder.write("train.py", "print('trains')\n")
    entry = Path(sys.executable).with_name("hasten")
    if not entry.exists():
        pytest.skip("hasten is not installed beside this Python")
    variables = {"PYTHONPATH": str(folder.path)} if path else {}
    said = folder._run([str(entry), "techniques", "--json", "-"], variables)
    said += folder._run([str(entry), "doctor", "train.py"], variables)
    assert "the user" not in said
    assert not (folder.path / "imported").exists(), said
