"""Trains in float64 with all that makes a restart hard, as far as ``sys.argv[1:]`` asks for it."""

import copy
import json
import random
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

asked = set(sys.argv[1:])
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
random.seed(7)
np.random.seed(7)
torch.set_num_threads(1)


class Waves(Dataset):
    def __init__(self, count, augment):
        self.x = torch.randn(count, 6)
        self.y = self.x.prod(dim=1, keepdim=True)
        self.augment = augment

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = self.x[index]
        if self.augment:
            x = x + 0.1 * torch.randn(6) + 0.01 * random.random() + 0.01 * float(np.random.rand())
        return x, self.y[index]


workers = 2 if "workers" in asked else 0
train = DataLoader(Waves(240, "augmentation" in asked), batch_size=16, shuffle=True, num_workers=workers)
valid = DataLoader(Waves(60, False), batch_size=20)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Dropout(0.2), nn.BatchNorm1d(24), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
average = copy.deepcopy(model)
every = 3 if "accumulation" in asked else 1
best, kept, left, step, history = float("inf"), None, 2, 0, []
log = open("log.csv", "w")  # noqa: SIM115


def validate():
    model.eval()
    with torch.no_grad():
        losses = [nn.functional.mse_loss(model(x), y).item() for x, y in valid]
    model.train()
    return sum(losses) / len(losses)


for epoch in range(6):
    total = torch.zeros(())
    for number, (x, y) in enumerate(train):
        if "mixing" in asked and random.random() < 0.5:
            share = torch.rand(len(x), 1)
            x = share * x + (1 - share) * x.flip(0)
        loss = nn.functional.mse_loss(model(x), y)
        (loss / every).backward()
        total += loss.detach()
        if (number + 1) % every:
            continue
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters(), strict=False):
                mine.lerp_(theirs, 0.1)
        history.append(loss.item())
        print("step", step, loss.item(), flush=True)
        log.write(f"{step},{loss.item()}\n")
    score = validate()
    scheduler.step(score)
    print("epoch", epoch, score, total.item(), optimizer.param_groups[0]["lr"], flush=True)
    if score < best:
        best, kept, left = score, copy.deepcopy(model.state_dict()), 2
        torch.save(kept, "best.pt")
    else:
        left -= 1
        if not left and "stopping" in asked:
            break
log.close()
model.load_state_dict(torch.load("best.pt"))
states = {"model": model, "average": average}
weights = {f"{n}.{k}": v.tolist() for n, m in states.items() for k, v in m.state_dict().items()}
with open("weights.json", "w") as file:
    json.dump([weights, history, step], file)
