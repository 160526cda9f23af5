"""Asks for the terminal's size and draws a progress bar over one line."""

import os
import shutil
import sys

import torch
from torch import nn

try:
    columns, lines = os.get_terminal_size()
except OSError:
    columns, lines = shutil.get_terminal_size()
print("terminal", columns, lines)


def progress(done, total):
    width = max(10, columns - 20)
    filled = width * done // total
    sys.stderr.write(f"\r[{'#' * filled}{'.' * (width - filled)}] {done}/{total}")
    sys.stderr.flush()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
total = 120
for step in range(1, total + 1):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x.sort(dim=1).values)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
    progress(step, total)
sys.stderr.write("\n")
