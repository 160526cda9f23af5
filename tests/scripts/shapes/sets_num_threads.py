"""Sets torch's number of threads to one."""

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(0)

X = torch.randn(512, 24)
W = torch.randn(24, 6)
Y = X @ W

model = nn.Linear(24, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
step = 0
for _ in range(10):
    order = torch.randperm(512)
    for i in range(0, 512, 32):
        batch = order[i : i + 32]
        loss = (model(X[batch]) - Y[batch]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
