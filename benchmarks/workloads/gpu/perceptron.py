"""Wide linear layers. The argument is the number of samples in a batch: with few, nearly all of a step is the
optimizer's; with many, products.
"""

import sys

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
width, many = 4096, int(sys.argv[1])
model = nn.Sequential(
    *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
    *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 16)),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
inputs = torch.randn(4 * many, width, device=device)
labels = torch.randint(0, 16, (4 * many,), device=device)
while True:
    for chosen in torch.randperm(4 * many, device=device).split(many):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
