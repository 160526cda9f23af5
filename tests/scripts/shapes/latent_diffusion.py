"""Diffusion in the codes of a frozen autoencoder, which is never called itself: its ``encode`` calls its
layers, in each step and without gradients. Every fourth epoch codes are drawn and decoded.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Down(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, after)

    def forward(self, x):
        return self.norm(F.silu(self.conv(x)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.downs = nn.ModuleList([Down(8, 16), Down(16, 16)])
        self.moments = nn.Conv2d(16, 8, 1)
        self.back = nn.Sequential(nn.Conv2d(4, 48, 3, padding=1), nn.PixelShuffle(4))

    def encode(self, x):
        x = self.first(x)
        for down in self.downs:
            x = down(x)
        mean, spread = self.moments(nn.SiLU()(x)).chunk(2, dim=1)
        return mean + torch.exp(0.5 * spread.clamp(-8, 2)) * torch.randn_like(mean)

    def decode(self, codes):
        return self.back(codes)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = nn.Embedding(50, 32)
        self.inner = nn.Conv2d(4, 32, 3, padding=1)
        self.outer = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, codes, times):
        return self.outer(F.silu(self.inner(codes) + self.times(times)[:, :, None, None]))


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.rand(80, 3, 16, 16)), batch_size=8, shuffle=True)
    autoencoder = Autoencoder()
    autoencoder.eval()
    for parameter in autoencoder.parameters():
        parameter.requires_grad = False
    model = Denoiser()
    kept = torch.linspace(0.99, 0.05, 50)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    for epoch in range(12):
        model.train()
        for (pictures,) in loader:
            with torch.no_grad():
                codes = autoencoder.encode(pictures)
            noise, times = torch.randn_like(codes), torch.randint(0, 50, (len(codes),))
            share = kept[times][:, None, None, None]
            loss = F.mse_loss(model(share.sqrt() * codes + (1 - share).sqrt() * noise, times), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        if epoch % 4 == 3:
            model.eval()
            with torch.no_grad():
                codes = torch.randn(8, 4, 4, 4)
                for time in reversed(range(0, 50, 10)):
                    codes = codes - 0.2 * model(codes, torch.full((8,), time))
                print("drawn", autoencoder.decode(codes).mean().item())


if __name__ == "__main__":
    main()
