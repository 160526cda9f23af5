"""A GRU that forecasts a wave and carries its hidden state on from one piece to the next."""

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.gru = nn.GRU(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, h=None):
        y, h = self.gru(x, h)
        return self.out(y), h


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    t = torch.arange(0, 60, 0.1)
    phases = torch.linspace(0, 6, 16)
    waves = torch.sin(t[:, None] + phases).unsqueeze(-1)  # time, batch, 1

    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = 0
    for _epoch in range(5):
        h = None
        for start in range(0, 580, 20):
            x, y = waves[start : start + 20], waves[start + 1 : start + 21]
            prediction, h = model(x, h)
            h = h.detach()
            loss = nn.functional.mse_loss(prediction, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


main()
