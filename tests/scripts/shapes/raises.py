"""Raises an exception of its own in the third step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    def __init__(self):
        self.values = torch.randn(320, 4)
        self.values[40] = float("nan")

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        value = self.values[index]
        if value.isnan().any():
            raise ValueError(f"reading {index} is not a number")
        return value, value.sum(dim=0, keepdim=True)


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(DataLoader(Readings(), batch_size=16), start=1):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
