"""A perceptron so small that a step is mostly Python and dispatch; its samples lie in memory. The argument is
the batch size: large batches are mostly gathered, sample by sample.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
samples = TensorDataset(torch.randn(65536, 64), torch.randint(0, 10, (65536,)))
loader = DataLoader(samples, batch_size=int(sys.argv[1]), shuffle=True)
while True:
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
