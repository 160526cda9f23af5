"""How a script is trained by several processes is read from it; nothing is run for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.records.diagnosis import Distribution
from hasten.scripts.distribution import distribution_of
from hasten.scripts.workspace import Script

DIST = "import torch.distributed as dist\n"
SHAPES = Path(__file__).parent / "shapes"


def found(folder: Path, text: str) -> Distribution:
    path = folder / "train.py"
    path.write_text(text)
    return distribution_of(Script(path, ()))


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        (DIST + "dist.init_process_group('gloo')", ("gloo",)),
        (DIST + "dist.init_process_group(backend='MPI', init_method='env://')", ("mpi",)),
        (DIST + "dist.init_process_group('ccl', init_method='tcp://127.0.0.1:23456')", ("ccl",)),
        (DIST + "dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')", ()),
        ("from torch.distributed import init_process_group as start\nstart()", ()),
        ("import torch\ntorch.distributed.init_process_group()", ()),
        ("import oneccl_bindings_for_pytorch", ("ccl",)),
        ("import torch_ccl", ("ccl",)),
        ("from mpi4py import MPI", ("mpi",)),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\nnet = DDP(net)", ()),
        ("from torch.distributed.device_mesh import init_device_mesh\ninit_device_mesh('cpu', (2,))", ()),
        ("import os\nrank = int(os.environ['RANK'])", ()),
        ("import os\nif 'LOCAL_RANK' in os.environ: pass", ()),
        ("from os import getenv\nsize = getenv('PMI_RANK', 0)", ()),
        ("from accelerate import Accelerator\nx = Accelerator()", ()),
        ("from transformers import Trainer\nTrainer(model=model)", ()),
        ("import transformers as t\nt.Seq2SeqTrainer(model)", ()),
        ("from transformers.trainer import Trainer as Base\nBase(model)", ()),
        ("from transformers import Trainer\nclass Mine(Trainer):\n    pass", ()),
        ("import transformers\nclass Mine(transformers.Trainer):\n    pass", ()),
        ("from trl import SFTTrainer\nSFTTrainer('model')", ()),
        ("import lightning as L\nL.Trainer(strategy='ddp', devices=2)", ()),
        ("from lightning.fabric import Fabric\nFabric(devices=n)", ()),
    ],
)
def test_a_script_made_to_be_a_rank_is_told(tmp_path: Path, text: str, backends: tuple[str, ...]) -> None:
    told = found(tmp_path, text)
    assert (told.kind, told.backends) == ("ranks", backends)
    assert told.sign.startswith(f"{tmp_path}/train.py:")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nmodel = torch.nn.Linear(2, 2)",
        "import os\nos.environ['RANK'] = '0'",
        "import os\nos.environ['HOME']",
        "import lightning as L\nL.Trainer(max_epochs=2)",
        "import lightning as L\nL.Trainer(devices=1)",
        "import multiprocessing as mp\nmp.Process(target=load).start()",
        "import torch.distributed as dist\nprint(dist.is_initialized())",
        "def (",
    ],
)
def test_a_script_that_knows_of_no_other_process(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, text).kind == ""


SPAWNING = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def train(rank, size):
    os.environ["MASTER_ADDR"] = "localhost"
    dist.init_process_group("gloo", rank=rank, world_size=size)
mp.spawn(train, args=(2,), nprocs=2)
"""


def test_a_script_that_starts_its_own_ranks(tmp_path: Path) -> None:
    told = found(tmp_path, SPAWNING)
    assert told.kind == "spawns"
    assert told.sign.endswith("train.py:8: mp.spawn(train, args=(2,), nprocs=2)")


def test_processes_of_its_own_are_ranks_where_it_numbers_them(tmp_path: Path) -> None:
    by_hand = SPAWNING.replace("mp.spawn(train, args=(2,), nprocs=2)", "mp.Process(target=train).start()")
    assert found(tmp_path, by_hand).kind == "spawns"
    assert found(tmp_path, by_hand.replace(", rank=rank", "")).kind == "ranks"


def test_one_that_does_so_only_if_no_launcher_does(tmp_path: Path) -> None:
    assert found(tmp_path, SPAWNING + "rank = os.environ.get('RANK')\n").kind == "ranks"


def test_the_variables_it_reads_are_known(tmp_path: Path) -> None:
    told = found(tmp_path, "import os\nos.environ['RANK'] = os.environ.get('PMI_RANK', '0')")
    assert told.reads == ("PMI_RANK",)


def test_modules_next_to_it_count(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(DIST + "def start():\n    dist.init_process_group('gloo')\n")
    told = found(tmp_path, "import setup\nsetup.start()\n")
    assert told.sign == f"{tmp_path}/setup.py:3: dist.init_process_group('gloo')"


def test_data_parallel_is_seen(tmp_path: Path) -> None:
    told = distribution_of(Script(SHAPES / "data_parallel.py", ()))
    assert told.kind == ""
    assert told.data_parallel.endswith("model = nn.DataParallel(Model(input_size, output_size))")


@pytest.mark.parametrize("name", ["ddp_torchrun", "trains_in_children", "module_level", "with_argparse"])
def test_the_shapes_are_told_apart(name: str) -> None:
    kinds = {"ddp_torchrun": "ranks"}
    assert distribution_of(Script(SHAPES / f"{name}.py", ())).kind == kinds.get(name, "")
