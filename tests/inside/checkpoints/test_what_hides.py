"""Where what was trained hides from a restart: it is put back, or the restart is refused, but never wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from .restarting import continued, ended, kept, killed

BEGINNING = """
import io, itertools, os, tempfile, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
DATA = torch.randn(64, 4)
AIMS = DATA.sum(1, keepdim=True)
def train(after=lambda step: None, optimizer=optimizer):
    for step in range(1, 61):
        loss = (model(DATA) - AIMS).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(step)
        print("step", step, loss.item(), flush=True)
def show(model):
    print([values.sum().item() for values in model.state_dict().values()])
"""
PUT_BACK = {
    "a conjugate": """
z = torch.randn(64, 4, dtype=torch.complex64)
conjugate = z.conj()
imaginary = conjugate.imag
def use(step):
    model.weight.data += 0.001 * (z.imag.mean(0) - imaginary.mean(0))
train(use)
show(model)
""",
    "an optimizer's state by name": """
class Shared(torch.optim.SGD):
    def step(self):
        state = self.state["all"]
        norm = model.weight.grad.norm() if model.weight.grad is not None else 0
        state["sum"] = state.get("sum", torch.zeros(())) + norm
        super().step()
        model.weight.data += 0.001 * state["sum"]
train(optimizer=Shared(model.parameters(), lr=0.01))
show(model)
""",
    "slots": """
class Average:
    __slots__ = ("values",)
average = Average()
average.values = torch.zeros(1, 4)
def use(step):
    if step > 5:
        average.values += 0.1 * model.weight.grad
        model.weight.data -= 0.01 * average.values
train(use)
show(model)
""",
    "files that torch writes itself": """
def save(step):
    if step == 20:
        torch.jit.script(model).save("script")
        torch.jit.save(torch.jit.trace(model, DATA), "trace")
        torch.export.save(torch.export.export(model, (DATA,)), "export.pt2")
train(save)
show(torch.jit.load("script"))
show(torch.jit.load("trace"))
show(torch.export.load("export.pt2").module())
""",
    "a scaler": """
scaler = torch.amp.GradScaler("cpu")
def use(step):
    scaler.scale(model(DATA).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
train(use)
show(model)
""",
    "another folder, and an optimizer's state in a variable": """
os.makedirs("below", exist_ok=True)
os.chdir("below")
adam = torch.optim.AdamW(model.parameters(), lr=0.01)
def use(step):
    global last
    if step == 20:
        last = {"model": model.state_dict(), "optimizer": adam.state_dict()}
    if step == 50:  # the same tensors as the optimizer's
        adam.load_state_dict(last["optimizer"])
train(use, optimizer=adam)
show(model)
""",
    "a log that is read": """
log = open("log.csv", "w", buffering=1)
train(lambda step: log.write(f"{step}\\n"))
log.close()
print(open("log.csv").read().split())
""",
}
REFUSED = {
    "a file in memory": (
        """
best = io.BytesIO()
train(lambda step: torch.save(model.state_dict(), best) if step == 20 else None)
best.seek(0)
model.load_state_dict(torch.load(best))
show(model)
""",
        "best was ",
    ),
    "a temporary file": (
        """
best = tempfile.NamedTemporaryFile()
def save(step):
    if step == 20:
        torch.save(model.state_dict(), best)
        best.flush()
train(save)
model.load_state_dict(torch.load(best.name))
show(model)
""",
        "best was ",
    ),
    "a sampler": (
        """
class Numbered(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return DATA[index], AIMS[index], index
losses = torch.ones(64)
step = 0
for epoch in range(8):
    for x, y, index in DataLoader(Numbered(), 8, sampler=WeightedRandomSampler(losses, 64)):
        step += 1
        each = (model(x) - y).square().squeeze(1)
        losses[index] = each.detach()
        optimizer.zero_grad()
        each.mean().backward()
        optimizer.step()
        print("step", step, each.mean().item(), flush=True)
""",
        "drawn other samples",
    ),
    "worker processes": (
        """
step, aims = 0, AIMS.clone()
for epoch in range(8):
    with torch.no_grad():
        aims = AIMS + model(DATA)
    for x, y in DataLoader(TensorDataset(DATA, aims), 8, num_workers=1):
        step += 1
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item(), flush=True)
""",
        "num_workers=0",
    ),
    "a hidden tensor like another": (
        """
hidden, other = (itertools.cycle([torch.zeros(1, 4)]) for _ in range(2))
def use(step):
    if step > 5:
        model.weight.data -= 0.01 * next(hidden).add_(model.weight.grad)
train(use)
show(model)
""",
        "that no name leads to",
    ),
}


# Of those that take the same way, one is tried each time; what takes long, in the thorough run.
SELDOM = {
    *("a conjugate", "an optimizer's state by name", "a temporary file", "a hidden tensor like another"),
    *("files that torch writes itself", "a scaler", "worker processes", "slots", "a file in memory"),
    *("another folder, and an optimizer's state in a variable", "a sampler"),
}


def each(names: Iterable[str]) -> list[ParameterSet]:
    seldom = pytest.mark.thorough
    return [pytest.param(name, marks=[seldom] if name in SELDOM else [], id=name) for name in names]


def killed_in_the_middle(folder: Path, text: str) -> list[str]:
    (folder / "script.py").write_text(BEGINNING + text)
    command = kept(folder, script=Path("script.py"))
    killed(command, folder, 38, least=22)  # what is hidden at step 20 is in it
    return command


@pytest.mark.parametrize("name", each(PUT_BACK))
def test_it_is_put_back(tmp_path: Path, name: str) -> None:
    command = killed_in_the_middle(tmp_path, PUT_BACK[name])
    rest = continued(command, tmp_path).stdout
    (tmp_path / "kept").rename(tmp_path / "gone")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "run.json").write_bytes((tmp_path / "gone" / "run.json").read_bytes())
    assert ended(command, tmp_path).stdout.endswith(rest)


@pytest.mark.parametrize("name", each(REFUSED))
def test_it_is_refused(tmp_path: Path, name: str) -> None:
    text, words = REFUSED[name]
    command = killed_in_the_middle(tmp_path, text)
    refused = ended(command, tmp_path, code=2)
    assert words in refused.stderr
    assert refused.stdout == ""


def test_a_script_that_is_changed_while_it_runs_is_refused(tmp_path: Path) -> None:
    itself = 'open(__file__, "a").write("# changed\\n") if step == 5 else None'
    command = killed_in_the_middle(tmp_path, f"train(lambda step: {itself})")
    assert "it was changed or is gone" in ended(command, tmp_path, code=2).stderr
