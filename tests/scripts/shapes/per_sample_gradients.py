"""Gradients of single samples by torch.func, clipped and with noise added, as for differential privacy."""

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(parameters, x, y):
        return nn.functional.mse_loss(functional_call(model, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    gradients_of = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))
    for step in range(1, 131):
        x = torch.randn(32, 8)
        y = x[:, :1] - x[:, 1:2]
        detached = {name: p.detach() for name, p in model.named_parameters()}
        gradients, losses = gradients_of(detached, x, y)
        lengths = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (1 / lengths).clamp(max=1)
        for name, p in model.named_parameters():
            p.grad = torch.einsum("i,i...->...", scale, gradients[name]) / 32 + 0.01 * torch.randn_like(p)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} {losses.mean().item()}")


if __name__ == "__main__":
    main()
