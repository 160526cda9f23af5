"""A universal perturbation is trained by an optimizer of its own, against a network that others trained."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 5)).eval()
images = torch.rand(320, 3, 8, 8)
with torch.no_grad():
    labels = network(images).argmax(1)
loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
delta = torch.zeros(1, 3, 8, 8, requires_grad=True)
optimizer = torch.optim.SGD([delta], lr=0.1)
step = 0
for _ in range(7):
    for x, y in loader:
        loss = -F.cross_entropy(network((x + delta).clamp(0, 1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            delta.clamp_(-0.1, 0.1)
        step += 1
        print("step", step, loss.item())
