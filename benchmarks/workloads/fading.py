"""A leaky filter over faint signals: its state fades into numbers too small for full precision."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
signal = torch.randn(32, 512)
while True:
    optimizer.zero_grad()
    state = torch.tanh(model(signal)) * 1e-36
    for _ in range(120):
        state = state * 0.9  # after 50 of them most are below 1.2e-38
    (state * 1e36).sum().backward()
    optimizer.step()
