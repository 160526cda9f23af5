"""A neural ODE: for each pass the solver puts the function that is trained into a module of its own."""

import torch
from torch import nn

STEPS, POINTS, LENGTH, BATCH = 120, 200, 5, 20


class Solver(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, t, y):
        return self.function(t, y)


def odeint(function, y, times):
    """Runge-Kutta steps of fourth order."""
    f, found = Solver(function), [y]
    for i in range(len(times) - 1):
        t, following = times[i], times[i + 1]
        h = following - t
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(following, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(y)
    return torch.stack(found)


class Spiral(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]))

    def forward(self, t, y):
        return y**3 @ self.a


class Func(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t, y):
        return self.net(y**3)


torch.manual_seed(0)
times, start = torch.linspace(0.0, 5.0, POINTS), torch.tensor([[2.0, 0.0]])
with torch.no_grad():
    truth = odeint(Spiral(), start, times)

func = Func()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
for step in range(1, STEPS + 1):
    begins = torch.randperm(POINTS - LENGTH)[:BATCH]
    seen = torch.stack([truth[begins + i] for i in range(LENGTH)])
    optimizer.zero_grad()
    loss = (odeint(func, truth[begins], times[:LENGTH]) - seen).abs().mean()
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
    if step % 30 == 0:
        with torch.no_grad():
            print("off by", (odeint(func, start, times) - truth).abs().mean().item())
