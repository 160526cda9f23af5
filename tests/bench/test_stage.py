"""What a script writes during trials: real workers, real folders."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from hasten.bench.stage import offline
from hasten.bench.workers.ending import ScriptOver
from hasten.errors import HastenError, Refusal
from hasten.launch.ranks_of_plan import Wish
from hasten.records.plan import Plan
from hasten.scripts.sources import Sources
from hasten.scripts.workspace import Script
from tests.bench.real_workers import one_thread, trials_for
from tests.inside.sandbox.test_landlock import needs_landlock

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux")

WRITES = """
    from ground import *
    from pathlib import Path

    here = Path(__file__).parent
    print(*sorted(p.name for p in here.glob("*.txt")), "|", (here / "notes.txt").read_text(), flush=True)
    (here / "download.txt").write_text("prepared")
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (pictures, labels) in enumerate(batches(Pictures())):
        train_step(model, optimizer, pictures, labels)
        (here / "checkpoint.txt").write_text(str(step))
        (here / "notes.txt").write_text("overwritten")
"""


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".txt"}


def printed(folder: Path, worker: int) -> str:
    return (folder / f"output/worker-{worker:03}.stdout").read_text().strip()


def test_trials_write_nothing_but_their_preparations_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test for the whole course, as a tune takes it: two workers, and the folders afterwards."""
    layers = tmp_path / "layers"
    layers.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(layers))
    (tmp_path / "script").mkdir()
    (tmp_path / "script/notes.txt").write_text("of the user's")
    with trials_for(tmp_path, WRITES) as trials:
        with trials.worker() as first:
            first.wait_started()
            assert first.protection == "overlay"
            trials.keep_preparations(first)
            first.steps(3)
        assert list(layers.iterdir())
        with trials.worker(Plan({"bf16": {}})) as later:
            later.wait_started()
            later.steps(3)
    assert printed(tmp_path, 1) == "notes.txt | of the user's"
    assert printed(tmp_path, 2) == "download.txt notes.txt | of the user's"
    assert files(tmp_path / "script") == {"notes.txt": "of the user's"}
    assert list(layers.iterdir()) == []


@needs_landlock
@pytest.mark.parametrize("required", [True, False])
def test_where_writes_cannot_be_led_elsewhere_they_are_denied_unless_the_user_allows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    monkeypatch.setattr("hasten.bench.workers.trial_files.make_layers", lambda announce: "")
    with trials_for(tmp_path, "open(__file__, 'a').write('# more')", protect=required) as trials:
        with trials.worker() as worker, pytest.raises(ScriptOver) as over:
            worker.wait_started()
        assert (worker.protection, dict(worker.uppers)) == ("landlock" if required else "off", {})
        trials.keep_preparations(worker)
    assert over.value.ended.denied.startswith("there is no folder" if required else "")
    assert ("--allow-writes" in str(over.value)) is required
    assert (tmp_path / "script/train.py").read_text().endswith("# more") is not required


def test_a_script_that_prepares_nothing_leaves_nothing_to_keep(tmp_path: Path) -> None:
    with trials_for(tmp_path, "print('again')") as trials:
        for _ in range(2):
            with trials.worker() as worker, pytest.raises(ScriptOver):
                worker.wait_started()
            trials.keep_preparations(worker)
    assert printed(tmp_path, 2) == "again"


def test_layers_are_removed_although_the_script_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = tmp_path / "layers"
    layers.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(layers))
    with trials_for(tmp_path, "raise ValueError") as trials, trials.worker() as worker:
        assert list(layers.iterdir())
        with pytest.raises(ScriptOver):
            worker.wait_started()
    assert list(layers.iterdir()) == []


@pytest.mark.parametrize(("seed", "said"), [(5, "5"), (None, "random")])
def test_a_seed_reaches_hashing_too(tmp_path: Path, seed: int | None, said: str) -> None:
    source = "import os\nprint(os.environ.get('PYTHONHASHSEED', 'random'))"
    environment = {key: value for key, value in one_thread().items() if key != "PYTHONHASHSEED"}
    with (
        trials_for(tmp_path, source, environment=environment) as trials,
        trials.worker(seed=seed) as worker,
        pytest.raises(ScriptOver),
    ):
        worker.wait_started()
    assert printed(tmp_path, 1) == said


OFFLINE = {
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    "WANDB_MODE": "offline",
    "COMET_MODE": "offline",
    "COMET_START_ONLINE": "0",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_TRACKING_URI": "file:///tmp/a%20b/mlruns",
    "MLFLOW_REGISTRY_URI": "file:///tmp/a%20b/mlruns",
}


def test_trackers_are_offline_whatever_the_user_had_set() -> None:
    servers = dict.fromkeys(OFFLINE, "https://server") | {"WANDB_MODE": "online", "MLFLOW_RUN_ID": "7"}
    assert offline({"PATH": "/bin"}, "/tmp/a b") == {"PATH": "/bin", **OFFLINE}
    assert offline({**servers, "WANDB_PROJECT": "p"}, "/tmp/a b") == {"WANDB_PROJECT": "p", **OFFLINE}


@pytest.mark.parametrize(
    ("name", "value"), [("WANDB_MODE", "disabled"), ("COMET_MODE", "DISABLED"), ("NEPTUNE_MODE", "debug")]
)
def test_a_tracker_that_is_switched_off_stays_off(name: str, value: str) -> None:
    assert offline({name: value}, "/tmp/a b") == {**OFFLINE, name: value}


def test_a_worker_is_started_with_trackers_offline(tmp_path: Path) -> None:
    source = "import os\nprint(os.environ['WANDB_MODE'], os.environ['MLFLOW_TRACKING_URI'])"
    with trials_for(tmp_path, source) as trials:
        with trials.worker() as worker, pytest.raises(ScriptOver):
            worker.wait_started()
        mode, uri = printed(tmp_path, 1).split()
        runs = Path(uri.removeprefix("file://"))
        assert (mode, runs.parent.is_dir()) == ("offline", True)
    assert not runs.parent.exists()


def test_without_a_place_for_layers_there_is_one_for_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("hasten.bench.workers.trial_files.make_layers", lambda announce: "")
    with trials_for(tmp_path / "here", "print('never')"):
        (made,) = tmp_path.glob("hasten-*")
    assert not made.exists()


def test_without_a_trial_folder_the_output_goes_where_ours_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "import sys\nprint('out')\nprint('error', file=sys.stderr)"
    for aside in (False, True):
        with trials_for(tmp_path, source, stdout_to_stderr=aside) as trials:
            trials.folder = None
            with trials.worker() as worker, pytest.raises(ScriptOver):
                worker.wait_started()
        told = capfd.readouterr()
        assert told.out == ("" if aside else "out\n")
        assert "error\n" in told.err
        assert ("out\n" in told.err) is aside


# ---- a script that is edited between two workers
TRAINS = """
    from ground import *
    import late

    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (pictures, labels) in enumerate(batches(Pictures())):
        train_step(model, optimizer, pictures, labels)
        if step == 2:
            import later_still
"""


@pytest.mark.attack("truth")
def test_no_worker_starts_from_other_files_than_the_first(tmp_path: Path) -> None:
    """The script, what it imported before its first step, and what it imported since."""
    (tmp_path / "script").mkdir()
    for name in ("late.py", "later_still.py", "unused.py"):
        (tmp_path / "script" / name).write_text("x = 1\n")
    with trials_for(tmp_path, TRAINS) as trials:
        trials.sources = Sources(Script(Path(trials.stage.argv[0]), ()), "tuned")
        with trials.worker() as worker:
            worker.wait_started()
            assert sorted(trials.sources.digests().modules) == ["ground.py", "late.py"]
            worker.steps(4)
        assert sorted(trials.sources.digests().modules) == ["ground.py", "late.py", "later_still.py"]
        (tmp_path / "script/unused.py").write_text("x = 2\n")
        trials.worker().stop()
        (tmp_path / "script/later_still.py").write_text("x = 2\n")
        with pytest.raises(Refusal, match=r"later_still\.py changed while .*train\.py was tuned"):
            trials.worker()
        with pytest.raises(Refusal, match=r"later_still\.py changed"):
            trials.ranks(Wish(2), str(tmp_path), None, lambda line: None)


@pytest.mark.attack("together")
@pytest.mark.parametrize("full", ["output", "aside"])
def test_where_the_disk_is_full_no_worker_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    """Else the script would be blamed for what it cannot print or write."""
    original = os.statvfs

    def statvfs(path: str | Path) -> os.statvfs_result:
        found = list(original(path))
        if Path(path).name == full:
            found[3] = found[4] = 1  # blocks that are left
        return os.statvfs_result(found)

    with trials_for(tmp_path, WRITES) as trials:
        monkeypatch.setattr(os, "statvfs", statvfs)
        with pytest.raises(HastenError, match=r"^the disk is full: \d+ KiB are left in .*Make room and run"):
            trials.worker()
