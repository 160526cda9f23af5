"""A recurrent network learns to go on with waves; the batches are cut by hand."""

import argparse

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        return self.layers(waves)


def waves(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    phases = torch.rand(n, 1, generator=generator) * 6.28
    return torch.sin(torch.arange(129) * 0.2 + phases) + 0.1 * torch.randn(n, 129, generator=generator)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    series = waves(20480)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(arguments.epochs):
        for chosen in torch.randperm(len(series)).split(512):
            batch = series[chosen]
            forecast = model(batch[:, :128])
            loss = nn.functional.mse_loss(forecast, batch[:, 128:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
