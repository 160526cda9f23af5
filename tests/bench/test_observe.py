"""What is seen of a script that is watched as it is: real workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hasten.bench.observe import observe
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import ScriptOver
from hasten.bench.workers.trial_files import TrialFiles
from hasten.errors import Refusal, ScriptError
from hasten.records.observation import Observation, Step
from hasten.records.plan import Plan
from tests.bench.made_up import machine, step
from tests.bench.made_up import observation as made_up_observation
from tests.bench.real_workers import PLAIN, children, trials_for
from tests.inside.distributed.forked import workers_forked

GAN = """
    from pathlib import Path

    prepared = Path(__file__).with_name("prepared.txt")
    if prepared.exists():
        raise SystemExit("prepared already")
    prepared.touch()

    from ground import *
    from torch.utils.data import TensorDataset

    generator = torch.nn.Linear(4, 8)
    critic = torch.nn.Linear(8, 1)
    of_generator = torch.optim.RMSprop(generator.parameters())
    of_critic = torch.optim.Adam(critic.parameters())
    for real, in batches(TensorDataset(torch.randn(400, 8))):
        for _ in range(2):
            of_critic.zero_grad()
            (critic(generator(torch.randn(8, 4)).detach()).mean() - critic(real).mean()).backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        of_generator.step()
"""


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What is tested comes after their start."""
    with workers_forked():
        yield


SAVING = """
    from pathlib import Path

    from ground import *
    from torch.utils.data import TensorDataset

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch, in batches(TensorDataset(torch.randn(400, 8))):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        torch.save(model.state_dict(), Path(__file__).with_name("model.pt"))
"""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_folder_that_is_saved_into_on_another_disk_is_told(
    tmp_path: Path, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def lies_elsewhere(files: TrialFiles, folder: str) -> bool:
        asked.append(folder)
        return elsewhere

    monkeypatch.setattr(TrialFiles, "lies_elsewhere", lies_elsewhere)
    with trials_for(tmp_path, SAVING) as trials:
        observation, _ = observe(trials, steps=10, warmup_steps=4)
    assert observation.run is not None
    assert len(asked) == 1
    assert asked == list(observation.run.part("saving").folders)
    assert observation.run.saved_elsewhere == (asked[0] if elsewhere else "")


@pytest.mark.parametrize("workers", [0, 1])
def test_where_worker_processes_make_the_batches_steps_count_by_their_mean(
    tmp_path: Path, workers: int
) -> None:
    script = f"""
        from ground import *
        from torch.utils.data import TensorDataset

        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch, in DataLoader(TensorDataset(torch.randn(400, 8)), num_workers={workers}):
            model(batch).mean().backward()
            optimizer.step()
    """
    with trials_for(tmp_path, script) as trials:
        _, rhythm = observe(trials, steps=10, warmup_steps=4)
    assert rhythm.bursts == workers


@pytest.mark.parametrize(("first", "counts"), [(0, True), (30, False)])
def test_an_evaluation_after_the_first_step_belongs_to_what_a_process_takes_to_its_steps(
    tmp_path: Path, first: int, counts: bool
) -> None:
    """``if step % every == 0``, from step 0 on: each process of a tune pays for it before its steps."""
    script = f"""
        import time
        from ground import *

        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for number in range(100):
            model(torch.randn(8, 8)).mean().backward()
            optimizer.step()
            if number % 100 == {first}:
                model.eval()
                with torch.no_grad():
                    model(torch.randn(8, 8))
                    time.sleep(0.3)
                model.train()
    """
    with trials_for(tmp_path, script) as trials:
        observation, _ = observe(trials, steps=10, warmup_steps=4)
    assert (observation.settling_seconds > 0.29) if counts else (observation.settling_seconds == 0)
    assert observation.seconds_to_steps == observation.start_seconds + observation.settling_seconds


def test_what_its_operators_are_is_seen(tmp_path: Path) -> None:
    with trials_for(tmp_path, PLAIN) as trials:
        observation, _ = observe(trials, steps=10, warmup_steps=4)
    assert observation.operators
    assert (observation.pools_apart, observation.bias_before_norm) == (False, False)


def test_two_optimizers_in_turns_are_a_cycle(tmp_path: Path) -> None:
    with trials_for(tmp_path, GAN) as trials:
        observation, rhythm = observe(trials, steps=30, warmup_steps=4)
        assert trials.protection == "overlay"
        with trials.worker() as later, pytest.raises(ScriptOver, match="prepared already"):
            later.wait_started()  # what the script wrote before its first step is there
    assert rhythm.cycle == observation.cycle == 3
    assert rhythm.cycle_seconds > 0
    assert len(observation.steps) == 30
    assert observation.warmup_steps == 5
    assert observation.batch_size == 8
    assert [optimizer.name for optimizer in observation.optimizers] == ["RMSprop", "Adam"]
    assert len(observation.roots) == 2
    (loader,) = observation.loaders
    assert (loader.dataset, loader.samples, loader.batch_size, loader.training) == (
        "TensorDataset",
        400,
        8,
        True,
    )
    assert len({step.signature for step in observation.steps}) == 2
    assert all(len(step.losses) == 1 for step in observation.steps)
    assert observation.start_seconds > 0


def test_a_script_that_trains_too_little_is_refused_with_the_numbers(tmp_path: Path) -> None:
    before = children()
    with trials_for(tmp_path, PLAIN.replace("Pictures()", "Pictures(), steps=9")) as trials:
        with pytest.raises(Refusal, match="ended after 9 training steps: hasten profile needs at least 10, "):
            observe(trials)
        assert children() == before


def test_a_script_of_few_steps_is_watched_to_its_end(tmp_path: Path) -> None:
    with trials_for(tmp_path, PLAIN.replace("Pictures()", "Pictures(), steps=23")) as trials:
        observation, rhythm = observe(trials)
    assert rhythm.steps_in_all == 23
    assert observation.warmup_steps == 1 + 23 // 4
    assert len(observation.steps) == 23 - observation.warmup_steps
    assert [optimizer.name for optimizer in observation.optimizers] == ["SGD"]


IN_MAIN = """
    from ground import *

    def main():
        made = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5))
        critic = torch.nn.Linear(8, 1)
        {before}
        of_made = torch.optim.AdamW(made.parameters(), fused=True)
        of_critic = torch.optim.SGD([*critic.parameters()], lr=0.1)
        for pictures, _ in batches(Pictures(), steps=12):
            of_critic.zero_grad()
            of_made.zero_grad()
            critic(made(pictures[:, 0, :4, 0])).mean().backward()
            of_made.step()
            of_critic.step()
        {after}

    kept = main()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "", id="all"),
        pytest.param("", "return made", id="all but a model"),
        pytest.param("", "return of_critic", id="all but an optimizer"),
        pytest.param("", "import gc; del of_made; gc.collect()", id="one after the other"),
        pytest.param("", "import sys; sys.exit()", id="by an exit"),
    ],
)
def test_what_a_script_has_freed_at_its_end_is_told_as_it_was(
    before: str, after: str, tmp_path: Path
) -> None:
    with trials_for(tmp_path, IN_MAIN.format(before=before, after=after)) as trials:
        observation, _ = observe(trials)
    found = [(o.name, o.fused, o.parameters) for o in observation.optimizers]
    assert found == [("AdamW", True, 40), ("SGD", False, 9)]
    assert [(root.name.rsplit(".", 1)[-1], root.dropout) for root in observation.roots] == [
        ("Sequential", True),
        ("Linear", False),
    ]
    assert all(root.devices == ("cpu",) and root.dtypes == ("float32",) for root in observation.roots)
    assert [loader.random for loader in observation.loaders] == [""], "its sampling was not looked at"


def test_epochs_that_are_left_early_are_as_long_as_they_were(tmp_path: Path) -> None:
    source = """
        from ground import *
        from torch.utils.data import DataLoader, TensorDataset

        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
        for epoch in range(12):
            for number, (batch,) in enumerate(loader):
                if number == 7:
                    break
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()
    """
    with trials_for(tmp_path, source) as trials:
        observation, rhythm = observe(trials)
    assert (rhythm.epoch_steps, rhythm.epoch_seen, rhythm.planned_steps) == (7, True, 84)
    assert observation.run is not None
    assert (observation.run.epoch_steps, observation.run.epoch_seen) == (7, True)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch 2.15 looks at it itself
def test_that_a_freed_model_was_compiled_is_told(tmp_path: Path) -> None:
    freed = "import gc; del made, critic, of_made, of_critic; gc.collect()"  # what is compiled is in a cycle
    source = IN_MAIN.format(before='critic.compile(backend="eager")', after=freed)
    with trials_for(tmp_path, source) as trials:
        observation, _ = observe(trials)
    assert "compile" in observation.uses


@pytest.mark.attack("truth")
def test_a_copy_that_averages_the_weights_is_not_trained(tmp_path: Path) -> None:
    """One is called before there is an optimizer, another lies in the model; what runs is in bfloat16."""
    source = """
        import copy
        from ground import *

        class Averaged(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = torch.nn.Linear(4, 3)
                self.average = copy.deepcopy(self.model)

            def forward(self, x):
                return self.model(x)

        model = Averaged()
        teacher = copy.deepcopy(model)
        teacher(torch.ones(2, 4))
        optimizer = torch.optim.Adam(model.model.parameters())
        for _ in range(50):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                teacher(torch.ones(2, 4))
    """
    with trials_for(tmp_path, source) as trials:
        observation, _ = observe(trials)
    (root,) = observation.roots
    (optimizer,) = observation.optimizers
    assert (root.trained, optimizer.parameters, root.parameters) == (15, 15, 30)
    assert observation.autocast == ("bfloat16",)


def test_what_a_script_was_done_with_before_is_not_told(tmp_path: Path) -> None:
    """It searches for a learning rate: each training has its model and its optimizer."""
    source = """
        from ground import *

        def train(make, steps):
            model = Cnn()
            optimizer = make(model.parameters(), lr=0.01)
            for pictures, labels in batches(Pictures(), steps):
                train_step(model, optimizer, pictures, labels)

        for _ in range(3):
            train(torch.optim.SGD, 4)
        train(torch.optim.Adam, 12)
    """
    with trials_for(tmp_path, source) as trials:
        observation, _ = observe(trials)
    assert [optimizer.name for optimizer in observation.optimizers] == ["Adam"]
    assert [root.name for root in observation.roots] == ["ground.Cnn"]


def test_a_script_with_slow_steps_is_watched_for_fewer(tmp_path: Path) -> None:
    """6 steps of 0.15 s fit into a second: 3 to warm up, and 3."""
    slow = PLAIN.replace("Pictures()", "Pictures(seconds=0.15 / 8)")
    with trials_for(tmp_path, slow) as trials:
        observation, _ = observe(trials, seconds=1.0)
    assert observation.warmup_steps in (3, 4)
    assert len(observation.steps) in (3, 4)


LBFGS = """
    import sys
    from ground import *
    from torch.utils.data import TensorDataset

    model, most = torch.nn.Linear(8, 1), int(sys.argv[1])
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=most, max_eval=most, tolerance_grad=0, tolerance_change=0
    )
    picture, loader = torch.randn(16, 8), batches(TensorDataset(torch.randn(400, 8)))
    for _ in range(400):
        if sys.argv[2] == "loader":
            picture, = next(loader)

        def closure():
            optimizer.zero_grad()
            loss = (model(picture) - 1).square().mean() + 1e-3 * model.weight.pow(4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
"""


@pytest.mark.parametrize("evaluations", [15, 45])
def test_a_single_update_that_ends_while_it_is_watched_has_its_evaluations_as_steps(
    evaluations: int, tmp_path: Path
) -> None:
    with trials_for(tmp_path, LBFGS.replace("range(400)", "range(1)"), str(evaluations), "hand") as trials:
        seen, rhythm = observe(trials)
    assert seen.steps_are_evaluations
    assert rhythm.steps_in_all in (None, evaluations)
    assert {step.signature[2] for step in seen.steps} == {1}
    (lbfgs,) = seen.optimizers
    assert lbfgs.stepped, "though its update has not ended"


@pytest.mark.parametrize(
    ("evaluations", "by", "are_steps"),
    [(14, "hand", True), (8, "hand", False), (14, "loader", False), (60, "loader", True)],
)
def test_whether_evaluations_are_steps_is_found_out_once(
    evaluations: int, by: str, are_steps: bool, tmp_path: Path
) -> None:
    with trials_for(tmp_path, LBFGS, str(evaluations), by) as trials:
        seen, _ = observe(trials)
        assert (seen.steps_are_evaluations, trials.evaluations) == (are_steps, are_steps)
        passes = 1 if are_steps else evaluations
        assert {step.signature[2] for step in seen.steps} == {passes}
        with trials.worker() as later:
            later.wait_started()
            assert {step.signature[2] for step in later.steps(5)} == {passes}, "from the first one on"


class Paced:
    """Trials and their one worker, whose steps take ``seconds``; the last of them for ever."""

    stage, folder, child = Stage(("train.py",), machine(), {}, ()), None, ""

    def __init__(self, *seconds: float) -> None:
        self.evaluations: bool | None = None
        self._seconds = seconds
        self.history: list[Step] = []
        self.asked: list[int] = []

    def worker(self, plan: Plan, closely: bool) -> Paced:
        return self

    unequal = 0  # times its size that a batch is larger than the one before it

    def __enter__(self) -> Paced:
        return self

    def __exit__(self, *_: object) -> None: ...

    def keep_preparations(self, worker: Paced) -> None: ...

    def wait_started(self) -> None:
        self._take(1)

    def steps(self, count: int) -> list[Step]:
        self.asked.append(count)
        return self._take(count)

    def observation(self) -> Observation:
        return made_up_observation()

    def _take(self, count: int) -> list[Step]:
        place = len(self.history)
        wanted = [self._seconds[min(n, len(self._seconds) - 1)] for n in range(place, place + count)]
        sizes = [100 * (1 + self.unequal * (n % 3)) for n in range(place, place + count)]
        taken = [step(seconds, elements=size) for seconds, size in zip(wanted, sizes, strict=True)]
        self.history += taken
        return taken


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("seconds", "warmup", "watched"),
    [
        pytest.param([5.0, 0.01], 11, 30, id="quick"),
        pytest.param([9.0, 0.67], 11, 30, id="two thirds of a second each"),
        pytest.param([9.0, 12.0, 9.0, 0.67], 11, 30, id="a slow start"),
        pytest.param([9.0, 30.0, 30.0, 0.67], 3, 30, id="a very slow start"),
        pytest.param([9.0, 50.0, 50.0, 0.67], 3, 29, id="little left"),
        pytest.param([9.0, 70.0, 70.0, 0.67], 3, 3, id="nothing left"),
        pytest.param([1.0, 20.0], 4, 3, id="slow all the time"),
        pytest.param([1.0, 200.0], 3, 3, id="slower than all the time there is"),
    ],
)
def test_how_many_steps_are_watched_is_decided_as_they_come(
    seconds: list[float], warmup: int, watched: int
) -> None:
    paced = Paced(*seconds)
    observation, _ = observe(cast(Trials, paced), seconds=120.0)
    assert (observation.warmup_steps, len(observation.steps)) == (warmup, watched)


@pytest.mark.parametrize(("seconds", "watched"), [(1.0, 30), (6.0, 20), (20.0, 12), (100.0, 3)])
def test_slow_steps_on_unequal_batches_are_watched_for_longer(seconds: float, watched: int) -> None:
    """Else it is not known how much of a step's time its batch explains, and nothing can be compared."""
    paced = Paced(1.0, seconds)
    paced.unequal = 1
    observation, _ = observe(cast(Trials, paced), seconds=120.0)
    assert len(observation.steps) == watched


@pytest.mark.parametrize(("seconds", "told"), [(0.005, []), (0.5, [(0.5, 20.0)]), (9.0, [(9.0, 42.0)])])
def test_watching_for_long_is_told_before(seconds: float, told: list[tuple[float, float]]) -> None:
    paced, heard = Paced(1.0, seconds), []
    observe(cast(Trials, paced), seconds=60.0, told=lambda *said: heard.append(said))
    assert heard == told


def test_quick_steps_are_not_interrupted() -> None:
    paced = Paced(1.0, 0.005)
    observe(cast(Trials, paced))
    assert paced.asked == [2, 8, 30]


def test_a_training_in_a_child_process_is_refused_by_its_name(tmp_path: Path) -> None:
    source = """
        import torch
        from multiprocessing import get_context

        def train():
            model = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(model.parameters())
            for _ in range(30):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            print("trained", flush=True)

        child = get_context("fork").Process(target=train)
        child.start()
        child.join()
        assert child.exitcode == 0
    """
    with trials_for(tmp_path, source) as trials:
        with pytest.raises(Refusal, match=r"started a process of its own \(train\)"):
            observe(trials)
        assert trials.protection == "overlay"


def test_a_script_that_never_trains_is_refused(tmp_path: Path) -> None:
    with trials_for(tmp_path, "print('hello')") as trials:
        with pytest.raises(Refusal, match="ended without training"):
            observe(trials)
        assert trials.protection == "overlay"


def test_a_script_that_raises_is_the_scripts_error_with_its_traceback(tmp_path: Path) -> None:
    source = "def load():\n    raise FileNotFoundError('no data here')\nload()"
    with trials_for(tmp_path, source) as trials, pytest.raises(ScriptError) as raised:
        observe(trials)
    assert "train.py" in str(raised.value)
    assert "in load" in str(raised.value)
    assert "FileNotFoundError: no data here" in str(raised.value)


def test_a_script_that_leaves_with_an_error_is_told_by_its_exit_code(tmp_path: Path) -> None:
    with (
        trials_for(tmp_path, "import sys\nsys.exit(5)") as trials,
        pytest.raises(ScriptError, match="stopped by itself with exit code 5, before it had"),
    ):
        observe(trials)
