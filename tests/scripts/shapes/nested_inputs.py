"""The model's input is a dict that holds a tuple and another dict."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rides(Dataset):
    def __init__(self, n):
        self.start, self.end = torch.rand(n, 2), torch.rand(n, 2)
        self.hour = torch.randint(24, (n,))
        distance = (self.end - self.start).norm(dim=1)
        self.minutes = 10 * distance * (1 + 0.5 * (self.hour > 16))

    def __len__(self):
        return len(self.hour)

    def __getitem__(self, i):
        return {
            "route": (self.start[i], self.end[i]),
            "when": {"hour": self.hour[i]},
        }, self.minutes[i]


class Estimator(nn.Module):
    def __init__(self):
        super().__init__()
        self.hour = nn.Embedding(24, 4)
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ride):
        start, end = ride["route"]
        hour = self.hour(ride["when"]["hour"])
        return self.layers(torch.cat([start, end, hour], dim=1)).squeeze(1)


torch.manual_seed(0)
loader = DataLoader(Rides(1000), batch_size=25, shuffle=True)
model = Estimator()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
step = 0
for _epoch in range(4):
    for ride, minutes in loader:
        loss = nn.functional.l1_loss(model(ride), minutes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
