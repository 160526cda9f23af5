"""A script runs under us as it runs under Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hasten.inside.job import Job
from hasten.launch.one_process import render

from ...patience import PATIENCE_SECONDS
from ...techniques.made_up import machine

WHAT_A_SCRIPT_SEES = """
'''The docstring.'''
import json, sys
import beside
def annotated(x: print("evaluated")): ...
there = dict(globals())
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "doc": __doc__,
    "package": there.get("__package__"), "spec": str(there.get("__spec__")),
    "cached": there.get("__cached__"), "builtins": type(__builtins__).__name__, "beside": beside.value,
    "main": sys.modules["__main__"].__dict__ is globals(),
}))
"""


Ending = tuple[int, str, str]


def under_us(folder: Path, *argv: str) -> Ending:
    """Exit code, output and errors of a worker without a coordinator."""
    command, environment = render(Job(argv=argv, machine=machine()), os.environ)
    return ending_of(command, folder, environment)


def under_python(folder: Path, *argv: str) -> Ending:
    return ending_of([sys.executable, *argv], folder, os.environ)


def ending_of(command: list[str], folder: Path, environment: Mapping[str, str]) -> Ending:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["train.py", "./train.py", "sub/../train.py"])
def test_a_script_sees_what_python_shows_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.py").write_text(WHAT_A_SCRIPT_SEES)
    (tmp_path / "beside.py").write_text("value = 'from beside'")
    ours = under_us(tmp_path, name, "--epochs", "5")
    assert ours == under_python(tmp_path, name, "--epochs", "5")
    assert ours[0] == 0, ours[2]
    seen = json.loads(ours[1].splitlines()[-1])
    assert seen["argv"] == [name, "--epochs", "5"]
    assert seen["name"] == "__main__"
    assert seen["beside"] == "from beside"


def test_a_script_behind_a_link_finds_the_modules_of_its_real_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").write_text(WHAT_A_SCRIPT_SEES)
    (tmp_path / "real" / "beside.py").write_text("value = 'from the real folder'")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "train.py")
    ours = under_us(tmp_path, "link.py")
    assert ours == under_python(tmp_path, "link.py")
    assert json.loads(ours[1].splitlines()[-1])["path"] == str(tmp_path / "real")


def test_the_main_guard_is_entered(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("if __name__ == '__main__':\n    print('trains')")
    assert under_us(tmp_path, "train.py") == (0, "trains\n", "")


def test_file_names_the_script_after_a_change_of_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "train.py").write_text("import os\nos.chdir('elsewhere')\nprint(os.path.exists(__file__))")
    assert under_us(tmp_path, "train.py") == (0, "True\n", "")


def test_classes_of_the_script_are_pickled_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import pickle\n"
        "class Config:\n"
        "    rate = 0.1\n"
        "found = pickle.loads(pickle.dumps(Config()))\n"
        "print(Config.__module__, type(found) is Config)\n"
    )
    assert under_us(tmp_path, "train.py") == (0, "__main__ True\n", "")


def test_child_processes_find_the_scripts_functions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing\n"
        "def square(x):\n"
        "    return x * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(square, [2, 3]))\n"
    )
    assert under_us(tmp_path, "train.py") == (0, "[4, 9]\n", "")


ENDINGS = {
    "at its end": "print('done')",
    "an error": "def train():\n    raise ValueError('no data')\ntrain()",
    "an error from an error": "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('x') from e",
    "an error within an error": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('x')",
    "an error in a callback": "import json\njson.dumps(object(), default=lambda o: 1 / 0)",
    "a syntax error": "print('never')\nfor x in\n",
    "a missing module": "import no_such_module_of_anybody",
    "sys.exit(3)": "import sys\nprint('out')\nsys.exit(3)",
    "sys.exit(text)": "import sys\nsys.exit('out of disk')",
    "sys.exit()": "import sys\nsys.exit()",
    "an interrupt": "raise KeyboardInterrupt",
    "at exit": "import atexit\natexit.register(print, 'bye')\nraise SystemExit(4)",
    "a hook of its own": "import sys\nsys.excepthook = lambda k, e, t: print(e)\nraise ValueError('x')",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_as_under_python(tmp_path: Path, ending: str) -> None:
    (tmp_path / "train.py").write_text(ENDINGS[ending])
    assert under_us(tmp_path, "train.py") == under_python(tmp_path, "train.py")


def test_our_frames_between_the_scripts_are_left_out(tmp_path: Path) -> None:
    """The script's callback is called by a function of ours: as a model is, by the slot in its forward."""
    (tmp_path / "train.py").write_text(
        "from hasten.inside.seams import Seams\n"
        "def no_data():\n"
        "    raise ValueError('no data')\n"
        "seams = Seams()\n"
        "seams.on_undo(no_data)\n"
        "seams.undo_all()\n"
    )
    _, _, errors = under_us(tmp_path, "train.py")
    assert "in no_data" in errors
    assert "seams.undo_all()" in errors
    assert "seams.py" not in errors
