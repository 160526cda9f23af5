"""An optimizer for each parameter, which a hook steps as soon as the gradient is there, to spare memory."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizers = {p: torch.optim.Adam([p], lr=0.003, foreach=False) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    target = torch.randn(10, 1)
    for step in range(1, 141):
        x = torch.randn(24, 10)
        loss = nn.functional.mse_loss(model(x), x @ target)
        loss.backward()
        print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
