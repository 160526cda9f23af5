"""What a script writes during trials: real workers, real folders."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from hasten.bench.process import ScriptOver
from hasten.records.plan import Plan
from tests.bench.workers import stage_for

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
    with stage_for(tmp_path, WRITES) as stage:
        with stage.worker() as first:
            first.wait_started()
            assert first.protection == "overlay"
            stage.keep_preparations(first)
            first.steps(3)
        assert list(layers.iterdir())
        with stage.worker(Plan({"bf16": {}})) as later:
            later.wait_started()
            later.steps(3)
    assert printed(tmp_path, 1) == "notes.txt | of the user's"
    assert printed(tmp_path, 2) == "download.txt notes.txt | of the user's"
    assert files(tmp_path / "script") == {"notes.txt": "of the user's"}
    assert list(layers.iterdir()) == []


def test_a_script_that_prepares_nothing_leaves_nothing_to_keep(tmp_path: Path) -> None:
    with stage_for(tmp_path, "print('again')") as stage:
        for _ in range(2):
            with stage.worker() as worker, pytest.raises(ScriptOver):
                worker.wait_started()
            stage.keep_preparations(worker)
    assert printed(tmp_path, 2) == "again"


def test_layers_are_removed_although_the_script_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = tmp_path / "layers"
    layers.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(layers))
    with stage_for(tmp_path, "raise ValueError") as stage, stage.worker() as worker:
        assert list(layers.iterdir())
        with pytest.raises(ScriptOver):
            worker.wait_started()
    assert list(layers.iterdir()) == []


@pytest.mark.parametrize(("seed", "said"), [(5, "5"), (None, "random")])
def test_a_seed_reaches_hashing_too(tmp_path: Path, seed: int | None, said: str) -> None:
    source = "import os\nprint(os.environ.get('PYTHONHASHSEED', 'random'))"
    with stage_for(tmp_path, source) as stage:
        stage.environment = {k: v for k, v in stage.environment.items() if k != "PYTHONHASHSEED"}
        with stage.worker(seed=seed) as worker, pytest.raises(ScriptOver):
            worker.wait_started()
    assert printed(tmp_path, 1) == said


def test_without_a_trial_folder_the_output_goes_where_ours_goes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "import sys\nprint('out')\nprint('error', file=sys.stderr)"
    for aside in (False, True):
        with stage_for(tmp_path, source) as stage:
            stage.trial_folder, stage.stdout_to_stderr = None, aside
            with stage.worker() as worker, pytest.raises(ScriptOver):
                worker.wait_started()
        told = capfd.readouterr()
        assert told.out == ("" if aside else "out\n")
        assert "error\n" in told.err
        assert ("out\n" in told.err) is aside
