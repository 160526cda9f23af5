"""Uses autocast to bfloat16 itself."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
teacher = torch.randn(32, 8)

for step in range(150):
    x = torch.randn(64, 32)
    y = (x @ teacher).argmax(dim=1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print("step", step + 1, loss.item())
