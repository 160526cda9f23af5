"""Its modules have a __call__ of their own, which calls forward, as a library for Gaussian processes has."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(nn.Module):
    def __call__(self, *inputs, **kwargs):
        outputs = self.forward(*inputs, **kwargs)
        if not torch.is_tensor(outputs):
            raise RuntimeError(f"a module returned {type(outputs).__name__}")
        return outputs


class Kernel(Module):
    def __init__(self):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.zeros(1))
        self.register_buffer("upper_bound", torch.tensor(float("inf")))

    def forward(self, a, b):
        lengthscale = nn.functional.softplus(self.raw_lengthscale).clamp(max=float(self.upper_bound))
        return torch.exp(-0.5 * torch.cdist(a / lengthscale, b / lengthscale).square())


class SparseRegression(Module):
    def __init__(self, points):
        super().__init__()
        self.points = nn.Parameter(points.clone())
        self.weights = nn.Linear(len(points), 1)
        self.kernel = Kernel()

    def forward(self, x):
        return self.weights(self.kernel(x, self.points)).squeeze(-1)


torch.manual_seed(0)
x = torch.rand(640, 3) * 2 - 1
y = torch.sin(3 * x.sum(-1)) + 0.1 * torch.randn(640)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = SparseRegression(x[:64])
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
step = 0
for _ in range(7):
    for x_batch, y_batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x_batch), y_batch)
        loss.backward()
        optimizer.step()
        step += 1
        print("step", step, loss.item())
model.eval()
with torch.no_grad():
    print("error", (model(x) - y).abs().mean().item())
