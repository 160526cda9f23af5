"""The model holds a copy of itself that averages its weights; passes run under autocast, if asked for."""

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-amp", dest="amp", action="store_false")
args = parser.parse_args()


class SelfTeaching(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
        self.teacher = copy.deepcopy(self.student)

    def forward(self, x):
        with torch.no_grad():
            aim = self.teacher(x)
        return self.student(x + 0.1 * torch.randn_like(x)), aim

    @torch.no_grad()
    def average(self, decay=0.9):
        for mean, p in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            mean.lerp_(p, 1 - decay)


torch.manual_seed(0)
model = SelfTeaching()
optimizer = torch.optim.AdamW(model.student.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for step in range(1, 151):
    x = torch.randn(28, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.amp):
        guess, aim = model(x)
        loss = nn.functional.mse_loss(guess, aim) + nn.functional.cross_entropy(guess, x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    model.average()
    print("step", step, loss.item())
