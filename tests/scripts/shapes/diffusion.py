"""A diffusion model predicts noise at random times; an average of its weights draws samples each epoch."""

import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TIMES = 40


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.inside, self.middle, self.outside = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, x, t):
        angles = t.float().unsqueeze(1) * torch.exp(-math.log(1000) * torch.arange(8) / 8)
        h = self.inside(x) + self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        return self.outside(torch.relu(self.middle(torch.relu(h))))


@torch.no_grad()
def sample(model, alphas, kept, count=32):
    x = torch.randn(count, 2)
    for t in reversed(range(TIMES)):
        noise = model(x, torch.full((count,), t))
        x = (x - (1 - alphas[t]) / (1 - kept[t]).sqrt() * noise) / alphas[t].sqrt()
        if t:
            x = x + (1 - alphas[t]).sqrt() * torch.randn_like(x)
    return x


def main():
    torch.manual_seed(0)
    alphas = 1 - torch.linspace(1e-4, 0.2, TIMES)
    kept = alphas.cumprod(0)
    angle = torch.rand(640) * 2 * math.pi
    points = torch.stack([angle.cos(), angle.sin()], dim=1) * (0.5 + (angle > math.pi).float()).unsqueeze(1)
    loader = DataLoader(TensorDataset(points), batch_size=32, shuffle=True, drop_last=True)
    model = Denoiser()
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(7):
        for (x,) in loader:
            t = torch.randint(0, TIMES, (x.size(0),))
            noise = torch.randn_like(x)
            share = kept[t].unsqueeze(1)
            loss = nn.functional.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
                    mine.lerp_(theirs, 0.05)
            step += 1
            print("step", step, loss.item())
        print("radius", epoch, sample(average, alphas, kept).norm(dim=1).mean().item())


if __name__ == "__main__":
    main()
