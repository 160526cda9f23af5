"""Scripts that know of no ranks, trained by ranks that a launcher starts on several hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from hasten.launch.rendezvous import free_port

from ..hosts import Network, network, why_no_hosts
from ..inside.distributed.ranks import Ended, all_ended
from .conftest import Project, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks of several hosts are for Linux")
on_a_network = pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())
TOLERANCE = {"SGD": 1e-12, "Adam": 1e-9}
SCRIPT = """
import os, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.randn(101, 6)
y = x[:, :1] * 2 + 0.1
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = getattr(torch.optim, sys.argv[1])(model.parameters(), lr=0.01)
assert not [name for name in os.environ if name.endswith("RAN" + "K")], "a variable tells of ranks"
assert not torch.distributed.is_initialized()
epoch = 0
while epoch < 4 or sys.argv[2:] == ["endless"]:
    for a, b in DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = LOSS
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}", flush=True)
    epoch += 1
assert not torch.distributed.is_initialized()
torch.save([p.detach() for p in model.parameters()], "model.pt")
"""
MEAN = "torch.nn.functional.mse_loss(model(a), b)"
MEDIAN = "(model(a) - b).square().median()"
HASTEN = (sys.executable, "-m", "hasten.cli.main", "run")


@dataclass(frozen=True)
class Placed:
    """A rank by hand: of which host, and which one there."""

    host: int
    local_rank: int
    local_size: int


ONE_AND_TWO = (Placed(1, 0, 1), Placed(2, 0, 2), Placed(2, 1, 2))
ONE_HOST = (Placed(1, 0, 2), Placed(1, 1, 2))
ONE_AND_ONE = (Placed(1, 0, 1), Placed(2, 0, 1))


@pytest.fixture
def script(project: Project) -> Path:
    return written(project)


def written(project: Project, loss: str = MEAN) -> Path:
    project.environment |= {"HASTEN_JOB_TOKEN": "a token of this test", "HASTEN_DEADLINE": "60"}
    project.environment |= {"OMP_NUM_THREADS": "1"}
    return project.write("train.py", SCRIPT.replace("LOSS", loss))


@contextmanager
def by_hand(
    project: Project, placed: Sequence[Placed], *words: str, on: Network | None = None
) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks that somebody starts, on hosts that are one machine unless there is a network."""
    place = {"MASTER_ADDR": on.address(1) if on else "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = []
    try:
        for rank, one in enumerate(placed):
            told = {"RANK": rank, "WORLD_SIZE": len(placed)}
            told |= {"LOCAL_RANK": one.local_rank, "LOCAL_WORLD_SIZE": one.local_size}
            environment = project.environment | place | {name: str(value) for name, value in told.items()}
            command = [*HASTEN, *words]
            if on is not None:
                started.append(on.start(one.host, command, environment, project.folder))
            else:
                started.append(started_here(command, environment, project.folder))
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def started_here(command: Sequence[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    )


def worker_of(project: Project, rank: int) -> int:
    """The process that trains as that rank, once it does; 0 before."""
    for number in project.processes():
        try:
            told = Path(f"/proc/{number}/environ").read_bytes()
        except OSError:
            continue
        if f'"rank": {rank},'.encode() in told and b'"rehearsal": ""' in told:
            return number
    return 0


@contextmanager
def training(project: Project, on: Network | None = None) -> Iterator[list[subprocess.Popen[str]]]:
    """Two hosts that train, and do not end by themselves."""
    with by_hand(project, ONE_AND_ONE, "--no-plan", "train.py", "SGD", "endless", on=on) as started:
        wait_until(lambda: worker_of(project, 1) > 0 or started[0].poll() is not None)
        yield started


def far_from_one_process(project: Project, *words: str) -> float:
    model = project.folder / "model.pt"
    ours = torch.load(model)
    model.unlink()
    alone = project.python("train.py", *words)
    assert alone.returncode == 0, alone.stderr
    return max(float((a - b).abs().max()) for a, b in zip(ours, torch.load(model), strict=True))


def epochs(ended: Ended) -> list[str]:
    return [line for line in ended.stdout.splitlines() if line.startswith("epoch")]


# ---- they train one model
@pytest.mark.parametrize(
    ("placed", "told"),
    [
        pytest.param(ONE_AND_TWO, "3 ranks on 2 hosts (", id="of unequal size", marks=pytest.mark.thorough),
        pytest.param(ONE_HOST, "hasten: 2 ranks, each", id="one host", marks=pytest.mark.thorough),
    ],
)
def test_hosts_started_by_hand_train_what_one_process_trains(
    project: Project, script: Path, placed: Sequence[Placed], told: str
) -> None:
    """They are one machine here."""
    with by_hand(project, placed, "--no-plan", "train.py", "Adam") as started:
        done = all_ended(started)
    assert [one.returncode for one in started] == [0] * len(placed), done
    assert [len(epochs(one)) for one in done] == [4, *[0] * (len(placed) - 1)]
    assert told in done[0].stderr
    assert far_from_one_process(project, "Adam") <= TOLERANCE["Adam"]
    assert project.left_over() == []


@on_a_network
@pytest.mark.parametrize(
    ("hosts", "each", "kind"),
    [
        pytest.param(*one, marks=pytest.mark.thorough)  # tests/machines trains on two hosts by torchrun
        for one in [(3, 1, "SGD"), (3, 1, "Adam"), (2, 2, "SGD")]
    ],
)
def test_hosts_started_by_torchrun_train_what_one_process_trains(
    project: Project, script: Path, hosts: int, each: int, kind: str
) -> None:
    with network(hosts) as net:
        started = []
        for host in range(1, hosts + 1):
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(hosts)]
            torchrun += ["--nproc-per-node", str(each), "--rdzv-backend", "c10d", "--rdzv-id", "j1"]
            torchrun += ["--rdzv-endpoint", f"{net.address(1)}:29400", "--local-addr", net.address(host)]
            command = [*torchrun, "--no-python", *HASTEN, "--no-plan", "train.py", kind]
            started.append(net.start(host, command, project.environment, project.folder))
        done = all_ended(started)
    assert [one.returncode for one in started] == [0] * hosts, done
    assert sorted(len(epochs(one)) for one in done) == [*[0] * (hosts - 1), 4]
    assert any(f"{hosts * each} ranks on {hosts} hosts" in one.stderr for one in done)
    assert far_from_one_process(project, kind) <= TOLERANCE[kind]


def until_checkpoint(project: Project, placed: Sequence[Placed], step: int, *words: str) -> list[str]:
    """Ranks that train until each has a checkpoint of that step or a later one, and are killed then. Returns
    what they said of a restart.
    """
    with by_hand(project, placed, *KEEPING, *words) as started:
        folders = [project.folder / "kept" / f"rank-{rank}" for rank in range(len(placed))]
        wait_until(
            lambda: (
                all(max(kept_steps(one), default=0) >= step for one in folders)
                or any(one.poll() is not None for one in started)
            )
        )
        for one in started:
            one.kill()
        done = all_ended(started)
    wait_until(lambda: project.processes() == [])
    return [line for one in done for line in one.stderr.splitlines() if "step" in line and "again" in line]


def kept_steps(folder: Path) -> list[int]:
    return [int(path.stem[5:]) for path in folder.glob("step-*.checkpoint")]


KEEPING = ("--no-plan", "--checkpoint", "kept", "--every", "3steps", "train.py")


@pytest.mark.parametrize(
    ("kind", "worlds"),
    [
        pytest.param("SGD", (ONE_AND_TWO, ONE_HOST), marks=pytest.mark.thorough),
        pytest.param("Adam", (ONE_HOST, ONE_AND_TWO, ONE_AND_TWO, ONE_AND_ONE), marks=pytest.mark.thorough),
    ],
    ids=["fewer", "more, the same and fewer"],
)
def test_another_number_of_ranks_goes_on_from_the_checkpoint(
    project: Project, kind: str, worlds: Sequence[Sequence[Placed]]
) -> None:
    """They are one machine here."""
    slow = "optimizer.step(); __import__('time').sleep(0.05)"
    project.write("train.py", written(project).read_text().replace("optimizer.step()", slow))
    for number, placed in enumerate(worlds[:-1]):
        said = until_checkpoint(project, placed, 10 * (number + 1), kind)
        assert len(said) == (number > 0), said
    with by_hand(project, worlds[-1], *KEEPING, kind) as started:
        done = all_ended(started)
    assert [one.returncode for one in started] == [0] * len(worlds[-1]), done
    assert "training goes on" in done[0].stderr
    assert far_from_one_process(project, kind) <= TOLERANCE[kind]


@pytest.mark.thorough
def test_what_slices_do_not_add_up_to_is_refused_once_and_on_all_hosts(project: Project) -> None:
    written(project, MEDIAN)
    with by_hand(project, ONE_AND_ONE, "--no-plan", "train.py", "SGD") as started:
        first, second = all_ended(started)
    assert [one.returncode for one in started] == [3, 3]
    assert (
        "cannot be trained by 2 ranks on 2 hosts: the gradients of the slices do not add up" in first.stderr
    )
    assert second.stderr == ""
    assert not (project.folder / "model.pt").exists()


# ---- they end together
@pytest.mark.thorough
def test_a_rank_that_is_killed_ends_all_and_is_named(project: Project, script: Path) -> None:
    with training(project) as started:
        os.kill(worker_of(project, 1), signal.SIGKILL)
        done = all_ended(started)
    codes = [one.returncode for one in started]
    assert codes == [128 + signal.SIGKILL] * 2, done
    for one in done:
        assert "rank 1 of 2 on host" in one.stderr, done
        assert "was killed by SIGKILL" in one.stderr, done
    assert project.left_over() == []


@pytest.mark.thorough
def test_a_rank_that_is_stopped_ends_all_by_the_deadline_and_is_named(project: Project, script: Path) -> None:
    project.environment["HASTEN_DEADLINE"] = "5"
    with training(project) as started:
        os.kill(worker_of(project, 1), signal.SIGSTOP)
        done = all_ended(started)
    assert [one.returncode for one in started] == [1, 1], done
    for one in done:
        assert "rank 1 on host" in one.stderr, done
        assert "was stopped" in one.stderr, done
    assert project.left_over() == []


@pytest.mark.thorough
def test_a_launchers_process_that_is_stopped_is_named(project: Project, script: Path) -> None:
    project.environment["HASTEN_DEADLINE"] = "5"
    with training(project) as started:
        started[1].send_signal(signal.SIGSTOP)
        (first,) = all_ended(started[:1])
    assert started[0].returncode == 1
    assert "rank 1's process on host" in first.stderr
    assert "was not heard from for 5 s" in first.stderr


@pytest.mark.thorough
def test_a_launchers_process_of_rank_0_that_is_killed_ends_all(project: Project, script: Path) -> None:
    with training(project) as started:
        started[0].kill()
        _, second = all_ended(started)
    assert started[1].returncode == 1
    assert "rank 0's process cannot be reached" in second.stderr
    wait_until(lambda: project.processes() == [])


@on_a_network
@pytest.mark.thorough
def test_a_host_that_is_cut_off_ends_all_by_the_deadline(project: Project, script: Path) -> None:
    project.environment["HASTEN_DEADLINE"] = "5"
    with network(2) as net, training(project, on=net) as started:
        net.cut(2)
        first, second = all_ended(started)
    assert [one.returncode for one in started] == [1, 1], (first, second)
    assert "rank 1's process on host h2 was not heard from for 5 s" in first.stderr
    assert "rank 0's process cannot be reached from h2" in second.stderr


def test_a_host_that_does_not_come_is_named(project: Project, script: Path) -> None:
    project.environment["HASTEN_DEADLINE"] = "2"
    with by_hand(project, ONE_AND_TWO, "--no-plan", "train.py", "SGD") as started:
        started[2].kill()
        first, *_ = all_ended(started)
    assert started[0].returncode == 2
    assert "1 of 3 ranks have not come within 4 s: 2" in first.stderr


def test_a_process_with_another_token_is_told_so(project: Project, script: Path) -> None:
    project.environment["HASTEN_DEADLINE"] = "2"
    port = str(free_port())
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    command = [*HASTEN, "--no-plan", "train.py", "SGD"]
    started = []
    for rank, token in enumerate(("the token of one", "the token of another")):
        told = {"RANK": str(rank), "LOCAL_RANK": "0", "HASTEN_JOB_TOKEN": token}
        started.append(started_here(command, project.environment | place | told, project.folder))
    first, second = all_ended(started)
    assert [one.returncode for one in started] == [2, 2]
    assert "1 of 2 ranks have not come" in first.stderr
    assert "has another secret" in second.stderr
