"""Binary hidden units, trained through an autograd Function of its own (straight-through)."""

import torch
from torch import nn


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


class BinaryNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 32)
        self.outer = nn.Linear(32, 2)

    def forward(self, x):
        return self.outer(Sign.apply(self.inner(x)))


def main():
    torch.manual_seed(0)
    net = BinaryNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(1, 151):
        x = torch.randn(60, 8)
        y = (x[:, 0] * 2 + x[:, 3] > 0).long()
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, loss.item())


if __name__ == "__main__":
    main()
