"""Epochs of ten steps, at each of which the loader starts its two worker processes anew."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(160, 12)
    data = TensorDataset(x, x.pow(2).mean(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, multiprocessing_context="fork")
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    for _epoch in range(12):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
