"""A sampler of its own: as many samples of the rare class as of the common one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Points(Dataset):
    def __init__(self, n):
        self.y = (torch.rand(n) < 0.1).long()
        self.x = torch.randn(n, 6) + 1.5 * self.y.unsqueeze(1)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Balanced(Sampler):
    def __init__(self, labels, length):
        self.classes = [torch.nonzero(labels == c).flatten().tolist() for c in (0, 1)]
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        for i in range(self.length):
            members = self.classes[i % 2]
            yield members[int(torch.randint(len(members), ()))]


torch.manual_seed(0)
dataset = Points(1000)
loader = DataLoader(dataset, batch_size=20, sampler=Balanced(dataset.y, 1000))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = nn.CrossEntropyLoss()

step = 0
for _ in range(3):
    for x, y in loader:
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
