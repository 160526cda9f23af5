"""Devices written into a script are found with a line that would run anywhere; nothing is run for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.scripts.devices import CHOICE, hard_coded_devices
from hasten.scripts.workspace import Script


def found(folder: Path, text: str, name: str = "train.py") -> list[tuple[int, str]]:
    path = folder / name
    path.write_text(text)
    return [(item.line, item.instead) for item in hard_coded_devices(Script(path, ()))]


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("model = Net().cuda()", "model = Net().to(device)"),
        ("x = x.cuda(0, non_blocking=True)", "x = x.to(device)"),
        ("x, y = x.to('cuda:1'), y.to(\"cuda\", s)", "x, y = x.to(device), y.to(device, s)"),
        ("d = torch.device('cpu')", CHOICE.replace("device", "d", 1)),
        ("device = 'cuda:0'", CHOICE),
        ("x = x.to(torch.device('cuda', 1))", "x = x.to(torch.device(device.type, 1))"),
        ("x = torch.zeros(2, device='mps')  # größer", "x = torch.zeros(2, device=device)  # größer"),
        ("with torch.autocast('cuda', dtype=d): pass", "with torch.autocast(device.type, dtype=d): pass"),
        ("with torch.cuda.amp.autocast(): pass", "with torch.autocast(device.type): pass"),
        ("s = torch.cuda.amp.GradScaler(enabled=e)", "s = torch.amp.GradScaler(device.type, enabled=e)"),
        ("s = torch.load(p, map_location='cuda:0')", "s = torch.load(p, map_location=device)"),
        ("torch.set_default_device('xpu')", "torch.set_default_device(device)"),
    ],
)  # fmt: skip
def test_a_device_is_found_with_the_line_that_fits_all(tmp_path: Path, written: str, instead: str) -> None:
    assert found(tmp_path, f"import torch\n{written}\n") == [(2, instead)]
    compile(instead, "", "exec")


@pytest.mark.parametrize(
    "written",
    [
        "d = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "if torch.cuda.is_available():\n    model.cuda()",
        "loss = loss.to('cpu')",
        "state = torch.load(p, map_location='cpu')",
        "x = x.to(torch.float32)",
        "torch.cuda.synchronize()",
        "words = ['cuda']",
        "name = 'cuda'",
        CHOICE,
    ],
)
def test_what_is_asked_for_or_harmless_is_left_alone(tmp_path: Path, written: str) -> None:
    assert found(tmp_path, f"import torch\n{written}\n") == []


def test_modules_next_to_the_script_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "net.py").write_text("import train\nnet = Net().cuda()\n")
    (tmp_path / "unrelated.py").write_text("net = Net().cuda()\n")
    path = tmp_path / "train.py"
    path.write_text("import json\nfrom parts import net\n")
    (item,) = hard_coded_devices(Script(path, ()))
    assert (Path(item.file).name, item.line) == ("net.py", 2)


def test_a_notebooks_cells_are_named(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": text} for text in ("%pip list\n", "model.cuda()\n")]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}}))
    (item,) = hard_coded_devices(Script(path, ()))
    assert item.file.endswith("cell 2")
    assert item.instead == "model.to(device)"


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.py cannot be read"):
        found(tmp_path, "def (:\n")
