"""Meta-learning on sine waves: a step within the step, then functional_call with the stepped weights."""

import torch
from torch import nn
from torch.func import functional_call


class Sine:
    def __init__(self):
        self.amplitude, self.phase = 0.1 + 4.9 * torch.rand(()), 3.14 * torch.rand(())

    def draw(self, count):
        x = 10 * torch.rand(count, 1) - 5
        return x, self.amplitude * torch.sin(x + self.phase)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    meta = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.MSELoss()
    for step in range(1, 121):
        total = 0.0
        for _ in range(4):
            task = Sine()
            weights = dict(model.named_parameters())
            x, y = task.draw(10)
            inner = loss_of(functional_call(model, weights, (x,)), y)
            gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            stepped = {name: w - 0.01 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
            x, y = task.draw(10)
            total = total + loss_of(functional_call(model, stepped, (x,)), y)
        loss = total / 4
        meta.zero_grad()
        loss.backward()
        meta.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
