"""docs/machines.md: every block is typed by a test, here or in tests/machines; what it says is so."""

from __future__ import annotations

import shlex

import pytest

from hasten.cli.commands import parse
from hasten.cli.engine_options import ENGINE_OPTIONS
from hasten.cli.run_checkpoint import OPTIONS as CHECKPOINTS
from hasten.launch.engines.catalog import ENGINES
from hasten.launch.told_rank import variables_of
from hasten.records.launch_job import Launched

from ..machines.page import PAGE, Block, blocks
from .conftest import Project

PRINTS = {"slurm": "sbatch --parsable", "kubernetes": "kind: ", "skypilot": "num_nodes: 2"}
PRINTS |= {"docker": "docker run", "apptainer": "apptainer exec"}
RENDERED = [line for block in blocks() if block.how == "render" for line in block.text.splitlines()]


def test_every_block_is_typed_by_a_test() -> None:
    for block in blocks():
        assert block.how == "render" or block.how.startswith(("run: ", "by tests/machines/test_ray.py")), (
            block
        )


@pytest.mark.parametrize("line", RENDERED)
def test_what_is_only_shown_can_be_rendered(project: Project, line: str) -> None:
    project.write("train.py", "import torch.distributed as dist\ndist.init_process_group('gloo')\n")
    program, *words = shlex.split(line)
    assert program == "hasten"
    done = project.hasten(words[0], "--render", *words[1:])
    assert (done.returncode, done.stderr) == (0, "")
    engine = words[words.index("--engine") + 1]
    assert PRINTS[engine] in done.stdout
    assert "train.py" in done.stdout


def block_of(name: str) -> Block:
    return next(block for block in blocks() if block.name == name)


@pytest.mark.parametrize("name", ["torchrun", "openmpi", "mpich", "slurm", "ray"])
def test_each_engine_has_a_block_that_names_it(name: str) -> None:
    *_, line = block_of(name).text.splitlines()
    words = shlex.split(line[line.index("hasten run") :])[1:]
    arguments = parse(words)
    assert arguments.engine == (None if name == "torchrun" else name)
    assert arguments.script == "train.py"


def test_the_table_says_what_engines_do() -> None:
    rows = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in cells[0].split(", "):
            if name in ENGINES and len(cells) == 6:
                rows[name] = cells
    assert rows.keys() == ENGINES.keys()
    for name, (_, _, elastic, restarts, _, _) in rows.items():
        does = ENGINES[name].does
        assert elastic in (("yes", "by torchrun") if does.elastic else ("", "refused")), name
        assert restarts in (("yes", "by torchrun", "by Ray") if does.restarts else ("", "refused")), name


def test_what_is_set_is_told() -> None:
    text = PAGE.read_text()
    for name in variables_of(Launched("", interface="eth0"), {}):
        assert name in text or name.startswith("HASTEN_"), name


def test_options_that_the_page_names_are_there() -> None:
    known = {word for option in (*ENGINE_OPTIONS, *CHECKPOINTS) for word in option.opts}
    known.add("--nproc-per-node")
    page = {
        word.split("=")[0] for word in PAGE.read_text().replace("`", " ").split() if word.startswith("--")
    }
    not_ours = {"--head", "--port", "--address", "-->", "--cpus-per-task", "--time"}
    assert {word.strip("),.;:") for word in page} - not_ours - {"---"} <= known
