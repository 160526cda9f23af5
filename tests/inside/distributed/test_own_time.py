"""What each rank takes for a step itself: arithmetic with a clock that is made up, and real ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.inside.distributed.own_time import OwnTime
from hasten.inside.job import Hosts
from hasten.records.ranks import Findings, LoaderKey
from hasten.records.run_pace import WatchedRun

from .trainings import told, train

SOON = WatchedRun(warmup_steps=20, warmup_seconds=0.05, block_seconds=0.05, lasting_seconds=0.5)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def steps(ranks: list[OwnTime], clock: Clock, seconds: list[float], count: int, since: int = 0) -> None:
    """Of two backward passes each, of which every rank takes its seconds and waits for the slowest."""
    for number in range(since, since + count):
        for _ in range(2):
            began = clock.now
            rows = []
            for one, took in zip(ranks, seconds, strict=True):
                clock.now = began + took / 2
                rows.append(one.told())
            clock.now = began + max(seconds)
            sums = [sum(column) for column in zip(*rows, strict=True)]
            for one in ranks:
                one.heard(sums, number)


def test_each_rank_knows_what_all_of_them_take() -> None:
    clock = Clock()
    ranks = [OwnTime(rank, 3, clock=clock) for rank in range(3)]
    steps(ranks, clock, [0.01, 0.03, 0.02], 10)
    expected = {"rank 0": 0.01, "rank 1": 0.03, "rank 2": 0.02}
    assert ranks[0].usual() == pytest.approx(expected)
    assert ranks[2].usual() == pytest.approx(expected)


def test_it_is_counted_anew_from_where_that_begins() -> None:
    clock = Clock()
    ranks = [OwnTime(rank, 2, clock=clock) for rank in range(2)]
    steps(ranks, clock, [0.01, 0.01], 10)
    for one in ranks:
        one.begin()
    assert ranks[0].usual() == {}
    steps(ranks, clock, [0.01, 0.05], 10, since=9)  # in the midst of a step
    assert ranks[0].usual() == pytest.approx({"rank 0": 0.01, "rank 1": 0.05})


def test_a_rank_on_another_host_is_named_with_it() -> None:
    hosts = Hosts(((0,), (1,)), ("a", "b"), here=0, address="a", meeting="a:1", key="00")
    clock = Clock()
    ranks = [OwnTime(rank, 2, hosts, clock) for rank in range(2)]
    steps(ranks, clock, [0.01, 0.02], 5)
    assert list(ranks[0].usual()) == ["rank 0 on host a", "rank 1 on host b"]


def test_with_very_many_ranks_nothing_is_sent() -> None:
    one = OwnTime(0, 1000)
    assert one.told() == []
    one.heard([], 1)
    assert one.usual() == {}


@pytest.mark.thorough  # beside other programs its first blocks may differ too much
def test_a_rank_that_the_others_wait_for_is_named(tmp_path: Path) -> None:
    """The script cannot know its rank: which one becomes slow after 440 epochs is chance."""
    source = """
    import os, time

    def comes_second():
        try:
            os.mkdir("first")
        except FileExistsError:
            return True

    slow = comes_second()
    tell(slow=slow)

    class Slow(TensorDataset):
        taken = 0
        def __getitem__(self, index):
            Slow.taken += 1
            if slow and Slow.taken > 11_000:
                time.sleep(0.02)
            return super().__getitem__(index)

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(0)
    for epoch in range(460):
        for x, y in DataLoader(Slow(*data().tensors), batch_size=8, shuffle=True):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    """
    findings = Findings(LoaderKey("Slow", 50, 8, "RandomSampler"))
    done = train(tmp_path, source, 2, findings, watched=SOON)
    slow = [rank for rank, one in enumerate(done) if told(one)["slow"]]
    lines = [line for line in done[0].stderr.splitlines() if line.startswith("hasten: steps take ")]
    assert len(lines) == 1
    assert f"the other ranks wait for rank {slow[0]}, which takes " in lines[0]
    assert "what takes longer" not in lines[0]
    assert "steps take" not in done[1].stderr
