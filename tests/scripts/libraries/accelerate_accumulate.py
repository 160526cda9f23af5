"""A small regression network, with Accelerate accumulating the gradients of four batches."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    set_seed(0)

    x = torch.randn(1600, 20)
    y = x[:, 0] * x[:, 1] + torch.sin(x[:, 2])
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.MSELoss()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    step = 0
    losses = []
    for _epoch in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = criterion(model(inputs), targets)
                accelerator.backward(loss)
                losses.append(loss.item())
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                step += 1
                print("step", step, sum(losses) / len(losses))
                losses.clear()


if __name__ == "__main__":
    main()
