"""Two tasks with data sets of their own: the smaller one is cycled, and replayed from memory by itertools."""

from itertools import cycle

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 48), nn.ReLU())
        self.kind = nn.Linear(48, 4)
        self.size = nn.Linear(48, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.kind(h), self.size(h)


class Weighing(nn.Module):
    """Losses weighed by uncertainties that are learnt"""

    def __init__(self, losses):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(losses))

    def forward(self, *losses):
        return sum(torch.exp(-s) * loss + s for s, loss in zip(self.log_vars, losses, strict=True))


torch.manual_seed(0)
x = torch.randn(1200, 12)
kinds = DataLoader(TensorDataset(x[:800], x[:800, :4].argmax(1)), batch_size=16, shuffle=True)
sizes = DataLoader(TensorDataset(x[800:], x[800:].pow(2).mean(1, keepdim=True)), batch_size=16, shuffle=True)

net, weigh = TwoHeads(), Weighing(2)
optimizer = torch.optim.Adam([*net.parameters(), *weigh.parameters()], lr=5e-3)
step = 0
for _epoch in range(3):
    for (xk, kind), (xs, size) in zip(kinds, cycle(sizes)):
        kind_loss = nn.functional.cross_entropy(net(xk)[0], kind)
        size_loss = nn.functional.mse_loss(net(xs)[1], size)
        loss = weigh(kind_loss, size_loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
