"""A physics-informed network: one call of LBFGS is the whole training, and its closure prints."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, 20),
            nn.Tanh(),
            nn.Linear(20, 20),
            nn.Tanh(),
            nn.Linear(20, 20),
            nn.Tanh(),
            nn.Linear(20, 1),
        )

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], dim=1))


class Burgers:
    def __init__(self):
        torch.manual_seed(0)
        self.net = Net()
        self.x = (2 * torch.rand(500, 1) - 1).requires_grad_()
        self.t = torch.rand(500, 1).requires_grad_()
        self.x_0 = torch.linspace(-1, 1, 100)[:, None]
        self.u_0 = -torch.sin(torch.pi * self.x_0)
        self.evaluations = 0
        self.optimizer = torch.optim.LBFGS(
            self.net.parameters(),
            lr=1.0,
            max_iter=150,
            max_eval=150,
            history_size=50,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

    def residual(self):
        u = self.net(self.x, self.t)
        u_t, u_x = torch.autograd.grad(u.sum(), [self.t, self.x], create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), self.x, create_graph=True)
        return u_t + u * u_x - 0.01 / torch.pi * u_xx

    def closure(self):
        self.optimizer.zero_grad()
        begins = self.net(self.x_0, torch.zeros_like(self.x_0))
        loss = (begins - self.u_0).square().mean() + self.residual().square().mean()
        loss.backward()
        self.evaluations += 1
        print("step", self.evaluations, loss.item())
        return loss

    def train(self):
        self.net.train()
        self.optimizer.step(self.closure)


if __name__ == "__main__":
    Burgers().train()
