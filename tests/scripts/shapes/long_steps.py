"""Each step takes long: the samples come slowly."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 4


class Slow(Dataset):
    def __init__(self, seconds, steps):
        self.seconds = seconds
        self.x = torch.randn(steps * BATCH_SIZE, 6)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        time.sleep(self.seconds / BATCH_SIZE)
        return self.x[index], 3 + self.x[index].sum(dim=0, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a step takes")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Slow(args.seconds, args.steps), batch_size=BATCH_SIZE, shuffle=True)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader, start=1):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
