"""One model, two tasks: two forward passes a step, through two heads, and the losses summed."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"kind": nn.Linear(32, 3), "size": nn.Linear(32, 1)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


torch.manual_seed(0)
x = torch.randn(960, 10)
kind = x[:, :3].argmax(dim=1)
size = x.pow(2).mean(dim=1, keepdim=True)
loader = DataLoader(TensorDataset(x, kind, size), batch_size=32, shuffle=True)

model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
step = 0
for _epoch in range(5):
    for inputs, kinds, sizes in loader:
        kind_loss = nn.functional.cross_entropy(model(inputs, "kind"), kinds)
        size_loss = nn.functional.mse_loss(model(inputs, "size"), sizes)
        loss = kind_loss + size_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
