"""Only evaluates a model: no backward pass, no optimizer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).eval()
loader = DataLoader(TensorDataset(torch.randn(1000, 10)), batch_size=50)

counts = torch.zeros(3, dtype=torch.long)
with torch.no_grad():
    for (x,) in loader:
        counts += torch.bincount(model(x).argmax(dim=1), minlength=3)
print("predicted", counts.tolist())
